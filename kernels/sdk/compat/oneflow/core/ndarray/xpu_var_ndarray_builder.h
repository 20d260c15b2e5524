// Makes arrays of a type.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "oneflow/core/ndarray/xpu_var_ndarray.h"

namespace oneflow {

template <class T> class XpuVarNdarrayBuilder final {
public:
  XpuVarNdarray<T> operator()(const Shape &shape, T *ptr) const { return XpuVarNdarray<T>(shape, ptr); }
};

} // namespace oneflow
