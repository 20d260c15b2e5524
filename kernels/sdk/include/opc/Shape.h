// Shape: the dimensions of a tensor, with the accessors that OneFlow's user ops use.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace opc {

using DimVector = std::vector<int64_t>;

/// The largest rank a tensor may have (OneFlow's SHAPE_MAX_AXIS_SIZE).
constexpr int64_t kMaxRank = 20;

/// Dimensions of a tensor, outermost first. Rank 0 is a scalar with one element; a dimension may be 0.
class Shape {
public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : dims_(dims) {}
  explicit Shape(DimVector dims) : dims_(std::move(dims)) {}
  Shape(const int64_t *dims, int64_t rank) : dims_(dims, dims + rank) {}
  /// `rank` ones.
  static Shape Ones(int64_t rank) { return Shape(DimVector(static_cast<size_t>(rank), 1)); }

  int64_t NumAxes() const { return static_cast<int64_t>(dims_.size()); }
  /// Throws ContractError when `axis` is outside [0, NumAxes()).
  int64_t At(int64_t axis) const;
  void Set(int64_t axis, int64_t value);
  /// The number of elements: the product of the dimensions, 1 for rank 0.
  int64_t elem_cnt() const { return Count(0); }
  /// The product of dimensions [begin, end).
  int64_t Count(int64_t begin, int64_t end) const;
  int64_t Count(int64_t begin) const { return Count(begin, NumAxes()); }
  const DimVector &dim_vec() const { return dims_; }
  DimVector &mut_dim_vec() { return dims_; }
  const int64_t *ptr() const { return dims_.data(); }
  int64_t *mut_ptr() { return dims_.data(); }
  void set_shape(const Shape &other) { dims_ = other.dims_; }
  void ToShape(Shape *out) const { *out = *this; }
  void ToDimVector(DimVector *out) const { *out = dims_; }
  /// Adds the dimensions to a message.
  template <class Message> void ToProto(Message *out) const {
    for (int64_t d : dims_) out->add_dim(d);
  }
  bool is_initialized() const { return true; }
  /// Broadcasts of OneFlow's reductions: the same shape with `axes` set to 1.
  Shape CreateReducedShape(const std::vector<int64_t> &axes) const;
  /// Without `axes`, each of which must have the size 1; (1) when none is left, as in OneFlow 0.3. Negative axes count
  /// from the end.
  Shape RemoveOnes(const std::vector<int64_t> &axes) const;
  /// The axes on which `wider`, of the same rank, differs: there this shape has 1.
  std::vector<int64_t> Axes4BroadcastTo(const Shape &wider) const;
  /// "(2,3)".
  std::string ToString() const;
  std::string DebugStr() const { return ToString(); }

  auto begin() const { return dims_.begin(); }
  auto end() const { return dims_.end(); }
  bool operator==(const Shape &o) const { return dims_ == o.dims_; }
  bool operator!=(const Shape &o) const { return dims_ != o.dims_; }
  bool operator<(const Shape &o) const { return dims_ < o.dims_; }

private:
  DimVector dims_;
};

/// "(2,3)".
inline std::ostream &operator<<(std::ostream &out, const Shape &shape) { return out << shape.ToString(); }

/// What Tensor::shape() returns in OneFlow. opc keeps one class for both: a view that outlives its tensor is no hazard.
using ShapeView = Shape;
using MutShapeView = Shape;

} // namespace opc
