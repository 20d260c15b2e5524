// Device and Stream: what the runtime asks of the place where tasks run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Kernel.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace opc::runtime {

class Device;

/// Memory of one device, given back when it dies. The pointer is an address in the device's own space: only kernels of
/// that device and the device's copies may follow it.
class DeviceMemory {
public:
  DeviceMemory() = default;
  DeviceMemory(Device *device, void *data, size_t bytes) : device_(device), data_(data), bytes_(bytes) {}
  DeviceMemory(DeviceMemory &&o) noexcept
      : device_(std::exchange(o.device_, nullptr)), data_(std::exchange(o.data_, nullptr)),
        bytes_(std::exchange(o.bytes_, 0)) {}
  DeviceMemory &operator=(DeviceMemory &&o) noexcept {
    std::swap(device_, o.device_);
    std::swap(data_, o.data_);
    std::swap(bytes_, o.bytes_);
    return *this;
  }
  ~DeviceMemory();
  std::byte *data() const { return static_cast<std::byte *>(data_); }
  size_t bytes() const { return bytes_; }

private:
  Device *device_ = nullptr;
  void *data_ = nullptr;
  size_t bytes_ = 0;
};

/// A place in the order of a stream.
class StreamMark {
public:
  virtual ~StreamMark() = default;
  /// The host waits until everything before the mark is done.
  virtual Status wait() = 0;
};

/// Work of a stream that can be done again.
class StreamRecording {
public:
  virtual ~StreamRecording() = default;
};

/// An executor with an order of its own. Work may still be running when a call returns; synchronize() waits for it.
class Stream {
public:
  virtual ~Stream() = default;
  /// What kernels receive.
  virtual DeviceCtx *context() = 0;
  /// The same for a kernel that is to use the calling thread alone; null where there are no others.
  virtual DeviceCtx *contextAlone() { return nullptr; }
  /// Prepares the calling thread (library thread counts, the current device). Called by each thread before it binds or
  /// runs kernels on this stream.
  virtual void enter() = 0;
  /// Before each step: the seed and number of the step that the following kernels belong to (random kernels draw from
  /// them). endSteps() after the last one.
  virtual void beginStep(uint64_t seed, int64_t step) = 0;
  virtual void endSteps() = 0;
  /// Waits until all work is done; reports what failed since the last call.
  virtual Status synchronize() = 0;

  /// Whether a thread of this stream has met a NaN or made one since the last call, for kernels that lose it
  /// (opc/NanKeeping.h): true too often, and never too rarely. With `alone`, the calling thread.
  virtual bool takeInvalid(bool alone) {
    (void)alone;
    return false;
  }

  /// For mark(); null where work is done when a call returns, so that nobody need wait.
  virtual std::unique_ptr<StreamMark> createMark() { return nullptr; }
  /// Sets a mark of this stream behind all work so far, wherever it was.
  virtual Status mark(StreamMark &) { return Status::ok(); }
  /// What follows comes behind the mark, which may be another stream's. The host need not wait.
  virtual Status waitFor(StreamMark &mark) { return mark.wait(); }

  /// Whether record() is there.
  virtual bool records() const { return false; }
  /// What `work` puts into this stream, and does not do. The same work again, with the same arguments, is replay().
  virtual Result<std::unique_ptr<StreamRecording>> record(const std::function<Status()> &work) {
    (void)work;
    return Status(StatusCode::kInternal, "OPC0901", "a stream that does not record");
  }
  virtual Status replay(StreamRecording &) { return Status::ok(); }
};

/// One device. Outlives its streams and its memory.
class Device {
public:
  virtual ~Device() = default;
  /// As plans name it: "cpu".
  virtual const std::string &name() const = 0;
  virtual DeviceType type() const = 0;
  /// Aligned to at least 64 bytes, zeroed. OPC0614 when there is not enough.
  virtual Result<DeviceMemory> allocate(size_t bytes) = 0;
  /// The same, not cleared.
  virtual Result<DeviceMemory> allocateUnwritten(size_t bytes) { return allocate(bytes); }
  /// The bytes will not be read until they are written again: the system may have the memory meanwhile.
  virtual void discard(void *, size_t) {}
  /// A stream whose kernels may use `threads` threads (CPU).
  virtual std::unique_ptr<Stream> createStream(int threads) = 0;
  /// Ordered with the stream's other work; the host memory may be reused after synchronize().
  virtual Status copyFromHost(Stream &stream, void *to, const void *from, size_t bytes) = 0;
  virtual Status copyToHost(Stream &stream, void *to, const void *from, size_t bytes) = 0;
  /// Whether the host may follow this device's pointers.
  virtual bool isHostMemory() const = 0;
  /// The CPU as a plan needs it beside this device: in its memory this device's streams copy in their order. Null of
  /// the CPU itself.
  virtual std::unique_ptr<Device> besideCpu() { return nullptr; }

protected:
  friend class DeviceMemory;
  virtual void release(void *data, size_t bytes) = 0;
};

/// The kind of the device that a name is of: "cpu", "gpu" and "gpu:1" (CUDA's), "sim" and "sim:1" (those of the
/// simulator that opc brings); kInvalidDevice for other words. Says nothing of whether it is there.
DeviceType deviceTypeOf(const std::string &name);
/// Whether it is one of the simulator's.
bool isSimulatedDevice(const std::string &name);
/// How many devices a name is of: "gpu:0-3" are four, of as many ranks.
int64_t deviceCountOf(const std::string &name);
/// The device of a rank: "gpu:2" of rank 2 on "gpu:0-3", and the name itself where it is of one. OPC0820 for a rank
/// that has none.
Result<std::string> deviceOfRank(const std::string &name, int64_t rank);
/// The device that a plan names. Errors: OPC0820 for a name that is none, those of CudaDevice::open.
Result<std::unique_ptr<Device>> openDevice(const std::string &name);
/// The names that openDevice knows.
std::string deviceNames();

} // namespace opc::runtime
