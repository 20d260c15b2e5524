// The SBP signatures of an op on a mesh of any rank.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "NdSbp.h"
#include "OpInstance.h"

namespace opc {

/// A state for each tensor of an op on each dimension of the mesh.
struct NdSignature {
  std::vector<NdSbp> states; // of each input, then of each output, flat
  bool operator==(const NdSignature &o) const { return states == o.states; }
};

/// The signatures of an op on a mesh. `op` must have been inferred on the whole tensors. On each dimension of the mesh
/// the op has one of its 1-D signatures (signaturesOf) for what the outer dimensions leave:
/// - A signature that comes on several dimensions holds on as many devices as they have together: an axis that is split
///   on 2 and again on 3 devices has at least 6 elements; where an op wants exact divisions, it wants them by 6.
/// - Two different signatures do not split the same axis of a tensor.
/// - An op that is a view (OpDef::isView) has compound axes instead: (6) -> (2, 3) is (f1 f2) -> f1, f2. On each
/// dimension
///   a pair of axes may be split that start at the same element count of the local shapes and are equal, or both
///   divisible by the number of devices. So a split takes the leading factor of a compound, and the next factor once
///   that is used up: on 2x3, (6) -> (2, 3) has ([S(0), S(0)]) -> ([S(0), S(1)]).
/// Dimensions of one device are B. No signature leaves a device without elements of an axis that is split.
/// Order: by the signature on the outermost dimension, in the order of signaturesOf, then on the next; all-B is last.
/// Errors: those of signaturesOf.
Result<std::vector<NdSignature>> ndSignaturesOf(const OpInstance &op, const std::vector<int64_t> &meshDims);

/// "([S(0), B], [B, B]) -> ([S(0), B])"; on meshes of one dimension as signatureText.
std::string signatureText(const OpInstance &op, const NdSignature &signature);

} // namespace opc
