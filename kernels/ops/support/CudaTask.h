// Tasks that launch device code, for the host side of kernels for GPUs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "CudaLaunch.h"
#include "opc/Op.h"

#include <string>

namespace opc::ops {

/// Options of kernels for GPUs.
inline user_op::KernelOptions onGpu() { return user_op::KernelOptions().Device(DeviceType::kGPU); }

/// "cumsum_f32".
inline std::string kernelOf(const std::string &name, DataType type) { return name + "_" + dataTypeName(type); }
inline std::string kernelOf(const std::string &name, size_t bytes) { return name + "_" + std::to_string(bytes); }

/// The task that launches a kernel with these arguments in the blocks of a grid. There is none to launch without items.
template <class... Args>
std::unique_ptr<user_op::BoundKernel> bindGrid(user_op::KernelBindContext *ctx, const std::string &kernel,
                                               int64_t items, cuda::Dim3 grid, Args... args) {
  const cuda::CudaFunction f = cuda::CudaLaunch::of(ctx->device_ctx()).function(kernel);
  return user_op::bindTask([=](DeviceCtx *dev) {
    if (items > 0) cuda::CudaLaunch::of(dev).run(f, grid, {cuda::kBlock, 1, 1}, 0, args...);
  });
}
/// The same over the items, each taken by a thread in a loop over the grid.
template <class... Args>
std::unique_ptr<user_op::BoundKernel> bindLaunch(user_op::KernelBindContext *ctx, const std::string &kernel,
                                                 int64_t items, Args... args) {
  return bindGrid(ctx, kernel, items, cuda::blocksFor(items), args...);
}
/// The same over rows, each taken by a warp.
template <class... Args>
std::unique_ptr<user_op::BoundKernel> bindWarps(user_op::KernelBindContext *ctx, const std::string &kernel,
                                                int64_t rows, Args... args) {
  return bindLaunch(ctx, kernel, rows > INT64_MAX / 32 ? rows : rows * 32, args...);
}

/// The task of a kernel that one thread does all of, in a block of a warp.
template <class... Args>
std::unique_ptr<user_op::BoundKernel> bindSingle(user_op::KernelBindContext *ctx, const std::string &kernel,
                                                 Args... args) {
  const cuda::CudaFunction f = cuda::CudaLaunch::of(ctx->device_ctx()).function(kernel);
  return user_op::bindTask(
      [=](DeviceCtx *dev) { cuda::CudaLaunch::of(dev).run(f, {1, 1, 1}, {32, 1, 1}, 0, args...); });
}

/// Whether the kernel that is being bound is for GPUs.
inline bool isOnGpu(user_op::KernelBindContext *ctx) { return ctx->device_ctx()->device_type() == DeviceType::kGPU; }

/// Tasks one after the other.
template <class... Tasks> std::unique_ptr<user_op::BoundKernel> inOrder(Tasks... tasks) {
  return user_op::bindTask([... tasks = std::shared_ptr<user_op::BoundKernel>(std::move(tasks))](DeviceCtx *dev) {
    (tasks->Run(dev), ...);
  });
}

} // namespace opc::ops
