// One CUDA device: its context, memory and streams, through the driver API alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Device.h"
#include "cuda/CudaDriver.h"

#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace opc::runtime {

class CudaDevice final : public Device {
public:
  /// Device `ordinal` of the driver. `name` is what plans call it. Errors: those of CudaDriver::open, OPC0630 when the
  /// driver has no such device, or one without units for TF32, which the thread allows (Tf32.h).
  static Result<std::unique_ptr<Device>> open(const std::string &name, bool isSimulator, int ordinal);
  ~CudaDevice() override;

  const std::string &name() const override { return name_; }
  DeviceType type() const override { return DeviceType::kGPU; }
  Result<DeviceMemory> allocate(size_t bytes) override;
  Result<DeviceMemory> allocateUnwritten(size_t bytes) override;
  std::unique_ptr<Stream> createStream(int threads) override;
  Status copyFromHost(Stream &stream, void *to, const void *from, size_t bytes) override;
  Status copyToHost(Stream &stream, void *to, const void *from, size_t bytes) override;
  bool isHostMemory() const override { return false; }

  /// The CPU, with memory that this device's copies reach while the host goes on. This device outlives it.
  std::unique_ptr<Device> besideCpu() override;
  /// Whether an address is in the memory of such a CPU.
  bool isPinned(const void *address) const;

  const cuda::CudaDriver &driver() const { return driver_; }
  /// Its number and context, which other devices of the process need to reach its memory.
  cuda::CuDevice number() const { return device_; }
  CUctx_st *context() const { return context_; }
  /// Lets this device's kernels and copies follow addresses of another one's memory; false where the two cannot.
  bool reach(cuda::CuDevice other, CUctx_st *context) const;
  /// Its compute capability, 80 for 8.0.
  int capability() const { return capability_; }
  bool allowsTf32() const { return allowsTf32_; }
  /// That take 16-bit floats and TF32, and asynchronous copies into shared memory.
  bool hasMatrixUnits() const { return capability_ >= kMatrixUnits; }
  /// Makes the device current in the calling thread.
  Status enter() const;
  /// A kernel of this build's device code; its module is loaded when it is asked for first.
  Result<CUfunc_st *> function(const std::string &kernel);
  /// A kernel of other device code, which stays loaded.
  Result<CUfunc_st *> functionIn(const std::string &ptx, const std::string &kernel);

protected:
  void release(void *data, size_t bytes) override;

private:
  static constexpr int kMatrixUnits = 80; // the least capability
  CudaDevice(const cuda::CudaDriver &driver, std::string name) : driver_(driver), name_(std::move(name)) {}
  Status outOfMemory(size_t bytes) const;
  Status loadImage(int image, const std::string &kernel, CUmod_st **module);
  Result<CUfunc_st *> kernelOf(CUmod_st *module, const std::string &kernel) const;
  class PinnedCpu;

  const cuda::CudaDriver &driver_;
  std::string name_;
  cuda::CuDevice device_ = 0;
  int capability_ = 0;
  bool allowsTf32_ = false;
  CUctx_st *context_ = nullptr;
  std::mutex modulesMutex_; // lanes bind their kernels one after the other, sessions do not
  std::map<int, CUmod_st *> modules_;
  bool takesCode_ = false;                      // machine code, and not PTX alone
  std::map<std::string, CUmod_st *> generated_; // by text
  std::map<const std::byte *, size_t> pinned_;  // taken before anything runs
};

/// The simulator's driver, where the device is a simulated one.
const cuda::CudaDriver *simulatorOf(const Device &device);

/// What is known of the GPUs of a driver, for `opc doctor`.
struct CudaDeviceFacts {
  std::string name, capability; // "8.0"
  size_t memory = 0;
};
Result<std::vector<CudaDeviceFacts>> cudaDevices(bool isSimulator);

} // namespace opc::runtime
