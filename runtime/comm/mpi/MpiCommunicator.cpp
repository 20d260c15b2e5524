// The MPI engine: MPI 3.1 calls only, one duplicated communicator for each channel.
// SPDX-License-Identifier: Apache-2.0
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include "BlockCopy.h"
#include "MpiModule.h"
#include "PeerMonitor.h"

#include <algorithm>
#include <atomic>
#include <climits>
#include <csignal>
#include <cstdio>
#include <map>
#include <mpi.h>
#include <sched.h>
#include <unistd.h>

namespace opc::runtime {
namespace {

using Clock = std::chrono::steady_clock;

/// MPI counts with int: longer messages go in pieces of this many bytes.
constexpr int64_t kPiece = int64_t(1) << 30;
/// Blocks below this share one message with the others for the same rank; so do those at the other end.
constexpr int64_t kShared = 32 << 10;
constexpr int kTag = 1, kSharedTag = 2;

Status failure(int code, const std::string &call) {
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  return Status(StatusCode::kExecution, "OPC0724", "MPI engine: " + call + ": " + text);
}
#define OPC_MPI(call)                                                                                                  \
  do {                                                                                                                 \
    if (const int code_ = (call); code_ != MPI_SUCCESS) return failure(code_, #call);                                  \
  } while (false)

MPI_Datatype typeOf(DataType type) {
  switch (type) {
  case kFloat: return MPI_FLOAT;
  case kDouble: return MPI_DOUBLE;
  case kInt8: return MPI_INT8_T;
  case kInt16: return MPI_INT16_T;
  case kInt32: return MPI_INT32_T;
  case kInt64: return MPI_INT64_T;
  case kUInt8: return MPI_UINT8_T;
  case kUInt16: return MPI_UINT16_T;
  case kUInt32: return MPI_UINT32_T;
  case kUInt64: return MPI_UINT64_T;
  default: return MPI_DATATYPE_NULL;
  }
}

/// A derived type that is freed.
struct Derived {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  Derived() = default;
  Derived(const Derived &) = delete;
  Derived &operator=(const Derived &) = delete;
  ~Derived() { reset(); }
  void reset() {
    if (type != MPI_DATATYPE_NULL) MPI_Type_free(&type);
  }
};

/// The bytes of a block, relative to the start of its first run.
Status stridedType(const BlockRuns &runs, Derived &out) {
  if (runs.runBytes() > static_cast<size_t>(INT_MAX)) {
    // A run of 2 GiB and more: whole pieces, then the rest.
    const int64_t whole = static_cast<int64_t>(runs.runBytes()) / kPiece,
                  rest = static_cast<int64_t>(runs.runBytes()) % kPiece;
    Derived piece;
    OPC_MPI(MPI_Type_contiguous(static_cast<int>(kPiece), MPI_BYTE, &piece.type));
    const int lengths[] = {static_cast<int>(whole), static_cast<int>(rest)};
    const MPI_Aint offsets[] = {0, static_cast<MPI_Aint>(whole * kPiece)};
    const MPI_Datatype types[] = {piece.type, MPI_BYTE};
    OPC_MPI(MPI_Type_create_struct(2, lengths, offsets, types, &out.type));
  } else {
    // Few large elements are faster than many bytes.
    const size_t n = runs.runBytes();
    const size_t unit = n % 8 == 0 ? 8 : n % 4 == 0 ? 4 : n % 2 == 0 ? 2 : 1;
    const MPI_Datatype element = unit == 8 ? MPI_INT64_T : unit == 4 ? MPI_INT32_T : unit == 2 ? MPI_INT16_T : MPI_BYTE;
    OPC_MPI(MPI_Type_contiguous(static_cast<int>(n / unit), element, &out.type));
  }
  for (int a = 0; a < runs.axes(); ++a) {
    if (runs.axisSize(a) > INT_MAX)
      return Status(StatusCode::kExecution, "OPC0724", "MPI engine: a block with 2^31 or more rows");
    Derived outer;
    OPC_MPI(MPI_Type_create_hvector(static_cast<int>(runs.axisSize(a)), 1, static_cast<MPI_Aint>(runs.axisStep(a)),
                                    out.type, &outer.type));
    out.reset();
    std::swap(out.type, outer.type);
  }
  return Status::ok();
}

/// What has gone through an engine so far.
struct Traffic {
  std::atomic<uint64_t> bytesSent{0}, bytesReceived{0}, messages{0}, collectives{0};
};

/// The requests of an exchange; vectors that grow once.
class Channel {
public:
  /// Sends or receives of all blocks but those of this rank itself.
  Status post(const std::vector<CommMessage> &messages, bool sending, int64_t rank, int64_t size, Traffic *traffic) {
    // Large blocks in their order; small ones of a rank in one message.
    int64_t small = 0;
    for (const CommMessage &m : messages) {
      if (m.rank < 0 || m.rank >= size)
        return Status(StatusCode::kInternal, "OPC0724", "MPI engine: a message for rank " + std::to_string(m.rank));
      if (m.rank == rank) continue;
      (sending ? traffic->bytesSent : traffic->bytesReceived) += static_cast<uint64_t>(m.block.bytes());
      if (sending) ++traffic->messages;
      if (m.block.bytes() < kShared) {
        ++small;
        continue;
      }
      OPC_RETURN_IF_ERROR(postBlock(m, sending, kTag));
    }
    if (small == 0) return Status::ok();
    order.clear();
    for (size_t i = 0; i < messages.size(); ++i)
      if (messages[i].rank != rank && messages[i].block.bytes() < kShared) order.push_back(static_cast<int64_t>(i));
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return messages[static_cast<size_t>(a)].rank < messages[static_cast<size_t>(b)].rank;
    });
    for (size_t i = 0; i < order.size();) {
      const CommMessage &first = messages[static_cast<size_t>(order[i])];
      size_t j = i + 1;
      while (j < order.size() && messages[static_cast<size_t>(order[j])].rank == first.rank) ++j;
      if (j == i + 1)
        OPC_RETURN_IF_ERROR(postBlock(first, sending, kSharedTag));
      else
        OPC_RETURN_IF_ERROR(postShared(messages, i, j, sending));
      i = j;
    }
    return Status::ok();
  }

  MPI_Comm comm = MPI_COMM_NULL;
  std::vector<MPI_Request> requests;
  std::vector<int64_t> ranks; // whom each request waits for
  bool started = false;
  std::map<std::vector<int64_t>, MPI_Comm> groups;
  std::atomic<const std::string *> activity{nullptr};

private:
  Status postBlock(const CommMessage &m, bool sending, int tag) {
    const BlockRuns runs(m.block);
    if (runs.runs() == 0) return Status::ok();
    if (!runs.contiguous()) {
      Derived type;
      OPC_RETURN_IF_ERROR(stridedType(runs, type));
      OPC_MPI(MPI_Type_commit(&type.type));
      return postOne(runs.current(), 1, type.type, m.rank, sending, tag);
    }
    for (int64_t begin = 0, bytes = m.block.bytes(); begin < bytes; begin += kPiece)
      OPC_RETURN_IF_ERROR(postOne(runs.current() + begin, static_cast<int>(std::min(kPiece, bytes - begin)), MPI_BYTE,
                                  m.rank, sending, tag));
    return Status::ok();
  }

  Status postShared(const std::vector<CommMessage> &messages, size_t begin, size_t end, bool sending) {
    const size_t n = end - begin;
    std::vector<Derived> strided(n);
    std::vector<int> lengths(n);
    std::vector<MPI_Aint> places(n);
    std::vector<MPI_Datatype> types(n);
    int64_t rank = 0;
    for (size_t i = 0; i < n; ++i) {
      const CommMessage &m = messages[static_cast<size_t>(order[begin + i])];
      rank = m.rank;
      const BlockRuns runs(m.block);
      types[i] = MPI_BYTE, lengths[i] = static_cast<int>(m.block.bytes());
      if (runs.runs() == 0) continue;
      OPC_MPI(MPI_Get_address(runs.current(), &places[i]));
      if (runs.contiguous()) continue;
      OPC_RETURN_IF_ERROR(stridedType(runs, strided[i]));
      types[i] = strided[i].type, lengths[i] = 1;
    }
    Derived all;
    OPC_MPI(MPI_Type_create_struct(static_cast<int>(n), lengths.data(), places.data(), types.data(), &all.type));
    OPC_MPI(MPI_Type_commit(&all.type));
    return postOne(MPI_BOTTOM, 1, all.type, rank, sending, kSharedTag);
  }

  Status postOne(void *at, int count, MPI_Datatype type, int64_t rank, bool sending, int tag) {
    MPI_Request request = MPI_REQUEST_NULL;
    if (sending)
      OPC_MPI(MPI_Isend(at, count, type, static_cast<int>(rank), tag, comm, &request));
    else
      OPC_MPI(MPI_Irecv(at, count, type, static_cast<int>(rank), tag, comm, &request));
    requests.push_back(request);
    ranks.push_back(rank);
    return Status::ok();
  }

  std::vector<int64_t> order; // of messages of several blocks
};

class MpiCommunicator;
std::atomic<PeerMonitor *> monitorForSignals{nullptr};
struct sigaction previousTermination;
extern "C" void onTermination(int signal, siginfo_t *info, void *context) {
  if (PeerMonitor *m = monitorForSignals.load()) m->noteTermination();
  if (previousTermination.sa_flags & SA_SIGINFO) {
    if (previousTermination.sa_sigaction) previousTermination.sa_sigaction(signal, info, context);
  } else if (previousTermination.sa_handler != SIG_DFL && previousTermination.sa_handler != SIG_IGN) {
    previousTermination.sa_handler(signal);
  }
}

class MpiCommunicator final : public Communicator {
public:
  explicit MpiCommunicator(const MpiOptions &options) : options_(options) {}

  Status open() {
    int provided = 0, initialized = 0;
    MPI_Initialized(&initialized);
    if (initialized)
      return Status(StatusCode::kInternal, "OPC0724", "MPI engine: MPI was initialized before; one engine a process");
    OPC_MPI(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided));
    open_ = true;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (provided < MPI_THREAD_MULTIPLE)
      return Status(StatusCode::kUnsupported, "OPC0724", "MPI engine: this MPI has no MPI_THREAD_MULTIPLE");
    int rank = 0, size = 0;
    OPC_MPI(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OPC_MPI(MPI_Comm_size(MPI_COMM_WORLD, &size));
    rank_ = rank, size_ = size;
    channels_ = std::vector<Channel>(static_cast<size_t>(options_.channels));
    for (Channel &c : channels_) OPC_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &c.comm));
    OPC_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &control_));
    MPI_Comm here = MPI_COMM_NULL;
    OPC_MPI(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here));
    OPC_MPI(MPI_Comm_size(here, &size));
    MPI_Comm_free(&here);
    cpu_set_t cores;
    CPU_ZERO(&cores);
    crowded_ = sched_getaffinity(0, sizeof cores, &cores) != 0 || size > CPU_COUNT(&cores);
    if (size_ == 1) return Status::ok();
    PeerMonitorOptions monitoring;
    monitoring.onEnd = [this](RankReport report) { endOfJob(std::move(report)); };
    auto monitor = PeerMonitor::create(
        rank_, size_, [this](const void *mine, size_t bytes, void *all) { return allGatherBytes(mine, bytes, all); },
        std::move(monitoring));
    // Without the sockets the job runs as well; the launcher alone then notices who dies.
    if (monitor) monitor_ = std::move(*monitor);
    if (monitor_) {
      monitorForSignals = monitor_.get();
      struct sigaction action{};
      action.sa_sigaction = onTermination;
      action.sa_flags = SA_SIGINFO | SA_RESTART;
      sigaction(SIGTERM, &action, &previousTermination);
    }
    return Status::ok();
  }

  ~MpiCommunicator() override {
    if (!open_) return;
    if (monitor_) monitor_->sayGoodbye();
    for (Channel &c : channels_) {
      for (auto &[ranks, comm] : c.groups) MPI_Comm_free(&comm);
      if (c.comm != MPI_COMM_NULL) MPI_Comm_free(&c.comm);
    }
    if (control_ != MPI_COMM_NULL) MPI_Comm_free(&control_);
    finalizing_ = true;
    MPI_Finalize();
    if (monitor_) {
      sigaction(SIGTERM, &previousTermination, nullptr);
      monitorForSignals = nullptr;
    }
  }

  int64_t rank() const override { return rank_; }
  int64_t size() const override { return size_; }
  const char *engine() const override { return "mpi"; }

  Status startExchange(int channel, const std::vector<CommMessage> &sends,
                       const std::vector<CommMessage> &receives) override {
    OPC_RETURN_IF_ERROR(checkChannel(channel));
    Channel &c = channels_[static_cast<size_t>(channel)];
    if (c.started) return Status(StatusCode::kInternal, "OPC0724", "MPI engine: two exchanges at a time on a channel");
    c.started = true;
    c.requests.clear(), c.ranks.clear();
    OPC_RETURN_IF_ERROR(c.post(receives, false, rank_, size_, &traffic_));
    OPC_RETURN_IF_ERROR(c.post(sends, true, rank_, size_, &traffic_));
    return copyOwn(sends, receives);
  }

  Status finishExchange(int channel) override {
    OPC_RETURN_IF_ERROR(checkChannel(channel));
    Channel &c = channels_[static_cast<size_t>(channel)];
    c.started = false;
    return wait(c);
  }

  bool canAllReduce(DataType type) const override { return typeOf(type) != MPI_DATATYPE_NULL; }

  Status allReduce(int channel, const std::vector<int64_t> &group, void *data, int64_t count, DataType type,
                   BoxingReduction reduction) override {
    OPC_RETURN_IF_ERROR(checkChannel(channel));
    if (!canAllReduce(type))
      return Status(StatusCode::kInternal, "OPC0724",
                    std::string("MPI engine: no all-reduce of ") + dataTypeName(type));
    Channel &c = channels_[static_cast<size_t>(channel)];
    MPI_Comm comm = MPI_COMM_NULL;
    OPC_RETURN_IF_ERROR(groupOf(c, group, comm));
    if (comm == MPI_COMM_NULL) return Status::ok();
    const int64_t size = static_cast<int64_t>(GetSizeOfDataType(type)), piece = kPiece / size;
    for (int64_t begin = 0; begin < count; begin += piece)
      OPC_MPI(MPI_Allreduce(MPI_IN_PLACE, static_cast<char *>(data) + begin * size,
                            static_cast<int>(std::min(piece, count - begin)), typeOf(type),
                            reduction == BoxingReduction::kMax ? MPI_MAX : MPI_SUM, comm));
    // How the library moves the bytes is its own; they are counted as the least that an all-reduce has to send.
    const auto p = static_cast<int64_t>(group.size());
    const int64_t me = std::find(group.begin(), group.end(), rank_) - group.begin();
    const int64_t own = count / p + (me < count % p);
    const auto bytes = static_cast<uint64_t>((count - own + (p - 1) * own) * size);
    traffic_.bytesSent += bytes, traffic_.bytesReceived += bytes, ++traffic_.collectives;
    return Status::ok();
  }

  Status allGatherBytes(const void *mine, size_t bytes, void *all) override {
    if (bytes > static_cast<size_t>(INT_MAX))
      return Status(StatusCode::kInternal, "OPC0724", "MPI engine: allGatherBytes of 2 GiB and more");
    const int n = static_cast<int>(bytes);
    OPC_MPI(MPI_Allgather(mine, n, MPI_BYTE, all, n, MPI_BYTE, control_));
    return Status::ok();
  }
  Status barrier() override {
    OPC_MPI(MPI_Barrier(control_));
    return Status::ok();
  }

  void abort(const std::string &reason) override {
    if (monitor_) monitor_->announceFailure(reason);
    usleep(200000); // so that the others say why before they are ended
    endProcess();
  }
  CommCounters counters() const override {
    return {traffic_.bytesSent, traffic_.bytesReceived, traffic_.messages, traffic_.collectives};
  }

  void setActivity(int channel, const std::string *what) override {
    if (channel < 0 || channel >= options_.channels) return;
    channels_[static_cast<size_t>(channel)].activity.store(what, std::memory_order_release);
    if (what) progress_.fetch_add(1, std::memory_order_relaxed);
  }
  uint64_t progress() const override { return progress_.load(std::memory_order_relaxed); }
  std::string activityText() const override {
    std::string s;
    for (const Channel &c : channels_)
      if (const std::string *what = c.activity.load(std::memory_order_acquire)) s += (s.empty() ? "" : "; ") + *what;
    return s;
  }
  std::string silentRanks() const override { return monitor_ ? monitor_->silentRanks() : std::string(); }

private:
  Status checkChannel(int channel) const {
    if (channel >= 0 && channel < options_.channels) return Status::ok();
    return Status(StatusCode::kInternal, "OPC0724",
                  "MPI engine: channel " + std::to_string(channel) + " of " + std::to_string(options_.channels));
  }

  Status copyOwn(const std::vector<CommMessage> &sends, const std::vector<CommMessage> &receives) {
    auto to = receives.begin();
    for (const CommMessage &from : sends) {
      if (from.rank != rank_) continue;
      while (to != receives.end() && to->rank != rank_) ++to;
      if (to == receives.end() || to->block.bytes() != from.block.bytes())
        return Status(StatusCode::kInternal, "OPC0723", "rank " + std::to_string(rank_) + " disagrees with itself");
      copyBlock(from.block, (to++)->block);
    }
    return Status::ok();
  }

  Status wait(Channel &c) {
    if (c.requests.empty()) return Status::ok();
    Clock::time_point begin{};
    for (int64_t polls = 0;; ++polls) {
      int done = 0;
      OPC_MPI(MPI_Testall(static_cast<int>(c.requests.size()), c.requests.data(), &done, MPI_STATUSES_IGNORE));
      if (done) return Status::ok();
      // Others may want the core: more ranks than cores, or this rank's kernels. With a core for each rank the first
      // millisecond is worth the wait: to yield may cost another process' whole time slice.
      if (polls > (crowded_ ? 50 : 5000)) sched_yield();
      if (polls % 1024 != 1023) continue;
      const auto now = Clock::now();
      if (begin == Clock::time_point{}) begin = now;
      std::vector<int64_t> missing;
      for (size_t i = 0; i < c.requests.size(); ++i)
        if (c.requests[i] != MPI_REQUEST_NULL) missing.push_back(c.ranks[i]);
      const std::string *activity = c.activity.load();
      const std::string here = activity ? "; rank " + std::to_string(rank_) + " was in " + *activity : std::string();
      if (monitor_ && now - begin > std::chrono::seconds(1))
        for (const int64_t r : missing)
          if (monitor_->hasLeft(r))
            return Status(StatusCode::kExecution, "OPC0721", "rank " + std::to_string(r) + " has ended" + here);
      if (now - begin < options_.timeout) continue;
      std::sort(missing.begin(), missing.end());
      missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
      std::string who;
      for (const int64_t r : missing) who += (who.empty() ? "rank " : ", rank ") + std::to_string(r);
      const std::string silent = silentRanks();
      char waited[32];
      std::snprintf(waited, sizeof waited, "%g", static_cast<double>(options_.timeout.count()) / 1000);
      return Status(StatusCode::kExecution, "OPC0722",
                    "rank " + std::to_string(rank_) + " has waited " + waited + " s for " + who +
                        (silent.empty() ? "" : "; " + silent) + here);
    }
  }

  Status groupOf(Channel &c, const std::vector<int64_t> &group, MPI_Comm &out) {
    if (group.size() <= 1) return Status::ok();
    if (static_cast<int64_t>(group.size()) == size_) {
      out = c.comm;
      return Status::ok();
    }
    const auto found = c.groups.find(group);
    if (found != c.groups.end()) {
      out = found->second;
      return Status::ok();
    }
    const std::vector<int> ranks(group.begin(), group.end());
    MPI_Group world = MPI_GROUP_NULL, part = MPI_GROUP_NULL;
    OPC_MPI(MPI_Comm_group(c.comm, &world));
    OPC_MPI(MPI_Group_incl(world, static_cast<int>(ranks.size()), ranks.data(), &part));
    OPC_MPI(MPI_Comm_create_group(c.comm, part, 3, &out));
    MPI_Group_free(&part);
    MPI_Group_free(&world);
    c.groups[group] = out;
    return Status::ok();
  }

  /// Another rank is gone. From the monitor's thread.
  void endOfJob(RankReport report) {
    const std::string doing = activityText();
    report.message += "; rank " + std::to_string(rank_) + (doing.empty() ? " was in no boxing" : " was in " + doing);
    if (options_.report) options_.report(report);
    usleep(100000); // what was said is on its way through the launcher's pipes
    endProcess();
  }
  void endProcess() {
    if (ending_.exchange(true)) {
      for (;;) pause(); // the other thread ends the process
    }
    // A second way out, for when MPI hangs.
    std::thread([] {
      sleep(10);
      _exit(75);
    }).detach();
    if (!finalizing_) MPI_Abort(MPI_COMM_WORLD, options_.exitCode);
    _exit(options_.exitCode);
  }

  const MpiOptions options_;
  int64_t rank_ = 0, size_ = 1;
  bool open_ = false, crowded_ = false; // crowded: more ranks on this machine than cores
  std::vector<Channel> channels_;
  MPI_Comm control_ = MPI_COMM_NULL;
  Traffic traffic_;
  std::atomic<uint64_t> progress_{0};
  std::atomic<bool> ending_{false}, finalizing_{false};
  std::unique_ptr<PeerMonitor> monitor_; // last: its thread uses the rest
};

} // namespace
} // namespace opc::runtime

/// The module's entry: null and a status when it fails. The caller owns the communicator.
extern "C" __attribute__((visibility("default"))) opc::runtime::Communicator *
opcMpiCommunicator(const opc::runtime::MpiOptions *options, opc::Status *status) {
  auto comm = std::make_unique<opc::runtime::MpiCommunicator>(*options);
  *status = comm->open();
  return status->isOk() ? comm.release() : nullptr;
}
