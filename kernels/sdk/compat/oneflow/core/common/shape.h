// Shapes: the functions beside the class, which is the SDK's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "oneflow/core/common/data_type.h"
#include "oneflow/core/common/shape_vec.h"

namespace oneflow {

/// A shape as a message.
class ShapeProto {
public:
  int dim_size() const { return static_cast<int>(dims_.size()); }
  int64_t dim(int axis) const { return dims_.at(static_cast<size_t>(axis)); }
  void add_dim(int64_t size) { dims_.push_back(size); }
  const DimVector &dim() const { return dims_; }

private:
  DimVector dims_;
};

/// `shape` with ones in front, up to `rank` axes.
inline Shape CreateLeftExtendedShape(const ShapeView &shape, int rank) {
  CHECK_GE(rank, shape.NumAxes());
  DimVector dims(static_cast<size_t>(rank - shape.NumAxes()), 1);
  dims.insert(dims.end(), shape.begin(), shape.end());
  return Shape(dims);
}

inline int64_t ShiftNegativeAxis(int64_t axis, int64_t rank) {
  const int64_t shifted = axis < 0 ? axis + rank : axis;
  CHECK(shifted >= 0 && shifted < rank) << "axis " << axis << " of " << rank;
  return shifted;
}

/// `shape` with ones on `axes`; negative ones count from the end.
inline Shape CreateReducedShape(const ShapeView &shape, const AxisVector &axes) {
  Shape reduced = shape;
  for (int64_t axis : axes) reduced.Set(ShiftNegativeAxis(axis, shape.NumAxes()), 1);
  return reduced;
}

/// The same; no axes are all axes.
inline Shape CreateReducedShapeOrOnesShape(const ShapeView &shape, const AxisVector &axes) {
  return axes.empty() ? Shape::Ones(shape.NumAxes()) : CreateReducedShape(shape, axes);
}

} // namespace oneflow

namespace std {
template <> struct hash<::opc::Shape> {
  size_t operator()(const ::opc::Shape &shape) const {
    size_t seed = 0;
    for (int64_t dim : shape) ::oneflow::HashCombine(&seed, std::hash<int64_t>()(dim));
    return seed;
  }
};
} // namespace std
