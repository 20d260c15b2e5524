// TensorDesc and Tensor: what shape rules and kernels see of a tensor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/DataType.h"
#include "opc/Maybe.h"
#include "opc/Shape.h"

#include <cstddef>

namespace opc::user_op {

/// Shape and element type of a tensor, without data.
class TensorDesc {
public:
  TensorDesc() = default;
  TensorDesc(Shape shape, DataType type) : shape_(std::move(shape)), dataType_(type) {}
  const Shape &shape() const { return shape_; }
  Shape *mut_shape() { return &shape_; }
  void set_shape(const Shape &s) { shape_ = s; }
  DataType data_type() const { return dataType_; }
  DataType *mut_data_type() { return &dataType_; }
  void set_data_type(DataType t) { dataType_ = t; }
  bool is_dynamic() const { return isDynamic_; }
  bool *mut_is_dynamic() { return &isDynamic_; }
  void set_is_dynamic(bool v) { isDynamic_ = v; }
  bool is_tensor_list() const { return isTensorList_; }
  bool *mut_is_tensor_list() { return &isTensorList_; }
  void set_is_tensor_list(bool v) { isTensorList_ = v; }
  bool operator==(const TensorDesc &o) const { return shape_ == o.shape_ && dataType_ == o.dataType_; }
  bool operator!=(const TensorDesc &o) const { return !(*this == o); }
  /// "f32[2,3]".
  std::string toString() const;

private:
  Shape shape_;
  DataType dataType_ = kInvalidDataType;
  bool isDynamic_ = false;
  bool isTensorList_ = false;
};

/// Where a tensor's bytes live.
class MemoryCase {
public:
  explicit MemoryCase(DeviceType d = DeviceType::kCPU) : device_(d) {}
  bool has_host_mem() const { return device_ == DeviceType::kCPU; }
  bool has_device_cuda_mem() const { return device_ == DeviceType::kGPU; }

private:
  DeviceType device_;
};

/// A tensor as a kernel sees it: contiguous, row-major, at a fixed address for the life of the session.
class Tensor {
public:
  Tensor() = default;
  Tensor(std::string name, TensorDesc desc, void *data, DeviceType device, bool writable)
      : name_(std::move(name)), desc_(std::move(desc)), data_(data), mem_(device), writable_(writable) {}

  const ShapeView &shape() const;
  MutShapeView *mut_shape();
  DataType data_type() const;
  const TensorDesc &desc() const;
  const MemoryCase &mem_case() const;
  const void *raw_dptr() const;
  void *mut_raw_dptr();
  /// The elements as T. T must be the tensor's element type, void or char; otherwise throws ContractError.
  template <class T = void> const T *dptr() const {
    return static_cast<const T *>(checkedData(std::is_void_v<T> ? kChar : GetDataType<T>::value, false));
  }
  template <class T = void> T *mut_dptr() {
    return static_cast<T *>(checkedData(std::is_void_v<T> ? kChar : GetDataType<T>::value, true));
  }
  /// "in_0", the argument this tensor was looked up as.
  const std::string &name() const;
  /// For the host: moves the tensor to another address.
  void rebind(void *data) { data_ = data; }

private:
  void *checkedData(DataType wanted, bool forWriting) const;

  std::string name_;
  TensorDesc desc_;
  void *data_ = nullptr;
  MemoryCase mem_;
  bool writable_ = false;
};

/// What looking up a tensor gives: the tensor, or nothing when the op instance has no such argument (an optional one
/// that the graph leaves out). Like the pointer that OneFlow's API answers it converts to Tensor * and compares with
/// nullptr. Unlike it, a use of what is not there (`ctx->Tensor4ArgNameAndIndex("bias", 0)->dptr<T>()`) throws
/// ContractError, which becomes an error that names the op. A Tensor * taken from it is a pointer like any other: test
/// it before use.
class TensorLookup {
public:
  TensorLookup(std::nullptr_t) {}
  explicit TensorLookup(Tensor *tensor) : tensor_(tensor) {}
  operator Tensor *() const { return tensor_; }
  Tensor *get() const { return tensor_; }
  Tensor *operator->() const { return tensor_ ? tensor_ : absent(); }
  Tensor &operator*() const { return *operator->(); }

private:
  [[noreturn]] static Tensor *absent();
  Tensor *tensor_ = nullptr;
};

} // namespace opc::user_op
