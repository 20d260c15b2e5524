// The tensors of a bound kernel as arrays of its computing type: f16 and bf16 tensors through f32 copies.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Kernel.h"

#include <memory>
#include <vector>

namespace opc::cpu {

/// At least 64-byte aligned; large blocks lie on huge pages where the system has them. Throws std::bad_alloc.
void *allocateScratch(size_t bytes);
void freeScratch(void *data);

/// Uninitialised, 64-byte aligned memory that a bound kernel owns.
template <class T> class Scratch {
public:
  Scratch() = default;
  explicit Scratch(int64_t count)
      : data_(count > 0 ? static_cast<T *>(allocateScratch(static_cast<size_t>(count) * sizeof(T))) : nullptr) {}
  T *get() const { return data_.get(); }
  explicit operator bool() const { return data_ != nullptr; }

private:
  struct Free {
    void operator()(T *p) const { freeScratch(p); }
  };
  std::unique_ptr<T, Free> data_;
};

/// Gives a kernel that computes in T (float, double, or int32_t without conversions) pointers to its arguments. An
/// argument of type T is used where it lies. An argument of type f16 or bf16 (or, for T = double, f32) gets a copy,
/// made here and filled by load(), or written back by store(). A constant input is converted once, at bind time.
template <class T> class StagedTensors {
public:
  explicit StagedTensors(user_op::KernelBindContext *ctx) : ctx_(ctx) {}
  /// nullptr when the op instance has no such argument. Valid as long as this object.
  const T *in(const std::string &arg, int32_t index = 0);
  T *out(const std::string &arg, int32_t index = 0);
  /// Before and after the kernel's work.
  void load(DeviceCtx *ctx) const;
  void store(DeviceCtx *ctx) const;

private:
  struct Copy {
    void *tensor;
    T *staged;
    int64_t count;
    DataType type;
  };
  T *stage(int64_t count);
  user_op::KernelBindContext *ctx_; // used while binding only
  std::vector<Copy> loads_, stores_;
  std::vector<Scratch<T>> buffers_;
};

extern template class StagedTensors<float>;
extern template class StagedTensors<double>;
extern template class StagedTensors<int32_t>;

} // namespace opc::cpu
