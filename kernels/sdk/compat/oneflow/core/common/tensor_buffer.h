// TensorBuffer: an array with a shape and a type of its own, as an element of a tensor.
//
// The class works, as kernels use it among themselves. Tensors of such elements do not exist in opc: a graph that asks
// for one is refused with the name of the type.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "oneflow/core/common/shape.h"

namespace oneflow {

class TensorBuffer {
public:
  OF_DISALLOW_COPY_AND_MOVE(TensorBuffer);
  TensorBuffer() = default;

  const Shape &shape() const { return shape_; }
  DataType data_type() const { return type_; }
  int64_t elem_cnt() const { return shape_.elem_cnt(); }
  size_t nbytes() const { return static_cast<size_t>(elem_cnt()) * GetSizeOfDataType(type_); }
  size_t capacity() const { return bytes_.capacity(); }
  template <class T = void> const T *data() const {
    CheckDataType<T>(type_);
    return bytes_.empty() ? nullptr : static_cast<const T *>(static_cast<const void *>(bytes_.data()));
  }
  template <class T = void> T *mut_data() {
    return const_cast<T *>(static_cast<const TensorBuffer *>(this)->data<T>());
  }

  void set_data_type(DataType type) { Resize(shape_, type); }
  void reserve(size_t bytes) { bytes_.reserve(bytes); }
  void Resize(const Shape &shape) { Resize(shape, type_); }
  /// Keeps the bytes that fit.
  void Resize(const Shape &shape, DataType type) {
    CHECK(type == kInvalidDataType || IsPODDataType(type)) << "a buffer of " << dataTypeName(type);
    shape_ = shape;
    type_ = type;
    bytes_.resize(nbytes());
  }
  void reset() { Resize(Shape({0}), kInvalidDataType); }
  void CopyFrom(const TensorBuffer &from) {
    shape_ = from.shape_;
    type_ = from.type_;
    bytes_ = from.bytes_;
  }
  void Swap(TensorBuffer *other) {
    std::swap(shape_, other->shape_);
    std::swap(type_, other->type_);
    bytes_.swap(other->bytes_);
  }

private:
  Shape shape_ = Shape({0});
  DataType type_ = kInvalidDataType;
  std::vector<char> bytes_;
};

} // namespace oneflow

template <>
struct opc::GetDataType<oneflow::TensorBuffer> : std::integral_constant<opc::DataType, opc::kTensorBuffer> {};
