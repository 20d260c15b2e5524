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
// CU_STREAM_CAPTURE_MODE_THREAD_LOCAL: other sessions of the process may go on.
constexpr int kCaptureOfThread = 1;

CuPointer addressOf(const void *p) { return reinterpret_cast<CuPointer>(p); }

class CudaMark final : public StreamMark {
public:
  CudaMark(CudaDevice &device, CUevent_st *event) : device_(device), event_(event) {}
  ~CudaMark() override {
    if (device_.enter().isOk()) device_.driver().eventDestroy(event_);
  }
  Status wait() override {
    OPC_RETURN_IF_ERROR(device_.enter());
    return device_.driver().check(device_.driver().eventSynchronize(event_), "waiting for an event");
  }
  CudaDevice &device() const { return device_; }
  CUevent_st *event() const { return event_; }

private:
  CudaDevice &device_;
  CUevent_st *event_;
};

class CudaRecording final : public StreamRecording {
public:
  CudaRecording(CudaDevice &device, CUgraphExec_st *graph) : device_(device), graph_(graph) {}
  ~CudaRecording() override {
    if (device_.enter().isOk()) device_.driver().graphExecDestroy(graph_);
  }
  CUgraphExec_st *graph() const { return graph_; }

private:
  CudaDevice &device_;
  CUgraphExec_st *graph_;
};

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
  OPC_RETURN_IF_ERROR(device_.enter());
  const CuResult r = d.streamSynchronize(stream_);
  if (r == cuda::kSuccess) return faults_.check(*this);
  return d.check(r, "an operation on " + device_.name() + " has failed since the last wait")
      .withHelp("the device takes no more work from this process");
}

std::unique_ptr<StreamMark> CudaStream::createMark() {
  CUevent_st *event = nullptr;
  if (!device_.enter().isOk() || device_.driver().eventCreate(&event, kNoTiming) != cuda::kSuccess) return nullptr;
  return std::make_unique<CudaMark>(device_, event);
}

Status CudaStream::mark(StreamMark &mark) {
  const cuda::CudaDriver &d = device_.driver();
  return d.check(d.eventRecord(static_cast<CudaMark &>(mark).event(), stream_), "marking a place in a stream");
}

Status CudaStream::waitFor(StreamMark &mark) {
  const auto *event = dynamic_cast<CudaMark *>(&mark);
  const cuda::CudaDriver &d = device_.driver();
  if (!event || &event->device().driver() != &d) return mark.wait(); // what another driver has put in order
  return d.check(d.streamWaitEvent(stream_, event->event(), 0), "waiting for another stream");
}

Result<std::unique_ptr<StreamRecording>> CudaStream::record(const std::function<Status()> &work) {
  const cuda::CudaDriver &d = device_.driver();
  OPC_RETURN_IF_ERROR(device_.enter());
  OPC_RETURN_IF_ERROR(d.check(d.streamBeginCapture(stream_, kCaptureOfThread), "beginning a graph"));
  const Status status = work();
  CUgraph_st *graph = nullptr;
  const CuResult ended = d.streamEndCapture(stream_, &graph);
  CUgraphExec_st *ready = nullptr;
  Status made = status.isOk() ? d.check(ended, "ending a graph") : status;
  if (made.isOk()) made = d.check(d.graphInstantiate(&ready, graph, 0), "making a graph ready");
  if (graph) d.graphDestroy(graph);
  if (!made.isOk()) return made;
  return std::unique_ptr<StreamRecording>(std::make_unique<CudaRecording>(device_, ready));
}

Status CudaStream::replay(StreamRecording &recording) {
  const cuda::CudaDriver &d = device_.driver();
  return d.check(d.graphLaunch(static_cast<CudaRecording &>(recording).graph(), stream_), "launching a graph");
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

int CudaStream::Executor::capability() const { return device_.capability(); }

opc::cuda::CudaFunction CudaStream::Executor::load(const std::string &ptx, const std::string &kernel) {
  Result<CUfunc_st *> found = device_.functionIn(ptx, kernel);
  if (!found) throwDeviceError(found.status());
  return opc::cuda::CudaFunction(*found);
}

void *CudaStream::Executor::scratch(size_t bytes) {
  if (scratch_.empty() || scratch_.back().bytes() < bytes) {
    Result<DeviceMemory> memory = device_.allocateUnwritten(bytes);
    if (!memory) throwDeviceError(memory.status());
    scratch_.push_back(std::move(*memory));
  }
  return scratch_.back().data();
}

void CudaStream::Executor::launch(opc::cuda::CudaFunction kernel, opc::cuda::Dim3 grid, opc::cuda::Dim3 block,
                                  uint32_t sharedBytes, void **arguments) {
  require(device_.driver().launchKernel(static_cast<CUfunc_st *>(kernel.handle()), grid.x, grid.y, grid.z, block.x,
                                        block.y, block.z, sharedBytes, cuda_stream(), arguments, nullptr),
          "launching a kernel");
}

void CudaStream::Executor::copy(void *to, const void *from, size_t bytes) {
  if (bytes == 0) return;
  if (device_.isPinned(from))
    require(device_.driver().copyToDevice(addressOf(to), from, bytes, cuda_stream()), "copying to the device");
  else if (device_.isPinned(to))
    require(device_.driver().copyToHost(to, addressOf(from), bytes, cuda_stream()), "copying from the device");
  else
    require(device_.driver().copyOnDevice(addressOf(to), addressOf(from), bytes, cuda_stream()), "copying");
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
