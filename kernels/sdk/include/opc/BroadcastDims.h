// The dimensions of a walk over tensors that are broadcast together.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Shape.h"

#include <vector>

namespace opc {

/// A dimension of the output, and each input's stride in it: in elements, 0 where the input is broadcast.
struct BroadcastDim {
  int64_t size;
  DimVector strides;
};

/// The output's dimensions, innermost first: without those of one element, neighbours merged where every input's
/// strides allow it.
inline std::vector<BroadcastDim> broadcastDims(const Shape &out, const std::vector<Shape> &inputs) {
  std::vector<BroadcastDim> dims;
  DimVector step(inputs.size(), 1);
  const int64_t rank = out.NumAxes();
  for (int64_t axis = rank; axis-- > 0;) {
    BroadcastDim d{out.At(axis), DimVector(inputs.size())};
    for (size_t k = 0; k < inputs.size(); ++k) {
      const int64_t own = axis - (rank - inputs[k].NumAxes());
      const int64_t size = own >= 0 ? inputs[k].At(own) : 1;
      d.strides[k] = size == 1 ? 0 : step[k];
      step[k] *= size;
    }
    if (d.size == 1) continue;
    bool merge = !dims.empty();
    for (size_t k = 0; merge && k < inputs.size(); ++k)
      merge = d.strides[k] == dims.back().strides[k] * dims.back().size;
    if (merge)
      dims.back().size *= d.size;
    else
      dims.push_back(std::move(d));
  }
  return dims;
}

} // namespace opc
