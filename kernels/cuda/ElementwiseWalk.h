// How device code walks tensors that are broadcast together.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ElementwiseArguments.h"
#include "opc/Shape.h"

#include <algorithm>
#include <vector>

namespace opc::cuda {

static_assert(kElementwiseRank == kMaxRank);

/// The output's dimensions without those of one element, neighbours merged where every operand's strides allow it.
inline void walk(const Shape &out, const std::vector<Shape> &inputs, ElementwiseArguments *a) {
  struct Dim {
    int64_t size;
    int64_t stride[kElementwiseInputs];
  };
  std::vector<Dim> dims; // innermost first
  std::vector<int64_t> step(inputs.size(), 1);
  const int64_t rank = out.NumAxes();
  for (int64_t axis = rank; axis-- > 0;) {
    Dim d{out.At(axis), {}};
    for (size_t k = 0; k < inputs.size(); ++k) {
      const int64_t own = axis - (rank - inputs[k].NumAxes());
      const int64_t size = own >= 0 ? inputs[k].At(own) : 1;
      d.stride[k] = size == 1 ? 0 : step[k];
      step[k] *= size;
    }
    if (d.size == 1) continue;
    bool merge = !dims.empty();
    for (size_t k = 0; merge && k < inputs.size(); ++k) merge = d.stride[k] == dims.back().stride[k] * dims.back().size;
    if (merge)
      dims.back().size *= d.size;
    else
      dims.push_back(d);
  }
  a->n = out.elem_cnt();
  // One dimension at most: every input is the whole or one element.
  a->rank = dims.size() <= 1 ? 0 : static_cast<int32_t>(dims.size());
  for (size_t k = 0; k < inputs.size(); ++k)
    if (dims.empty() || dims.front().stride[k] != 0) a->whole |= 1u << k;
  std::reverse(dims.begin(), dims.end());
  for (int32_t d = 0; d < a->rank; ++d) {
    a->dims[d] = dims[static_cast<size_t>(d)].size;
    for (size_t k = 0; k < inputs.size(); ++k) a->strides[k][d] = dims[static_cast<size_t>(d)].stride[k];
  }
}

} // namespace opc::cuda
