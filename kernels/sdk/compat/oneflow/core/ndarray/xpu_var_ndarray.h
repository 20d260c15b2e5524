// XpuVarNdarray: a pointer with a shape.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "oneflow/core/ndarray/xpu_shape.h"

namespace oneflow {

template <class T> class XpuVarNdarray final {
public:
  XpuVarNdarray(const Shape &shape, T *ptr) : shape_(shape), ptr_(ptr) {}
  XpuVarNdarray(const XpuShape &shape, T *ptr) : shape_(shape), ptr_(ptr) {}
  /// With ones in front of the shape, up to `rank` axes.
  XpuVarNdarray(const Shape &shape, T *ptr, int rank) : shape_(shape, rank), ptr_(ptr) {}

  const XpuShape &shape() const { return shape_; }
  const XpuShape &host_shape() const { return shape_; }
  T *ptr() const { return ptr_; }
  T *host_ptr() const { return ptr_; }

private:
  XpuShape shape_;
  T *ptr_;
};

} // namespace oneflow
