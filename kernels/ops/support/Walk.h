// A row-major walk of a box of strided dimensions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Shape.h"

namespace opc::ops {

struct StridedDim {
  int64_t size, stride;
};

/// Offsets in row-major order of the indices, from any starting position. Refers to `dims`.
class Walk {
public:
  Walk(const std::vector<StridedDim> &dims, int64_t at) : dims_(dims) {
    for (size_t k = dims.size(); k-- > 0;) {
      index_[k] = at % dims[k].size;
      at /= dims[k].size;
      offset += index_[k] * dims[k].stride;
    }
  }
  void next() {
    for (size_t k = dims_.size(); k-- > 0;) {
      offset += dims_[k].stride;
      if (++index_[k] < dims_[k].size) return;
      offset -= dims_[k].stride * dims_[k].size;
      index_[k] = 0;
    }
  }
  int64_t offset = 0;

private:
  const std::vector<StridedDim> &dims_;
  int64_t index_[kMaxRank + 1];
};

} // namespace opc::ops
