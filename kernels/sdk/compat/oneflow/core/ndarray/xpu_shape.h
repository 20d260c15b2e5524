// XpuShape: a shape with its strides, for indices of arrays.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "oneflow/core/common/shape.h"
#include "oneflow/core/ndarray/xpu_util.h"

namespace oneflow {

class XpuShape final {
public:
  explicit XpuShape(const Shape &shape) : XpuShape(shape.ptr(), static_cast<int>(shape.NumAxes())) {}
  /// With ones in front, up to `rank` axes.
  XpuShape(const Shape &shape, int rank) : XpuShape(CreateLeftExtendedShape(shape, rank)) {}
  XpuShape(const int64_t *dims, int rank) : shape_(dims, rank), strides_(static_cast<size_t>(rank), 1) { setStrides(); }

  int64_t At(int64_t axis) const { return shape_.At(axis); }
  /// The elements that a step along the axis skips.
  int64_t DimElemNum(int64_t axis) const { return strides_.at(static_cast<size_t>(axis)); }
  int64_t Count(int64_t axis) const { return shape_.Count(axis); }
  size_t ElemNum() const { return static_cast<size_t>(shape_.elem_cnt()); }
  size_t HostElemNum() const { return ElemNum(); }
  size_t NumAxes() const { return static_cast<size_t>(shape_.NumAxes()); }
  bool operator==(const XpuShape &o) const { return shape_ == o.shape_; }
  bool operator!=(const XpuShape &o) const { return shape_ != o.shape_; }
  void Set(int64_t axis, int64_t size) {
    shape_.Set(axis, size);
    setStrides();
  }
  template <int rank> int64_t Coordinate2Offset(const int64_t *index) const {
    int64_t offset = 0;
    for (int i = 0; i < rank; ++i) offset += index[i] * strides_[static_cast<size_t>(i)];
    return offset;
  }
  template <int rank> void Offset2Coordinate(int64_t offset, int64_t *index) const {
    for (int i = 0; i < rank; ++i) {
      index[i] = offset / strides_[static_cast<size_t>(i)];
      offset %= strides_[static_cast<size_t>(i)];
    }
  }
  std::string ToString() const { return shape_.ToString(); }

private:
  void setStrides() {
    for (int64_t i = shape_.NumAxes() - 2; i >= 0; --i)
      strides_[static_cast<size_t>(i)] = strides_[static_cast<size_t>(i + 1)] * shape_.At(i + 1);
  }
  Shape shape_;
  DimVector strides_;
};

} // namespace oneflow
