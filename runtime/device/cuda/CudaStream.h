// A CUDA stream as the runtime and kernels see it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "CudaModules.h"
#include "CudaPrecision.h"
#include "cuda/CudaDevice.h"
#include "cuda/IndexFaults.h"

#include <vector>

namespace opc::runtime {

/// Host memory that the device copies from and to while the host goes on: two halves, one filled while the other
/// travels.
class PinnedStaging {
public:
  explicit PinnedStaging(CudaDevice &device) : device_(device) {}
  ~PinnedStaging();
  PinnedStaging(const PinnedStaging &) = delete;
  PinnedStaging &operator=(const PinnedStaging &) = delete;

  static constexpr size_t kHalf = size_t{1} << 20;
  /// Half 0 or 1, when no copy reads or writes it any more.
  Status take(int half, std::byte **memory);
  /// What has been put into the stream since take() is the last that uses the half.
  Status leave(int half, CUstream_st *stream);

private:
  CudaDevice &device_;
  void *memory_ = nullptr;
  CUevent_st *done_[2] = {};
  bool inUse_[2] = {};
};

class CudaStream final : public Stream {
public:
  static Result<std::unique_ptr<CudaStream>> create(CudaDevice &device);
  ~CudaStream() override;

  DeviceCtx *context() override { return &executor_; }
  void enter() override { (void)device_.enter(); } // calls that follow say what is wrong
  void beginStep(uint64_t seed, int64_t step) override { executor_.setPosition({seed, step}); }
  void endSteps() override { executor_.setPosition({}); }
  Status synchronize() override;
  std::unique_ptr<StreamMark> createMark() override;
  Status mark(StreamMark &mark) override;
  Status waitFor(StreamMark &mark) override;
  bool records() const override { return true; }
  Result<std::unique_ptr<StreamRecording>> record(const std::function<Status()> &work) override;
  Status replay(StreamRecording &recording) override;

  Status copyFromHost(void *to, const void *from, size_t bytes);
  Status copyToHost(void *to, const void *from, size_t bytes);
  void fill(void *to, unsigned char byte, size_t bytes) { executor_.fill(to, byte, bytes); }

private:
  /// What kernels launch with.
  class Executor final : public opc::cuda::CudaLaunch, public opc::cuda::CudaModules, public opc::cuda::CudaPrecision {
  public:
    Executor(CudaDevice &device, CudaStream &owner, CUstream_st *stream)
        : opc::cuda::CudaLaunch(stream), device_(device), owner_(owner) {}
    opc::cuda::CudaFunction function(const std::string &name) override;
    void launch(opc::cuda::CudaFunction kernel, opc::cuda::Dim3 grid, opc::cuda::Dim3 block, uint32_t sharedBytes,
                void **arguments) override;
    int capability() const override;
    /// One of the two may be on the CPU beside the device.
    void copy(void *to, const void *from, size_t bytes) override;
    void fill(void *to, unsigned char byte, size_t bytes) override;
    opc::cuda::IndexFault *watch(const user_op::OpContext &op, const std::string &argument,
                                 std::function<std::string(int64_t position, int64_t value)> text) override;

    opc::cuda::CudaFunction load(const std::string &ptx, const std::string &kernel) override;
    void *scratch(size_t bytes) override;
    bool allowsTf32() const override { return device_.allowsTf32(); }

  private:
    bool hasMatrixUnits() const override { return device_.hasMatrixUnits(); }
    void require(cuda::CuResult result, const char *what) const;
    CudaDevice &device_;
    CudaStream &owner_;
    std::vector<DeviceMemory> scratch_; // each larger than those before it, which earlier tasks still use
  };

  CudaStream(CudaDevice &device, CUstream_st *stream)
      : device_(device), stream_(stream), executor_(device, *this, stream), staging_(device) {}

  CudaDevice &device_;
  CUstream_st *stream_;
  Executor executor_;
  PinnedStaging staging_;
  IndexFaults faults_;
};

} // namespace opc::runtime
