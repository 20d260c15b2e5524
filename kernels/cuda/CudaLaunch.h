// How a kernel's host code launches device code: by name, in the order of its stream.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "IndexFault.h"
#include "opc/Kernel.h"

#include <array>
#include <cstdint>
#include <functional>
#include <string>

namespace opc::cuda {

struct Dim3 {
  uint32_t x = 1, y = 1, z = 1;
};

/// A kernel of this build's device code, ready to be launched on the device that gave it.
class CudaFunction {
public:
  CudaFunction() = default;
  explicit CudaFunction(void *handle) : handle_(handle) {}
  void *handle() const { return handle_; }

private:
  void *handle_ = nullptr;
};

/// The executor that kernels for GPUs receive. Nothing here waits for the device. Failures are ContractErrors, which
/// the SDK's wrappers turn into errors that name the op.
class CudaLaunch : public DeviceCtx {
public:
  /// The one behind a kernel's executor, which must be a GPU's.
  static CudaLaunch &of(DeviceCtx *ctx) { return *static_cast<CudaLaunch *>(ctx); }
  static CudaLaunch &of(const DeviceCtx *ctx) { return of(const_cast<DeviceCtx *>(ctx)); }

  /// Finds a kernel, whose module is loaded when it is asked for first.
  virtual CudaFunction function(const std::string &name) = 0;
  /// `arguments[i]` points at the value of the kernel's parameter i.
  virtual void launch(CudaFunction kernel, Dim3 grid, Dim3 block, uint32_t sharedBytes, void **arguments) = 0;
  template <class... Args> void run(CudaFunction kernel, Dim3 grid, Dim3 block, uint32_t sharedBytes, Args... args) {
    void *pointers[] = {&args..., nullptr};
    launch(kernel, grid, block, sharedBytes, pointers);
  }
  /// The device's compute capability, 80 for 8.0: kernels of later ones than 7.5 are for those that have it.
  virtual int capability() const = 0;
  /// Between two places of the device's memory, which do not overlap.
  virtual void copy(void *to, const void *from, size_t bytes) = 0;
  virtual void fill(void *to, unsigned char byte, size_t bytes) = 0;
  /// A place in the device's memory where kernels of op `name` report wrong indices of `argument`, while binding. Who
  /// waits for the stream next gets an error of the op with what `text(position, value)` says of the first.
  virtual IndexFault *watch(const user_op::OpContext &op, const std::string &argument,
                            std::function<std::string(int64_t position, int64_t value)> text) = 0;

protected:
  explicit CudaLaunch(CUstream_st *stream) : DeviceCtx(DeviceType::kGPU, 1, nullptr, stream) {}
  ~CudaLaunch() = default;
};

/// Threads of a block where a kernel says nothing else; its __launch_bounds__ say the same.
constexpr uint32_t kBlock = 256;
/// A grid for so many blocks, where each block is a loop over the grid: at most `limit`.
inline Dim3 gridOf(int64_t blocks, int64_t limit = 65535) {
  return {static_cast<uint32_t>(blocks < 1 ? 1 : blocks > limit ? limit : blocks), 1, 1};
}
/// The same for `n` items of which each thread takes one at a time.
inline Dim3 blocksFor(int64_t n, int64_t limit = 65535) { return gridOf((n + kBlock - 1) / kBlock, limit); }

} // namespace opc::cuda
