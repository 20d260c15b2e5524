// How device code walks tensors that are broadcast together.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ElementwiseArguments.h"
#include "opc/BroadcastDims.h"

#include <algorithm>
#include <vector>

namespace opc::cuda {

static_assert(kElementwiseRank == kMaxRank);

/// The output's dimensions without those of one element, neighbours merged where every operand's strides allow it.
inline void walk(const Shape &out, const std::vector<Shape> &inputs, ElementwiseArguments *a) {
  std::vector<BroadcastDim> dims = broadcastDims(out, inputs);
  a->n = out.elem_cnt();
  // One dimension at most: every input is the whole or one element.
  a->rank = dims.size() <= 1 ? 0 : static_cast<int32_t>(dims.size());
  for (size_t k = 0; k < inputs.size(); ++k)
    if (dims.empty() || dims.front().strides[k] != 0) a->whole |= 1u << k;
  std::reverse(dims.begin(), dims.end());
  for (int32_t d = 0; d < a->rank; ++d) {
    a->dims[d] = dims[static_cast<size_t>(d)].size;
    for (size_t k = 0; k < inputs.size(); ++k) a->strides[k][d] = dims[static_cast<size_t>(d)].strides[k];
  }
}

} // namespace opc::cuda
