// The NCCL engine. NCCL and the CUDA runtime are opened at run time; only their headers are needed to build it.
// SPDX-License-Identifier: Apache-2.0
#include "NcclEngine.h"

#ifdef OPC_HAS_NCCL

#include "BlockCopy.h"

#include <algorithm>
#include <atomic>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <map>
#include <nccl.h>
#include <sched.h>

namespace opc::runtime {
namespace {

using Clock = std::chrono::steady_clock;

/// The functions that are used, by their own names.
struct Libraries {
#define OPC_NCCL_FUNCTIONS(X)                                                                                          \
  X(ncclGetUniqueId)                                                                                                   \
  X(ncclCommInitRank)                                                                                                  \
  X(ncclCommAbort)                                                                                                     \
  X(ncclCommDestroy)                                                                                                   \
  X(ncclCommGetAsyncError)                                                                                             \
  X(ncclGetErrorString)                                                                                                \
  X(ncclGroupStart)                                                                                                    \
  X(ncclGroupEnd)                                                                                                      \
  X(ncclSend)                                                                                                          \
  X(ncclRecv)                                                                                                          \
  X(ncclAllReduce)
#define OPC_CUDA_FUNCTIONS(X)                                                                                          \
  X(cudaSetDevice)                                                                                                     \
  X(cudaGetErrorString)                                                                                                \
  X(cudaStreamCreateWithFlags)                                                                                         \
  X(cudaStreamDestroy)                                                                                                 \
  X(cudaStreamQuery)                                                                                                   \
  X(cudaFree)
#define OPC_DECLARE(f) decltype(&::f) f = nullptr;
  OPC_NCCL_FUNCTIONS(OPC_DECLARE)
  OPC_CUDA_FUNCTIONS(OPC_DECLARE)
#undef OPC_DECLARE
  // Overloaded in C++: named by their C types.
  cudaError_t (*cudaMalloc)(void **, size_t) = nullptr;
  cudaError_t (*cudaMemcpy2DAsync)(void *, size_t, const void *, size_t, size_t, size_t, cudaMemcpyKind,
                                   cudaStream_t) = nullptr;

  Status open() {
    void *nccl = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL), *cuda = nullptr;
    for (const char *name : {"libcudart.so.13", "libcudart.so.12", "libcudart.so"})
      if (!cuda) cuda = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!nccl || !cuda)
      return std::move(Status(StatusCode::kUnsupported, "OPC0725",
                              std::string("the NCCL engine needs ") + (nccl ? "libcudart.so" : "libnccl.so.2") +
                                  ", which cannot be opened"))
          .withHelp("install CUDA's runtime and NCCL, or put their folder into LD_LIBRARY_PATH");
    std::string missing;
    const auto find = [&](void *library, const char *name, auto &f) {
      f = reinterpret_cast<std::decay_t<decltype(f)>>(dlsym(library, name));
      if (!f) missing += std::string(missing.empty() ? "" : ", ") + name;
    };
#define OPC_FIND_NCCL(f) find(nccl, #f, f);
#define OPC_FIND_CUDA(f) find(cuda, #f, f);
    OPC_NCCL_FUNCTIONS(OPC_FIND_NCCL)
    OPC_CUDA_FUNCTIONS(OPC_FIND_CUDA)
    OPC_FIND_CUDA(cudaMalloc)
    OPC_FIND_CUDA(cudaMemcpy2DAsync)
#undef OPC_FIND_NCCL
#undef OPC_FIND_CUDA
    if (missing.empty()) return Status::ok();
    return Status(StatusCode::kUnsupported, "OPC0725", "this NCCL or CUDA lacks " + missing);
  }
};

class NcclCommunicator final : public Communicator {
public:
  NcclCommunicator(Communicator &bootstrap, const NcclOptions &options) : base_(bootstrap), options_(options) {}

  Status open() {
    OPC_RETURN_IF_ERROR(lib_.open());
    OPC_RETURN_IF_ERROR(cuda(lib_.cudaSetDevice(options_.device), "cudaSetDevice"));
    channels_ = std::vector<Channel>(static_cast<size_t>(options_.channels));
    const size_t bytes = channels_.size() * sizeof(ncclUniqueId);
    std::vector<ncclUniqueId> mine(channels_.size()), all(channels_.size() * static_cast<size_t>(size()));
    if (rank() == 0)
      for (ncclUniqueId &id : mine) OPC_RETURN_IF_ERROR(nccl(lib_.ncclGetUniqueId(&id), "ncclGetUniqueId"));
    OPC_RETURN_IF_ERROR(base_.allGatherBytes(mine.data(), bytes, all.data()));
    for (size_t i = 0; i < channels_.size(); ++i) {
      OPC_RETURN_IF_ERROR(
          nccl(lib_.ncclCommInitRank(&channels_[i].comm, static_cast<int>(size()), all[i], static_cast<int>(rank())),
               "ncclCommInitRank"));
      OPC_RETURN_IF_ERROR(cuda(lib_.cudaStreamCreateWithFlags(&channels_[i].stream, cudaStreamNonBlocking),
                               "cudaStreamCreateWithFlags"));
    }
    return Status::ok();
  }

  ~NcclCommunicator() override {
    for (Channel &c : channels_) {
      for (auto &[ranks, comm] : c.groups) lib_.ncclCommDestroy(comm);
      if (c.comm) lib_.ncclCommDestroy(c.comm);
      if (c.stream) lib_.cudaStreamDestroy(c.stream);
      if (c.staging) lib_.cudaFree(c.staging);
    }
  }

  int64_t rank() const override { return base_.rank(); }
  int64_t size() const override { return base_.size(); }
  const char *engine() const override { return "nccl"; }

  Status startExchange(int channel, const std::vector<CommMessage> &sends,
                       const std::vector<CommMessage> &receives) override {
    OPC_RETURN_IF_ERROR(check(channel));
    Channel &c = channels_[static_cast<size_t>(channel)];
    // Strided blocks are packed one after the other; a message to this rank itself goes through NCCL as any other.
    size_t staged = 0;
    for (const auto *list : {&sends, &receives})
      for (const CommMessage &m : *list)
        if (!isContiguous(m.block)) staged += static_cast<size_t>(m.block.bytes());
    if (staged > c.stagingBytes) {
      if (c.staging) OPC_RETURN_IF_ERROR(cuda(lib_.cudaFree(c.staging), "cudaFree"));
      c.staging = nullptr, c.stagingBytes = 0;
      OPC_RETURN_IF_ERROR(cuda(lib_.cudaMalloc(&c.staging, staged), "cudaMalloc"));
      c.stagingBytes = staged;
    }
    char *at = static_cast<char *>(c.staging);
    c.places.clear();
    for (const auto *list : {&sends, &receives})
      for (const CommMessage &m : *list) {
        const BlockRuns runs(m.block);
        c.places.push_back(runs.contiguous() || runs.runs() == 0 ? runs.current() : at);
        if (runs.contiguous() || runs.runs() == 0) continue;
        if (list == &sends) OPC_RETURN_IF_ERROR(pack(runs, at, true, c.stream));
        at += m.block.bytes();
      }
    OPC_RETURN_IF_ERROR(nccl(lib_.ncclGroupStart(), "ncclGroupStart"));
    Status posted;
    for (size_t i = 0; i < sends.size() + receives.size() && posted; ++i) {
      const bool sending = i < sends.size();
      const CommMessage &m = sending ? sends[i] : receives[i - sends.size()];
      const auto bytes = static_cast<size_t>(m.block.bytes());
      if (bytes == 0) continue;
      const int peer = static_cast<int>(m.rank);
      posted = sending ? nccl(lib_.ncclSend(c.places[i], bytes, ncclInt8, peer, c.comm, c.stream), "ncclSend")
                       : nccl(lib_.ncclRecv(c.places[i], bytes, ncclInt8, peer, c.comm, c.stream), "ncclRecv");
      if (m.rank == rank()) continue;
      (sending ? bytesSent_ : bytesReceived_) += bytes;
      if (sending) ++messages_;
    }
    const Status ended = nccl(lib_.ncclGroupEnd(), "ncclGroupEnd");
    OPC_RETURN_IF_ERROR(posted);
    OPC_RETURN_IF_ERROR(ended);
    for (size_t i = 0; i < receives.size(); ++i) {
      const BlockRuns runs(receives[i].block);
      if (!runs.contiguous() && runs.runs() > 0)
        OPC_RETURN_IF_ERROR(pack(runs, static_cast<char *>(c.places[sends.size() + i]), false, c.stream));
    }
    return Status::ok();
  }

  Status finishExchange(int channel) override {
    OPC_RETURN_IF_ERROR(check(channel));
    Channel &c = channels_[static_cast<size_t>(channel)];
    return wait(c, c.comm);
  }

  bool canAllReduce(DataType type) const override { return typeOf(type).has_value(); }

  Status allReduce(int channel, const std::vector<int64_t> &group, void *data, int64_t count, DataType type,
                   BoxingReduction reduction) override {
    OPC_RETURN_IF_ERROR(check(channel));
    const auto t = typeOf(type);
    if (!t)
      return Status(StatusCode::kInternal, "OPC0724", std::string("NCCL engine: all-reduce of ") + dataTypeName(type));
    if (group.size() <= 1) return Status::ok();
    Channel &c = channels_[static_cast<size_t>(channel)];
    ncclComm_t comm = nullptr;
    OPC_RETURN_IF_ERROR(groupOf(channel, c, group, comm));
    OPC_RETURN_IF_ERROR(nccl(lib_.ncclAllReduce(data, data, static_cast<size_t>(count), *t,
                                                reduction == BoxingReduction::kMax ? ncclMax : ncclSum, comm, c.stream),
                             "ncclAllReduce"));
    // How NCCL moves the bytes is its own; they are counted as the least that an all-reduce has to send.
    const auto p = static_cast<int64_t>(group.size());
    const int64_t me = std::find(group.begin(), group.end(), rank()) - group.begin();
    const int64_t own = count / p + (me < count % p);
    const auto bytes = static_cast<uint64_t>(count - own + (p - 1) * own) * GetSizeOfDataType(type);
    bytesSent_ += bytes, bytesReceived_ += bytes, ++collectives_;
    return wait(c, comm);
  }

  Status allGatherBytes(const void *mine, size_t bytes, void *all) override {
    return base_.allGatherBytes(mine, bytes, all);
  }
  Status barrier() override { return base_.barrier(); }
  void abort(const std::string &reason) override {
    for (Channel &c : channels_) {
      for (auto &[ranks, comm] : c.groups) lib_.ncclCommAbort(comm);
      c.groups.clear();
      if (c.comm) lib_.ncclCommAbort(c.comm), c.comm = nullptr;
    }
    base_.abort(reason);
  }
  CommCounters counters() const override { return {bytesSent_, bytesReceived_, messages_, collectives_}; }
  void setActivity(int channel, const std::string *what) override { base_.setActivity(channel, what); }
  uint64_t progress() const override { return base_.progress(); }
  std::string activityText() const override { return base_.activityText(); }
  std::string silentRanks() const override { return base_.silentRanks(); }

private:
  struct Channel {
    ncclComm_t comm = nullptr;
    cudaStream_t stream = nullptr;
    void *staging = nullptr;
    size_t stagingBytes = 0;
    std::vector<void *> places; // of the blocks of the exchange under way
    std::map<std::vector<int64_t>, ncclComm_t> groups;
  };

  static std::optional<ncclDataType_t> typeOf(DataType type) {
    switch (type) {
    case kFloat: return ncclFloat32;
    case kDouble: return ncclFloat64;
    case kFloat16: return ncclFloat16;
    case kBFloat16: return ncclBfloat16;
    case kInt8: return ncclInt8;
    case kUInt8: return ncclUint8;
    case kInt32: return ncclInt32;
    case kUInt32: return ncclUint32;
    case kInt64: return ncclInt64;
    case kUInt64: return ncclUint64;
    default: return std::nullopt;
    }
  }
  Status nccl(ncclResult_t result, const char *call) {
    if (result == ncclSuccess || result == ncclInProgress) return Status::ok();
    return Status(StatusCode::kExecution, "OPC0724",
                  std::string("NCCL engine: ") + call + ": " + lib_.ncclGetErrorString(result));
  }
  Status cuda(cudaError_t result, const char *call) {
    if (result == cudaSuccess) return Status::ok();
    return Status(StatusCode::kExecution, "OPC0724",
                  std::string("NCCL engine: ") + call + ": " + lib_.cudaGetErrorString(result));
  }
  Status check(int channel) {
    if (channel < 0 || channel >= options_.channels)
      return Status(StatusCode::kInternal, "OPC0724", "NCCL engine: channel " + std::to_string(channel));
    return cuda(lib_.cudaSetDevice(options_.device), "cudaSetDevice"); // of the calling thread
  }

  /// The communicator of some ranks. Its id goes from the first of them to the others by the other engine, so that
  /// nobody else has to take part.
  Status groupOf(int channel, Channel &c, const std::vector<int64_t> &group, ncclComm_t &out) {
    out = c.comm;
    if (static_cast<int64_t>(group.size()) == size()) return Status::ok();
    if (const auto found = c.groups.find(group); found != c.groups.end()) {
      out = found->second;
      return Status::ok();
    }
    ncclUniqueId id;
    const int64_t n = sizeof id;
    const CommBlock block{&id, {n}, Box{{0}, {n}}, 1};
    std::vector<CommMessage> sends, receives;
    if (rank() == group[0]) {
      OPC_RETURN_IF_ERROR(nccl(lib_.ncclGetUniqueId(&id), "ncclGetUniqueId"));
      for (size_t i = 1; i < group.size(); ++i) sends.push_back({group[i], block});
    } else {
      receives.push_back({group[0], block});
    }
    OPC_RETURN_IF_ERROR(base_.exchange(channel, sends, receives));
    const auto me = std::find(group.begin(), group.end(), rank()) - group.begin();
    OPC_RETURN_IF_ERROR(nccl(lib_.ncclCommInitRank(&out, static_cast<int>(group.size()), id, static_cast<int>(me)),
                             "ncclCommInitRank"));
    c.groups[group] = out;
    return Status::ok();
  }

  /// Between a strided block and consecutive bytes: one 2-D copy for each index of the axes outside the innermost.
  Status pack(BlockRuns runs, char *packed, bool packing, cudaStream_t stream) {
    const size_t width = runs.runBytes();
    const int64_t rows = runs.axes() > 0 ? runs.axisSize(0) : 1;
    const size_t pitch = runs.axes() > 0 ? static_cast<size_t>(runs.axisStep(0)) : width;
    for (int64_t done = 0; done < runs.runs(); done += rows) {
      const cudaError_t e = packing
                                ? lib_.cudaMemcpy2DAsync(packed, width, runs.current(), pitch, width,
                                                         static_cast<size_t>(rows), cudaMemcpyDeviceToDevice, stream)
                                : lib_.cudaMemcpy2DAsync(runs.current(), pitch, packed, width, width,
                                                         static_cast<size_t>(rows), cudaMemcpyDeviceToDevice, stream);
      OPC_RETURN_IF_ERROR(cuda(e, "cudaMemcpy2DAsync"));
      packed += width * static_cast<size_t>(rows);
      for (int64_t i = 0; i < rows; ++i) runs.next();
    }
    return Status::ok();
  }

  Status wait(Channel &c, ncclComm_t comm) {
    const auto deadline = Clock::now() + options_.timeout;
    for (int64_t polls = 0;; ++polls) {
      const cudaError_t e = lib_.cudaStreamQuery(c.stream);
      if (e == cudaSuccess) return Status::ok();
      if (e != cudaErrorNotReady) return cuda(e, "cudaStreamQuery");
      ncclResult_t pending = ncclSuccess;
      OPC_RETURN_IF_ERROR(nccl(lib_.ncclCommGetAsyncError(comm, &pending), "ncclCommGetAsyncError"));
      OPC_RETURN_IF_ERROR(nccl(pending, "an exchange"));
      if (polls > 1000) sched_yield();
      if (polls % 1024 == 1023 && Clock::now() > deadline) {
        const std::string doing = activityText();
        return Status(StatusCode::kExecution, "OPC0722",
                      "rank " + std::to_string(rank()) + " has waited " +
                          std::to_string(options_.timeout.count() / 1000) + " s for other ranks" +
                          (doing.empty() ? "" : " in " + doing));
      }
    }
  }

  Communicator &base_;
  const NcclOptions options_;
  Libraries lib_;
  std::vector<Channel> channels_;
  std::atomic<uint64_t> bytesSent_{0}, bytesReceived_{0}, messages_{0}, collectives_{0};
};

} // namespace

Result<std::unique_ptr<Communicator>> ncclCommunicator(Communicator &bootstrap, const NcclOptions &options) {
  auto comm = std::make_unique<NcclCommunicator>(bootstrap, options);
  OPC_RETURN_IF_ERROR(comm->open());
  return std::unique_ptr<Communicator>(std::move(comm));
}

} // namespace opc::runtime

#else

namespace opc::runtime {

Result<std::unique_ptr<Communicator>> ncclCommunicator(Communicator &, const NcclOptions &) {
  return std::move(Status(StatusCode::kUnsupported, "OPC0725", "this opc was built without NCCL's headers"))
      .withHelp("build it where nccl.h and cuda_runtime_api.h are found (CUDA's include folder)");
}

} // namespace opc::runtime

#endif
