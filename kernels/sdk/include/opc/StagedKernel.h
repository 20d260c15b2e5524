// Kernels that compute in one type and serve tensors of several: f16 and bf16 tensors go through f32 copies.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Kernel.h"

#include <memory>
#include <vector>

namespace opc::user_op {

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
  explicit StagedTensors(KernelBindContext *ctx) : ctx_(ctx) {}
  /// nullptr when the op instance has no such argument. Valid as long as this object.
  const T *in(const std::string &arg, int32_t index = 0);
  T *out(const std::string &arg, int32_t index = 0);
  /// Before and after the kernel's work.
  void load(DeviceCtx *ctx) const;
  void store(DeviceCtx *ctx) const;
  /// Every argument is used where it lies: there is nothing to load, store or keep.
  bool empty() const { return buffers_.empty(); }

private:
  struct Copy {
    void *tensor;
    T *staged;
    int64_t count;
    DataType type;
  };
  T *stage(int64_t count);
  KernelBindContext *ctx_; // used while binding only
  std::vector<Copy> loads_, stores_;
  std::vector<Scratch<T>> buffers_;
};

extern template class StagedTensors<float>;
extern template class StagedTensors<double>;
extern template class StagedTensors<int32_t>;

/// A kernel that computes in T. Registered for a list of types, it serves f16 and bf16 with T = float. It reaches its
/// floating arguments through `staged`; loading and storing is done around the task that BindStaged returns.
template <class T> class StagedKernel : public BindingKernel {
public:
  using StagedType = T;
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const final {
    StagedTensors<T> staged(ctx);
    std::unique_ptr<BoundKernel> task = BindStaged(ctx, staged);
    if (!task || staged.empty()) return task;
    return bindTask([staged = std::move(staged), task = std::move(task)](DeviceCtx *dev) {
      staged.load(dev);
      task->Run(dev);
      staged.store(dev);
    });
  }

protected:
  virtual std::unique_ptr<BoundKernel> BindStaged(KernelBindContext *ctx, StagedTensors<T> &staged) const = 0;
};

} // namespace opc::user_op
