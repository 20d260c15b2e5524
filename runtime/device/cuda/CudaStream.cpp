// A CUDA stream: launches, copies, what failed.
// SPDX-License-Identifier: Apache-2.0
#include "cuda/CudaStream.h"

#include "DeviceErrors.h"

#include <algorithm>
#include <cstring>

namespace opc::runtime {

using cuda::CuPointer;
using cuda::CuResult;

namespace {

// CU_STREAM_NON_BLOCKING, CU_EVENT_DISABLE_TIMING, CU_MEMHOSTALLOC_PORTABLE of cuda.h.
constexpr unsigned kNonBlocking = 1, kNoTiming = 2, kPortable = 1;

CuPointer addressOf(const void *p) { return reinterpret_cast<CuPointer>(p); }

} // namespace

PinnedStaging::~PinnedStaging() {
  const cuda::CudaDriver &d = device_.driver();
  if (!memory_ || !device_.enter().isOk()) return;
  for (CUevent_st *event : done_)
    if (event) d.eventDestroy(event);
  d.memFreeHost(memory_);
}

Status PinnedStaging::take(int half, std::byte **memory) {
  const cuda::CudaDriver &d = device_.driver();
  if (!memory_)
    OPC_RETURN_IF_ERROR(d.check(d.memHostAlloc(&memory_, 2 * kHalf, kPortable), "taking memory for copies"));
  if (!done_[half]) OPC_RETURN_IF_ERROR(d.check(d.eventCreate(&done_[half], kNoTiming), "making an event for copies"));
  if (inUse_[half]) OPC_RETURN_IF_ERROR(d.check(d.eventSynchronize(done_[half]), "waiting for a copy"));
  inUse_[half] = false;
  *memory = static_cast<std::byte *>(memory_) + static_cast<size_t>(half) * kHalf;
  return Status();
}

Status PinnedStaging::leave(int half, CUstream_st *stream) {
  const cuda::CudaDriver &d = device_.driver();
  inUse_[half] = true;
  return d.check(d.eventRecord(done_[half], stream), "marking the end of a copy");
}

Result<std::unique_ptr<CudaStream>> CudaStream::create(CudaDevice &device) {
  OPC_RETURN_IF_ERROR(device.enter());
  CUstream_st *stream = nullptr;
  OPC_RETURN_IF_ERROR(device.driver().check(device.driver().streamCreate(&stream, kNonBlocking),
                                            "making a stream on " + device.name()));
  return std::unique_ptr<CudaStream>(new CudaStream(device, stream));
}

CudaStream::~CudaStream() {
  if (!device_.enter().isOk()) return;
  device_.driver().streamSynchronize(stream_); // what fails now has nobody to hear it
  device_.driver().streamDestroy(stream_);
}

Status CudaStream::synchronize() {
  const cuda::CudaDriver &d = device_.driver();
  const CuResult r = d.streamSynchronize(stream_);
  if (r == cuda::kSuccess) return faults_.check(*this);
  return d.check(r, "an operation on " + device_.name() + " has failed since the last wait")
      .withHelp("opc run --observe sync waits after each op and names the one; the device takes no more work from "
                "this process");
}

Status CudaStream::copyFromHost(void *to, const void *from, size_t bytes) {
  const cuda::CudaDriver &d = device_.driver();
  OPC_RETURN_IF_ERROR(device_.enter());
  int half = 0;
  for (size_t at = 0; at < bytes; at += PinnedStaging::kHalf, half ^= 1) {
    const size_t n = std::min(PinnedStaging::kHalf, bytes - at);
    std::byte *pinned = nullptr;
    OPC_RETURN_IF_ERROR(staging_.take(half, &pinned));
    std::memcpy(pinned, static_cast<const std::byte *>(from) + at, n);
    OPC_RETURN_IF_ERROR(
        d.check(d.copyToDevice(addressOf(to) + at, pinned, n, stream_), "copying to " + device_.name()));
    OPC_RETURN_IF_ERROR(staging_.leave(half, stream_));
  }
  return Status();
}

Status CudaStream::copyToHost(void *to, const void *from, size_t bytes) {
  const cuda::CudaDriver &d = device_.driver();
  OPC_RETURN_IF_ERROR(device_.enter());
  auto *out = static_cast<std::byte *>(to);
  std::byte *pinned[2] = {};
  size_t waiting[2] = {}; // bytes of a copy under way in each half
  size_t done = 0;
  int half = 0;
  auto finish = [&](int which) -> Status { // halves end in the order in which they began
    if (waiting[which] == 0) return Status();
    OPC_RETURN_IF_ERROR(staging_.take(which, &pinned[which]));
    std::memcpy(out + done, pinned[which], waiting[which]);
    done += waiting[which];
    waiting[which] = 0;
    return Status();
  };
  for (size_t at = 0; at < bytes; at += PinnedStaging::kHalf, half ^= 1) {
    OPC_RETURN_IF_ERROR(finish(half));
    const size_t n = std::min(PinnedStaging::kHalf, bytes - at);
    OPC_RETURN_IF_ERROR(staging_.take(half, &pinned[half]));
    OPC_RETURN_IF_ERROR(
        d.check(d.copyToHost(pinned[half], addressOf(from) + at, n, stream_), "copying from " + device_.name()));
    OPC_RETURN_IF_ERROR(staging_.leave(half, stream_));
    waiting[half] = n;
  }
  OPC_RETURN_IF_ERROR(finish(half));
  return finish(half ^ 1);
}

void CudaStream::Executor::require(CuResult result, const char *what) const {
  if (result != cuda::kSuccess) throwDeviceError(device_.driver().check(result, what));
}

opc::cuda::CudaFunction CudaStream::Executor::function(const std::string &name) {
  Result<CUfunc_st *> found = device_.function(name);
  if (!found) throwDeviceError(found.status());
  return opc::cuda::CudaFunction(*found);
}

void CudaStream::Executor::launch(opc::cuda::CudaFunction kernel, opc::cuda::Dim3 grid, opc::cuda::Dim3 block,
                                  uint32_t sharedBytes, void **arguments) {
  require(device_.driver().launchKernel(static_cast<CUfunc_st *>(kernel.handle()), grid.x, grid.y, grid.z, block.x,
                                        block.y, block.z, sharedBytes, cuda_stream(), arguments, nullptr),
          "launching a kernel");
}

void CudaStream::Executor::copy(void *to, const void *from, size_t bytes) {
  if (bytes) require(device_.driver().copyOnDevice(addressOf(to), addressOf(from), bytes, cuda_stream()), "copying");
}

void CudaStream::Executor::fill(void *to, unsigned char byte, size_t bytes) {
  if (bytes) require(device_.driver().setBytes(addressOf(to), byte, bytes, cuda_stream()), "filling memory");
}

opc::cuda::IndexFault *CudaStream::Executor::watch(const user_op::OpContext &op, const std::string &argument,
                                                   std::function<std::string(int64_t, int64_t)> text) {
  Result<opc::cuda::IndexFault *> place =
      owner_.faults_.watch(device_, owner_, op.op_type_name(), op.op_name(), argument, std::move(text));
  if (!place) throwDeviceError(place.status());
  return *place;
}

} // namespace opc::runtime
