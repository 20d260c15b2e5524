// The SBP signatures of an op: from its sharding rule, or as its definition lists them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "OpInstance.h"

#include <string>
#include <vector>

namespace opc {

/// The 1-D signatures of an op on `parts` devices, each with a state for every tensor, without repetitions: those that
/// its definition lists (SetGetSbpFn), or those that follow from its sharding rule, and at the end all-B. Without those
/// that split an axis of fewer elements than devices, or make a partial sum of a type without addition. `op` must have
/// been inferred. Errors: OPC0301 for a rule that does not fit the op, and a function that
/// fails, names an argument that the op does not have, or leaves an output open while something is cut. Inputs that it
/// leaves open are B.
///
/// A sharding rule gives, for each factor, the signature that splits it: a tensor with the factor on axis d is S(d),
/// one without it is B, an output without it is P when the factor is summed (other reductions have no signature here).
/// For each linear group: its inputs are P, the others B, the outputs P. A tensor's axis of size 1 where the factor is
/// larger is broadcast and does not have the factor. Inputs marked "+" are P where the outputs are; those marked "?"
/// may be, and where all else is B; outputs marked "?" are B in linear groups. A factor that an axis has as "c*" is cut
/// where `parts` divides all its axes. The order is that of the factors before ":", then of the first appearance.
Result<std::vector<SbpSignature>> signaturesOf(const OpInstance &op, int64_t parts);

/// What is wrong with a rule for whatever shapes: OPC0301 for a term too many, a factor that is reduced and in no term,
/// a Linear of an input that the op does not have, and a factor of an output in place of one that an input loses,
/// an output marked "+", and a factor that comes first and is in no term.
Status checkShardingRule(const user_op::OpDef &def, const user_op::ShardingRule &rule);

/// "(S(0), B) -> (S(0))", in the order of the op's arguments.
std::string signatureText(const OpInstance &op, const SbpSignature &signature);

} // namespace opc
