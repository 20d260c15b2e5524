// HostTensor: a tensor in host memory that owns its bytes; what files are read into and sessions are fed with.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Dispatch.h"
#include "opc/Tensor.h"

#include <cstdlib>
#include <memory>

namespace opc {

/// Element type, shape and contiguous row-major bytes, aligned to 64. Movable; a copy is asked for with clone().
class HostTensor {
public:
  /// No tensor: kInvalidDataType, no bytes.
  HostTensor() = default;
  /// All bytes zero. Errors: OPC0709 (no tensor dtype), OPC0708 (negative dimension, rank over kMaxRank, a size that
  /// overflows or does not fit memory).
  static Result<HostTensor> create(DataType type, Shape shape);
  /// The same without clearing: for readers that overwrite every byte.
  static Result<HostTensor> createUninitialized(DataType type, Shape shape);

  bool isValid() const { return type_ != kInvalidDataType; }
  DataType dtype() const { return type_; }
  const Shape &shape() const { return shape_; }
  int64_t elemCount() const { return count_; }
  /// Bytes of the elements; 0 for an empty tensor.
  size_t bytes() const { return bytes_; }
  const void *data() const { return data_.get(); }
  void *data() { return data_.get(); }
  /// The elements as T, unchecked; T must be of the element type's size.
  template <class T> const T *as() const { return static_cast<const T *>(data()); }
  template <class T> T *as() { return static_cast<T *>(data()); }
  user_op::TensorDesc desc() const { return user_op::TensorDesc(shape_, type_); }
  Result<HostTensor> clone() const;
  /// The same bytes under another shape of as many elements; false (and no change) when the count differs.
  bool reshape(Shape shape);

private:
  struct Free {
    void operator()(void *p) const { std::free(p); }
  };
  DataType type_ = kInvalidDataType;
  Shape shape_;
  int64_t count_ = 0;
  size_t bytes_ = 0;
  std::unique_ptr<void, Free> data_;
};

/// Calls f(elements) with a pointer of the C++ type of the tensor's elements.
template <class F> auto withElements(const HostTensor &tensor, F &&f) {
  return visit(tensor.dtype(), [&](auto tag) { return f(tensor.as<typename decltype(tag)::type>()); });
}
template <class F> auto withElements(HostTensor &tensor, F &&f) {
  return visit(tensor.dtype(), [&](auto tag) { return f(tensor.as<typename decltype(tag)::type>()); });
}

/// Whether `tensor` may stand where `expected` is wanted: dtype (OPC0703) and shape (OPC0704) must be equal, nothing is
/// converted. `what` names the tensor in the message: "input x (x.npy)".
Status checkTensor(const HostTensor &tensor, const user_op::TensorDesc &expected, const std::string &what);
/// The same of a tensor of which only the type is known yet.
Status checkTensor(const user_op::TensorDesc &found, const user_op::TensorDesc &expected, const std::string &what);

} // namespace opc
