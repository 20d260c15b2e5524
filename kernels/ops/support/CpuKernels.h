// Registration of one kernel class template for many element types, and of one kernel class for all of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Op.h"

namespace opc::ops {

using user_op::HobDataType;
using user_op::HobDeviceTag;
using user_op::InferContext;
using user_op::KernelBindContext;
using user_op::Tensor;
using user_op::TensorDesc;

using user_op::BindingKernel;

/// Options of a registration that all its element types share.
struct CpuKernelOptions {
  user_op::InferTmpSizeFn tmpSize;
  user_op::InplaceProposalFn inplace;
};

inline user_op::InplaceProposalFn inplaceOf(std::string out, std::string in) {
  return [out, in](const InferContext &, user_op::AddInplaceArgPair add) { return add(out, 0, in, 0, true); };
}

template <template <class> class Kernel, class... Types> struct CpuKernels {
  /// Registers Kernel<T> for op `op`, matched on the dtype of `arg`.
  CpuKernels(const char *op, const char *arg, const char *file, int line, CpuKernelOptions options = {}) {
    (addOne<Kernel<Types>>(op, arg, GetDataType<Types>::value, file, line, options), ...);
  }
  template <class K>
  static void addOne(const char *op, const char *arg, DataType type, const char *file, int line,
                     const CpuKernelOptions &o) {
    user_op::OpKernelRegistry r(op, file, line);
    r.template SetCreateFn<K>().SetIsMatchedHob((HobDeviceTag() == "cpu") & (HobDataType(arg, 0) == type));
    if (o.tmpSize) r.SetInferTmpSizeFn(o.tmpSize);
    if (o.inplace) r.SetInplaceProposalFn(o.inplace);
    user_op::pendingRegistrations().kernels.push_back(r.GetResult());
  }
};

/// Registers one kernel for every dtype: kernels that move bytes.
template <class K> struct AnyTypeCpuKernel {
  AnyTypeCpuKernel(const char *op, const char *file, int line, CpuKernelOptions o = {}) {
    user_op::OpKernelRegistry r(op, file, line);
    r.template SetCreateFn<K>().SetIsMatchedHob(HobDeviceTag() == "cpu");
    if (o.tmpSize) r.SetInferTmpSizeFn(o.tmpSize);
    if (o.inplace) r.SetInplaceProposalFn(o.inplace);
    user_op::pendingRegistrations().kernels.push_back(r.GetResult());
  }
};

/// Calls f with a value of an unsigned type of `bytes` bytes: dispatch on the element size.
template <class F> auto withElementSize(size_t bytes, F &&f) {
  switch (bytes) {
  case 1: return f(uint8_t{});
  case 2: return f(uint16_t{});
  case 4: return f(uint32_t{});
  case 8: return f(uint64_t{});
  default: throw ContractError("elements of " + std::to_string(bytes) + " bytes cannot be moved");
  }
}

} // namespace opc::ops

#define OPC_CPU_KERNELS(op, arg, ...)                                                                                  \
  [[maybe_unused]] static const ::opc::ops::CpuKernels<__VA_ARGS__> OPC_CONCAT(opcCpuKernels, __COUNTER__)(            \
      op, arg, __FILE__, __LINE__)
#define OPC_CPU_KERNELS_WITH(op, arg, options, ...)                                                                    \
  [[maybe_unused]] static const ::opc::ops::CpuKernels<__VA_ARGS__> OPC_CONCAT(opcCpuKernels, __COUNTER__)(            \
      op, arg, __FILE__, __LINE__, options)
#define OPC_ANY_TYPE_CPU_KERNEL(op, Kernel, ...)                                                                       \
  [[maybe_unused]] static const ::opc::ops::AnyTypeCpuKernel<Kernel> OPC_CONCAT(opcCpuKernels, __COUNTER__)(           \
      op, __FILE__, __LINE__ __VA_OPT__(, ) __VA_ARGS__)
