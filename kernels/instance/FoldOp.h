// The constant folder: what an op makes of values that are known before any run. All that computes while it compiles
// asks here: the simplifier, the import of models, the gradients of loops, quantisation.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "RunOp.h"

#include <optional>
#include <string_view>
#include <vector>

namespace opc {

/// Results larger than this are computed in the run: a folded one lies in the plan.
constexpr int64_t kMostFoldedBytes = 1 << 20;

/// The results of an inferred op whose `operands` are known, in the order of its inputs, from the kernel that would
/// compute them later. Nothing where they are no function of the operands, where they are larger than `maxBytes`
/// together, and where there is no kernel or it fails: it fails again in the run, where the error names the op.
std::optional<std::vector<OpTensor>> foldOp(const Registry &registry, const OpInstance &op,
                                            const std::vector<std::string_view> &operands,
                                            int64_t maxBytes = kMostFoldedBytes);

} // namespace opc
