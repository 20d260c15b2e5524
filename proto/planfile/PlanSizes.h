// Plans whose sizes are known when they run: what their expressions may say, and a plan for given sizes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Status.h"
#include "plan.pb.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace opc {

/// A value for each of a plan's sizes, in their order.
using SizeValues = std::vector<int64_t>;

/// Whether the plan leaves sizes open.
inline bool hasSizes(const plan::Plan &plan) { return plan.size_size() > 0; }
SizeValues largestSizes(const plan::Plan &plan);
SizeValues smallestSizes(const plan::Plan &plan);

/// Checks the sizes and every expression (OPC0822): names and ranges, known sizes alone, nothing that shrinks as a size
/// grows, no overflow, the bound at the largest sizes, no dimension below zero at the smallest. Then every dimension
/// lies between zero and its bound for all sizes in range. decodePlan() calls it.
Status checkPlanSizes(const plan::Plan &plan);

/// The dimension for sizes in range, of a plan that has been checked.
int64_t extentAt(const plan::Extent &extent, const SizeValues &sizes);
/// A tensor's shape for sizes in range.
std::vector<int64_t> dimsAt(const plan::Tensor &tensor, const SizeValues &sizes);
/// Gives every tensor of a checked plan its shape for sizes in range; what is left is a plan of fixed shapes.
void fixSizes(plan::Plan *plan, const SizeValues &sizes);

/// A tensor's shape in terms of the sizes: "n,784", "2*n,(h+1)/2". Empty when it does not depend on them.
std::string sizeText(const plan::Plan &plan, const plan::Tensor &tensor);

/// The sizes that give a tensor this shape, where its dimensions say: a size for each dimension that is one size alone;
/// nothing for sizes that no dimension is. False when a fixed dimension or the rank differs, or when two dimensions
/// disagree about a size; ranges are not checked.
bool sizesOf(const plan::Plan &plan, const plan::Tensor &tensor, const std::vector<int64_t> &dims,
             std::vector<std::optional<int64_t>> *sizes);

} // namespace opc
