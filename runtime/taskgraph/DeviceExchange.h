// How a rank's device exchanges tensors with those of other ranks: over NCCL or from device to device, as work of a
// stream, or through the CPU's memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "BoxingExecutor.h"
#include "Device.h"

#include <atomic>
#include <chrono>
#include <map>

struct CUctx_st;

namespace opc::runtime {

namespace cuda {
class NcclGroups;
}

/// OPC_COLLECTIVES of the environment, the same for all ranks.
enum class Collectives : uint8_t {
  kAuto, // over NCCL where all ranks have it, else from device to device, else through the CPU's memory
  kNccl, // over NCCL, or not at all
  kPeer, // from device to device, or not at all
  kHost, // through the CPU's memory: sums in the order of the ranks, with the bits of ranks on CPUs
};
/// OPC0001 for another word.
Result<Collectives> collectivesAsked();

/// How the ranks of this process that were connected last exchange what lies on their devices: "over NCCL 2.28.9",
/// "from device to device (rank 0: ...)", "through the CPU's memory (rank 0: ...)"; empty where none have been.
std::string lastExchange();

/// One boxing step of tensors in a device's memory, on one rank.
class DeviceBoxing {
public:
  virtual ~DeviceBoxing() = default;
  /// Bytes that run() wants beside the tensors, in the device's memory and in memory that it copies from.
  virtual size_t deviceBytes() const { return 0; }
  virtual size_t hostBytes() const { return 0; }
  struct Scratch {
    char *device = nullptr, *host = nullptr;
  };
  /// Puts the step into the stream. What a stream has before it comes before it, as with a kernel.
  virtual Status run(Communicator &comm, Stream &stream, const void *const *inputs, void *const *outputs,
                     const Scratch &scratch) = 0;
};

struct ExchangeOptions {
  /// Whether the ranks are threads of this process: those of the simulator's NCCL have to be.
  bool inProcess = true;
  /// Whether sums are always made in the order of the ranks: where that can be seen they are the CPU's.
  bool deterministic = false;
  std::chrono::milliseconds timeout{300000};
};

/// What has travelled from device to device, over NCCL or without. Streams of a rank count at once.
struct ExchangeCounters {
  std::atomic<uint64_t> bytesSent{0}, bytesReceived{0}, messages{0}, collectives{0};
};

class DeviceMoves;

class DeviceExchange {
public:
  ~DeviceExchange();
  /// A call of all ranks of the job; `device` is null of one that has none. Errors: OPC0725 where a way is demanded and
  /// some rank does not have it.
  static Result<std::unique_ptr<DeviceExchange>> open(Device *device, Communicator &comm,
                                                      const ExchangeOptions &options);

  /// A step of the ranks that take part, who call this in the order of their channels, and of the steps on each.
  /// `executor` is the same step in the CPU's memory.
  Result<std::unique_ptr<DeviceBoxing>> prepare(const std::vector<BoxingOp> &ops, BoxingExecutor &executor,
                                                Communicator &comm, int channel);
  /// Before a stream is waited for: until other ranks have done their part, or have failed.
  Status finish(Stream &stream);
  /// What has travelled from device to device.
  CommCounters counters() const {
    return {counters_->bytesSent, counters_->bytesReceived, counters_->messages, counters_->collectives};
  }

private:
  explicit DeviceExchange(Device *device) : device_(device), counters_(std::make_shared<ExchangeCounters>()) {}
  Result<size_t> groupOf(const std::vector<int64_t> &ranks, Communicator &comm, int channel);
  Result<std::unique_ptr<DeviceBoxing>> prepared(std::unique_ptr<DeviceMoves> boxing);
  struct Offer;
  Status openPeers(const std::vector<Offer> &all, Communicator &comm);
  bool reachEachOther(const std::vector<int64_t> &ranks) const;

  Device *device_;
  bool deterministic_ = false;
  std::shared_ptr<cuda::NcclGroups> groups_; // also of whoever ends the job
  std::map<std::pair<int, std::vector<int64_t>>, size_t> known_;
  std::vector<CUctx_st *> contexts_; // by rank; empty where nothing goes from device to device
  std::vector<char> reaches_;        // by rank, then by the rank whose memory it reaches
  std::shared_ptr<ExchangeCounters> counters_;
};

} // namespace opc::runtime
