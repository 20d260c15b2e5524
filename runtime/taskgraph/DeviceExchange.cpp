// How a rank's device exchanges tensors with those of other ranks.
// SPDX-License-Identifier: Apache-2.0
#include "DeviceExchange.h"

#include "InProcessCommunicator.h"
#include "NcclBoxing.h"
#include "PeerBoxing.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string_view>

namespace opc::runtime {
namespace {

struct Last {
  std::mutex lock;
  std::string text;
};
Last &last() {
  static Last of;
  return of;
}
void setLast(std::string text) {
  const std::lock_guard<std::mutex> lock(last().lock);
  last().text = std::move(text);
}

/// The step on the CPU, with the tensors copied there and back.
class StagedBoxing final : public DeviceBoxing {
public:
  StagedBoxing(Device &device, BoxingExecutor &executor, size_t tensors, int channel)
      : device_(device), executor_(executor), channel_(channel), inputs_(tensors), outputs_(tensors) {
    bytes_ = aligned(executor.scratchBytes());
    for (size_t i = 0; i < tensors; ++i) {
      inputAt_.push_back(bytes_), bytes_ += aligned(static_cast<size_t>(executor.inputBytes(i)));
      outputAt_.push_back(bytes_), bytes_ += aligned(static_cast<size_t>(executor.outputBytes(i)));
    }
  }
  size_t hostBytes() const override { return bytes_; }

  Status run(Communicator &comm, Stream &stream, const void *const *inputs, void *const *outputs,
             const Scratch &scratch) override {
    const cuda::CudaDriver &d = static_cast<CudaDevice &>(device_).driver();
    CUstream_st *s = stream.context()->cuda_stream();
    for (size_t i = 0; i < inputs_.size(); ++i) {
      inputs_[i] = scratch.host + inputAt_[i], outputs_[i] = scratch.host + outputAt_[i];
      const auto bytes = static_cast<size_t>(executor_.inputBytes(i));
      if (bytes)
        OPC_RETURN_IF_ERROR(
            d.check(d.copyToHost(scratch.host + inputAt_[i], reinterpret_cast<cuda::CuPointer>(inputs[i]), bytes, s),
                    "copying from the device"));
    }
    OPC_RETURN_IF_ERROR(stream.synchronize()); // and for what the last step has copied to the device
    OPC_RETURN_IF_ERROR(executor_.run(comm, channel_, inputs_.data(), outputs_.data(), scratch.host));
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const auto bytes = static_cast<size_t>(executor_.outputBytes(i));
      if (bytes)
        OPC_RETURN_IF_ERROR(
            d.check(d.copyToDevice(reinterpret_cast<cuda::CuPointer>(outputs[i]), outputs_[i], bytes, s),
                    "copying to the device"));
    }
    return Status::ok();
  }

private:
  static size_t aligned(size_t n) { return (n + 63) / 64 * 64; }
  Device &device_;
  BoxingExecutor &executor_;
  const int channel_;
  std::vector<const void *> inputs_;
  std::vector<void *> outputs_;
  std::vector<size_t> inputAt_, outputAt_;
  size_t bytes_ = 0;
};

} // namespace

Result<Collectives> collectivesAsked() {
  const char *value = std::getenv("OPC_COLLECTIVES");
  const std::string_view text = value ? value : "auto";
  if (text == "auto") return Collectives::kAuto;
  if (text == "nccl") return Collectives::kNccl;
  if (text == "peer") return Collectives::kPeer;
  if (text == "host") return Collectives::kHost;
  return Status(StatusCode::kUsage, "OPC0001",
                "OPC_COLLECTIVES is '" + std::string(text) + "', and takes auto, nccl, peer or host");
}

std::string lastExchange() {
  const std::lock_guard<std::mutex> lock(last().lock);
  return last().text;
}

/// What a rank has, for all of them to know.
struct DeviceExchange::Offer {
  bool hasNccl = false, hasDevice = false;
  char why[240] = {}; // it has no NCCL
  cuda::CuDevice number = 0;
  CUctx_st *context = nullptr; // of this process, if the ranks are

  /// What this rank can say before it asks the others.
  static Offer of(Device *device, const ExchangeOptions &options, Collectives asked,
                  const cuda::NcclLibrary **library) {
    Offer offer;
    offer.hasNccl = true;
    const auto refuse = [&](const std::string &why) {
      offer.hasNccl = false;
      std::snprintf(offer.why, sizeof offer.why, "%s", why.c_str());
      return offer;
    };
    if (device) {
      const auto &cuda = static_cast<const CudaDevice &>(*device);
      offer.hasDevice = true, offer.number = cuda.number(), offer.context = cuda.context();
    }
    if (asked == Collectives::kPeer) return refuse("OPC_COLLECTIVES=peer goes without NCCL");
    if (!device) return offer;
    const bool isSimulator = simulatorOf(*device) != nullptr;
    if (isSimulator && !options.inProcess) return refuse("the simulator's NCCL is for ranks of one process");
    const Result<const cuda::NcclLibrary *> opened = cuda::NcclLibrary::open(isSimulator);
    if (!opened) return refuse(opened.status().message());
    *library = *opened;
    return offer;
  }
};

DeviceExchange::~DeviceExchange() {
  if (groups_) groups_->close();
}

/// Each rank's device is let into the memory of the others', as far as they can; a call of all ranks.
Status DeviceExchange::openPeers(const std::vector<Offer> &all, Communicator &comm) {
  std::vector<char> mine(all.size());
  for (size_t r = 0; r < all.size(); ++r)
    mine[r] = device_ && all[r].hasDevice && static_cast<CudaDevice &>(*device_).reach(all[r].number, all[r].context);
  reaches_.resize(all.size() * all.size());
  OPC_RETURN_IF_ERROR(comm.allGatherBytes(mine.data(), mine.size(), reaches_.data()));
  for (const Offer &o : all) contexts_.push_back(o.context);
  return Status::ok();
}

bool DeviceExchange::reachEachOther(const std::vector<int64_t> &ranks) const {
  if (contexts_.empty()) return false;
  return std::all_of(ranks.begin(), ranks.end(), [&](int64_t a) {
    return std::all_of(ranks.begin(), ranks.end(), [&](int64_t b) {
      return reaches_[static_cast<size_t>(a) * contexts_.size() + static_cast<size_t>(b)] != 0;
    });
  });
}

Result<std::unique_ptr<DeviceExchange>> DeviceExchange::open(Device *device, Communicator &comm,
                                                             const ExchangeOptions &options) {
  std::unique_ptr<DeviceExchange> exchange(new DeviceExchange(device));
  exchange->deterministic_ = options.deterministic;
  OPC_ASSIGN_OR_RETURN(const Collectives asked, collectivesAsked());
  setLast("through the CPU's memory");
  if (asked == Collectives::kHost) return exchange;
  const cuda::NcclLibrary *library = nullptr;
  const Offer mine = Offer::of(device, options, asked, &library);
  std::vector<Offer> all(static_cast<size_t>(comm.size()));
  OPC_RETURN_IF_ERROR(comm.allGatherBytes(&mine, sizeof mine, all.data()));
  const auto without = std::find_if(all.begin(), all.end(), [](const Offer &o) { return !o.hasNccl; });
  std::string why;
  if (without != all.end())
    why = "rank " + std::to_string(without - all.begin()) + ": " +
          std::string(without->why, strnlen(without->why, sizeof without->why));
  if (asked == Collectives::kNccl && !why.empty())
    return Status(StatusCode::kUnsupported, "OPC0725", "the ranks cannot exchange over NCCL; " + why)
        .withHelp("install NCCL 2.18 or later, or put its folder into LD_LIBRARY_PATH; without OPC_COLLECTIVES=nccl "
                  "they go from device to device, or take the CPU's memory");
  // Beside NCCL there are sums that it may not make: those in the order of the ranks.
  if (options.inProcess && asked != Collectives::kNccl && (!why.empty() || options.deterministic))
    OPC_RETURN_IF_ERROR(exchange->openPeers(all, comm));
  if (!why.empty()) {
    std::vector<int64_t> ranks;
    for (size_t r = 0; r < all.size(); ++r)
      if (all[r].hasDevice) ranks.push_back(static_cast<int64_t>(r));
    const bool reach = exchange->reachEachOther(ranks);
    if (asked == Collectives::kPeer && !reach)
      return Status(StatusCode::kUnsupported, "OPC0725",
                    "the ranks cannot exchange from device to device; " +
                        std::string(options.inProcess ? "not all devices reach each other's memory"
                                                      : "they are processes"))
          .withHelp("without OPC_COLLECTIVES=peer they take NCCL, or the CPU's memory");
    setLast((reach ? "from device to device (" : "through the CPU's memory (") + why + ")");
    return exchange;
  }
  if (!library) return exchange; // of a rank without a device
  setLast("over NCCL " + library->versionText());
  exchange->groups_ = std::make_shared<cuda::NcclGroups>(*library, static_cast<CudaDevice &>(*device), options.timeout);
  listenToAbort(comm, [groups = exchange->groups_](const std::string &reason) { groups->abort(reason); });
  return exchange;
}

/// Its id goes from the first of them to the others, so that nobody else has to take part.
Result<size_t> DeviceExchange::groupOf(const std::vector<int64_t> &ranks, Communicator &comm, int channel) {
  const auto known = known_.find({channel, ranks});
  if (known != known_.end()) return known->second;
  cuda::NcclId id;
  const auto bytes = static_cast<int64_t>(sizeof id);
  const CommBlock block{&id, {bytes}, Box{{0}, {bytes}}, 1};
  std::vector<CommMessage> sends, receives;
  if (comm.rank() == ranks[0]) {
    OPC_ASSIGN_OR_RETURN(id, groups_->makeId());
    for (size_t i = 1; i < ranks.size(); ++i) sends.push_back({ranks[i], block});
  } else {
    receives.push_back({ranks[0], block});
  }
  OPC_RETURN_IF_ERROR(comm.exchange(channel, sends, receives));
  const auto me = std::find(ranks.begin(), ranks.end(), comm.rank()) - ranks.begin();
  OPC_ASSIGN_OR_RETURN(const size_t group, groups_->join(id, static_cast<int>(ranks.size()), static_cast<int>(me)));
  known_.emplace(std::pair(channel, ranks), group);
  return group;
}

Result<std::unique_ptr<DeviceBoxing>>
DeviceExchange::prepare(const std::vector<BoxingOp> &ops, BoxingExecutor &executor, Communicator &comm, int channel) {
  const std::vector<int64_t> ranks = ranksOf(ops[0], comm.rank());
  if (!groups_ || !NcclBoxing::canRun(ops, comm.rank(), deterministic_)) {
    if (!reachEachOther(ranks) || !PeerBoxing::canRun(ops, comm.rank()))
      return std::unique_ptr<DeviceBoxing>(std::make_unique<StagedBoxing>(*device_, executor, ops.size(), channel));
    OPC_ASSIGN_OR_RETURN(
        std::unique_ptr<PeerBoxing> peers,
        PeerBoxing::create(ops, comm.rank(), static_cast<CudaDevice &>(*device_), contexts_, channel, counters_));
    return prepared(std::move(peers));
  }
  const BoxingKind kind = ops[0].step.kind;
  const bool isLocal = kind == BoxingKind::kSlice || kind == BoxingKind::kPartialOf || kind == BoxingKind::kPad;
  std::optional<size_t> group;
  if (!isLocal && ranks.size() > 1) {
    OPC_ASSIGN_OR_RETURN(group, groupOf(ranks, comm, channel));
  }
  return prepared(std::make_unique<NcclBoxing>(ops, comm.rank(), groups_, group, counters_));
}

Result<std::unique_ptr<DeviceBoxing>> DeviceExchange::prepared(std::unique_ptr<DeviceMoves> boxing) {
  const std::unique_ptr<Stream> stream = device_->createStream(1);
  OPC_RETURN_IF_ERROR(boxing->prepare(*device_, *stream));
  return std::unique_ptr<DeviceBoxing>(std::move(boxing));
}

Status DeviceExchange::finish(Stream &stream) {
  CUstream_st *s = stream.context()->cuda_stream();
  return groups_ && s ? groups_->finish(s) : Status::ok();
}

} // namespace opc::runtime
