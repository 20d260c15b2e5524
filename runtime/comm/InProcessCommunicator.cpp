// The engine whose ranks are threads of this process: blocks are copied straight from one rank's memory to the other's.
// SPDX-License-Identifier: Apache-2.0
#include "InProcessCommunicator.h"

#include "BlockCopy.h"
#include "OrderedSum.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <mutex>

namespace opc::runtime {
namespace {

using Clock = std::chrono::steady_clock;

/// What a rank waits for on a channel: posts from others, and that others have taken its own.
struct Endpoint {
  std::mutex lock;
  std::condition_variable changed;
  /// Messages for this rank, by sender, in the sender's order. They stay the sender's, which waits until they are
  /// taken.
  std::vector<std::deque<const CommMessage *>> inbox;
  int64_t untaken = 0; // own messages that the receivers have not copied yet
  std::vector<int64_t> untakenBy;
  const std::string *activity = nullptr;
  // What this rank has started: used by its own thread alone.
  const std::vector<CommMessage> *sends = nullptr, *receives = nullptr;
  bool started = false;
  std::vector<char> addends; // of allReduce; grows to the largest
};

/// What the ranks share. Held by shared_ptr: the ranks end in any order, and the last one frees it.
struct Job {
  Job(int64_t n, const InProcessOptions &options) : ranks(n), options(options) {
    // The last channel carries allGatherBytes and barrier.
    for (int64_t i = 0; i < n * (options.channels + 1); ++i) {
      auto e = std::make_unique<Endpoint>();
      e->inbox.resize(static_cast<size_t>(n));
      e->untakenBy.resize(static_cast<size_t>(n));
      endpoints.push_back(std::move(e));
    }
    gone.resize(static_cast<size_t>(n));
  }
  Endpoint &at(int64_t rank, int channel) {
    return *endpoints[static_cast<size_t>(rank * (options.channels + 1) + channel)];
  }
  /// Wakes everybody, with `change` made under the lock that waiting threads look at it with.
  template <class F> void tellAll(F &&change) {
    {
      std::lock_guard<std::mutex> guard(endLock);
      change();
    }
    for (auto &e : endpoints) {
      std::lock_guard<std::mutex> guard(e->lock);
      e->changed.notify_all();
    }
  }

  const int64_t ranks;
  const InProcessOptions options;
  std::vector<std::unique_ptr<Endpoint>> endpoints;
  std::mutex endLock; // taken inside an endpoint's lock, never around one
  bool aborted = false;
  std::string reason; // does not change any more when aborted
  std::vector<std::function<void(const std::string &)>> listeners;
  std::vector<bool> gone;
};

class InProcessCommunicator final : public Communicator {
public:
  InProcessCommunicator(std::shared_ptr<Job> job, int64_t rank) : job_(std::move(job)), rank_(rank) {}
  ~InProcessCommunicator() override {
    job_->tellAll([&] { job_->gone[static_cast<size_t>(rank_)] = true; });
  }
  int64_t rank() const override { return rank_; }
  int64_t size() const override { return job_->ranks; }
  const char *engine() const override { return "in-process"; }

  Status startExchange(int channel, const std::vector<CommMessage> &sends,
                       const std::vector<CommMessage> &receives) override {
    OPC_RETURN_IF_ERROR(checkChannel(channel));
    return start(channel, sends, receives);
  }
  Status finishExchange(int channel) override {
    OPC_RETURN_IF_ERROR(checkChannel(channel));
    return finish(channel);
  }

  Status allReduce(int channel, const std::vector<int64_t> &group, void *data, int64_t count, DataType type,
                   BoxingReduction reduction) override {
    OPC_RETURN_IF_ERROR(checkChannel(channel));
    const size_t n = group.size();
    const auto self = std::find(group.begin(), group.end(), rank_);
    if (self == group.end() || !std::is_sorted(group.begin(), group.end()))
      return internal("allReduce over a group that is not sorted or lacks this rank");
    if (n == 1 || count == 0) return Status::ok();
    const size_t me = static_cast<size_t>(self - group.begin()), elementSize = GetSizeOfDataType(type);
    const auto piece = [&](size_t r) {
      const int64_t q = count / static_cast<int64_t>(n), rest = count % static_cast<int64_t>(n),
                    i = static_cast<int64_t>(r);
      return Box{{i * q + std::min(i, rest)}, {q + (i < rest)}};
    };
    const auto blockOf = [&](void *base, int64_t extent, Box box) {
      return CommBlock{base, {extent}, std::move(box), elementSize};
    };
    Endpoint &mine = job_->at(rank_, channel);
    const Box own = piece(me);
    const size_t ownBytes = static_cast<size_t>(own.size[0]) * elementSize;
    mine.addends.resize(std::max(mine.addends.size(), (n - 1) * ownBytes));
    std::vector<CommMessage> sends, receives;
    std::vector<const void *> sources;
    char *slot = mine.addends.data();
    for (size_t r = 0; r < n; ++r) {
      if (r == me) {
        sources.push_back(static_cast<char *>(data) + static_cast<size_t>(own.begin[0]) * elementSize);
        continue;
      }
      sources.push_back(slot);
      sends.push_back({group[r], blockOf(data, count, piece(r))});
      receives.push_back({group[r], blockOf(slot, own.size[0], Box{{0}, own.size})});
      slot += ownBytes;
    }
    OPC_RETURN_IF_ERROR(start(channel, sends, receives));
    OPC_RETURN_IF_ERROR(finish(channel));
    if (!combineInOrder(static_cast<char *>(data) + static_cast<size_t>(own.begin[0]) * elementSize, sources.data(), n,
                        own.size[0], type, reduction))
      return internal(std::string("allReduce of type ") + dataTypeName(type));
    sends.clear(), receives.clear();
    for (size_t r = 0; r < n; ++r) {
      if (r == me) continue;
      sends.push_back({group[r], blockOf(data, count, own)});
      receives.push_back({group[r], blockOf(data, count, piece(r))});
    }
    OPC_RETURN_IF_ERROR(start(channel, sends, receives));
    OPC_RETURN_IF_ERROR(finish(channel));
    std::lock_guard<std::mutex> guard(countersLock_);
    ++counters_.collectives;
    return Status::ok();
  }

  Status allGatherBytes(const void *mine, size_t bytes, void *all) override {
    std::vector<CommMessage> sends, receives;
    const int64_t n = static_cast<int64_t>(bytes);
    for (int64_t r = 0; r < job_->ranks; ++r) {
      // The engine only reads what it sends.
      sends.push_back({r, CommBlock{const_cast<void *>(mine), {n}, Box{{0}, {n}}, 1}});
      receives.push_back(
          {r, CommBlock{static_cast<char *>(all) + static_cast<size_t>(r) * bytes, {n}, Box{{0}, {n}}, 1}});
    }
    OPC_RETURN_IF_ERROR(start(job_->options.channels, sends, receives));
    return finish(job_->options.channels);
  }
  Status barrier() override {
    char mine = 0;
    std::vector<char> all(static_cast<size_t>(job_->ranks));
    return allGatherBytes(&mine, 1, all.data());
  }

  void abort(const std::string &reason) override {
    std::vector<std::function<void(const std::string &)>> listeners;
    job_->tellAll([&] {
      if (job_->aborted) return; // the first reason is the cause
      job_->aborted = true;
      job_->reason = "rank " + std::to_string(rank_) + " has failed: " + reason;
      listeners.swap(job_->listeners);
    });
    for (const auto &tell : listeners) tell(job_->reason);
  }
  void listen(std::function<void(const std::string &reason)> tell) {
    std::unique_lock<std::mutex> lock(job_->endLock);
    if (!job_->aborted) {
      job_->listeners.push_back(std::move(tell));
      return;
    }
    lock.unlock();
    tell(job_->reason);
  }
  CommCounters counters() const override {
    std::lock_guard<std::mutex> guard(countersLock_);
    return counters_;
  }
  void setActivity(int channel, const std::string *what) override {
    if (channel < 0 || channel >= job_->options.channels) return;
    Endpoint &e = job_->at(rank_, channel);
    std::lock_guard<std::mutex> guard(e.lock);
    e.activity = what;
    if (what) progress_.fetch_add(1, std::memory_order_relaxed);
  }
  uint64_t progress() const override { return progress_.load(std::memory_order_relaxed); }
  std::string activityText() const override {
    std::string s;
    for (int c = 0; c < job_->options.channels; ++c) {
      Endpoint &e = job_->at(rank_, c);
      std::lock_guard<std::mutex> guard(e.lock);
      if (e.activity) s += (s.empty() ? "" : "; ") + *e.activity;
    }
    return s;
  }

private:
  static Status internal(const std::string &what) {
    return Status(StatusCode::kInternal, "OPC0724", "in-process engine: " + what);
  }
  Status checkChannel(int channel) const {
    if (channel >= 0 && channel < job_->options.channels) return Status::ok();
    return internal("channel " + std::to_string(channel) + " of " + std::to_string(job_->options.channels));
  }

  /// The counters are for the plan's traffic.
  bool isCounted(int channel) const { return channel < job_->options.channels; }

  Status start(int channel, const std::vector<CommMessage> &sends, const std::vector<CommMessage> &receives) {
    Endpoint &mine = job_->at(rank_, channel);
    if (mine.started) return internal("two exchanges at a time on channel " + std::to_string(channel));
    int64_t count = 0;
    uint64_t bytes = 0;
    for (const CommMessage &m : sends) {
      if (m.rank < 0 || m.rank >= job_->ranks) return internal("a message to rank " + std::to_string(m.rank));
      if (m.rank != rank_) ++count, bytes += static_cast<uint64_t>(m.block.bytes());
    }
    for (const CommMessage &m : receives)
      if (m.rank < 0 || m.rank >= job_->ranks) return internal("a message from rank " + std::to_string(m.rank));
    mine.sends = &sends, mine.receives = &receives, mine.started = true;
    {
      std::lock_guard<std::mutex> guard(mine.lock);
      mine.untaken = count;
      std::fill(mine.untakenBy.begin(), mine.untakenBy.end(), 0);
      for (const CommMessage &m : sends)
        if (m.rank != rank_) ++mine.untakenBy[static_cast<size_t>(m.rank)];
    }
    for (const CommMessage &m : sends) {
      if (m.rank == rank_) continue;
      Endpoint &other = job_->at(m.rank, channel);
      std::lock_guard<std::mutex> guard(other.lock);
      other.inbox[static_cast<size_t>(rank_)].push_back(&m);
      other.changed.notify_one();
    }
    if (isCounted(channel)) {
      std::lock_guard<std::mutex> guard(countersLock_);
      counters_.bytesSent += bytes, counters_.messages += static_cast<uint64_t>(count);
    }
    return Status::ok();
  }

  Status finish(int channel) {
    Endpoint &mine = job_->at(rank_, channel);
    if (!mine.started) return internal("no exchange to finish on channel " + std::to_string(channel));
    const Status s = receiveAll(channel, mine);
    mine.started = false;
    if (s) return s;
    // After this call the memory is the caller's again: what nobody has taken is withdrawn, what is being copied is
    // waited for.
    int64_t withdrawn = 0;
    for (int64_t r = 0; r < job_->ranks; ++r) {
      Endpoint &other = job_->at(r, channel);
      std::lock_guard<std::mutex> guard(other.lock);
      auto &box = other.inbox[static_cast<size_t>(rank_)];
      withdrawn += static_cast<int64_t>(box.size());
      box.clear();
    }
    std::unique_lock<std::mutex> lock(mine.lock);
    mine.changed.wait(lock, [&] { return mine.untaken == withdrawn; });
    return s;
  }

  Status receiveAll(int channel, Endpoint &mine) {
    const auto deadline = Clock::now() + job_->options.timeout;
    // Messages to this rank itself, in order.
    auto to = mine.receives->begin();
    for (const CommMessage &from : *mine.sends) {
      if (from.rank != rank_) continue;
      while (to != mine.receives->end() && to->rank != rank_) ++to;
      if (to == mine.receives->end()) return internal("a message to itself that nobody receives");
      if (Status s = copy(from, (to++)->block, channel); !s) return s;
    }
    uint64_t bytes = 0;
    for (const CommMessage &m : *mine.receives) {
      if (m.rank == rank_) continue;
      const CommMessage *from = nullptr;
      {
        std::unique_lock<std::mutex> lock(mine.lock);
        auto &box = mine.inbox[static_cast<size_t>(m.rank)];
        if (Status s = await(lock, mine, channel, deadline, m.rank, [&] { return !box.empty(); }); !s) return s;
        from = box.front();
        box.pop_front();
      }
      const Status s = copy(*from, m.block, channel, m.rank);
      bytes += static_cast<uint64_t>(m.block.bytes());
      Endpoint &sender = job_->at(m.rank, channel);
      {
        std::lock_guard<std::mutex> guard(sender.lock);
        --sender.untakenBy[static_cast<size_t>(rank_)];
        --sender.untaken;
        sender.changed.notify_one();
      }
      if (!s) return s;
    }
    std::unique_lock<std::mutex> lock(mine.lock);
    if (Status s = await(lock, mine, channel, deadline, -1, [&] { return mine.untaken == 0; }); !s) return s;
    if (isCounted(channel)) {
      std::lock_guard<std::mutex> guard(countersLock_);
      counters_.bytesReceived += bytes;
    }
    return Status::ok();
  }

  Status copy(const CommMessage &from, const CommBlock &to, int channel, int64_t sender = -1) {
    if (from.block.bytes() != to.bytes())
      return Status(StatusCode::kInternal, "OPC0723",
                    "rank " + std::to_string(sender < 0 ? rank_ : sender) + " sends " +
                        std::to_string(from.block.bytes()) + " bytes where rank " + std::to_string(rank_) + " wants " +
                        std::to_string(to.bytes()) + doing(rank_, channel));
    copyBlock(from.block, to);
    return Status::ok();
  }

  /// Sleeps until `ready`, the end of the job or the deadline. `from`: whose message is awaited; -1: that all take
  /// ours.
  template <class F>
  Status await(std::unique_lock<std::mutex> &lock, Endpoint &mine, int channel, Clock::time_point deadline,
               int64_t from, F &&ready) {
    for (bool late = false;;) {
      if (ready()) return Status::ok();
      std::vector<int64_t> missing;
      if (from >= 0)
        missing = {from};
      else
        for (size_t r = 0; r < mine.untakenBy.size(); ++r)
          if (mine.untakenBy[r] > 0) missing.push_back(static_cast<int64_t>(r));
      {
        std::lock_guard<std::mutex> guard(job_->endLock);
        const std::string here = mine.activity ? "; rank " + std::to_string(rank_) + " was in " + *mine.activity : "";
        if (job_->aborted) return Status(StatusCode::kExecution, "OPC0721", job_->reason + here);
        for (int64_t r : missing)
          if (job_->gone[static_cast<size_t>(r)])
            return Status(StatusCode::kExecution, "OPC0721", "rank " + std::to_string(r) + " has ended" + here);
      }
      if (late) {
        lock.unlock(); // the other ranks' activities have locks of their own
        std::string who;
        for (int64_t r : missing)
          who += (who.empty() ? "rank " : ", rank ") + std::to_string(r) + doing(r, channel, " (in ", ")");
        char seconds[32];
        std::snprintf(seconds, sizeof seconds, "%g", static_cast<double>(job_->options.timeout.count()) / 1000);
        return Status(StatusCode::kExecution, "OPC0722",
                      "rank " + std::to_string(rank_) + " has waited " + seconds + " s for " + who +
                          doing(rank_, channel));
      }
      late = mine.changed.wait_until(lock, deadline) == std::cv_status::timeout;
    }
  }
  std::string doing(int64_t rank, int channel, const char *before = " in ", const char *after = "") {
    Endpoint &e = job_->at(rank, channel);
    std::lock_guard<std::mutex> guard(e.lock);
    return e.activity ? before + *e.activity + after : std::string();
  }

  std::shared_ptr<Job> job_; // see Job
  const int64_t rank_;
  std::atomic<uint64_t> progress_{0};
  mutable std::mutex countersLock_;
  CommCounters counters_;
};

} // namespace

void listenToAbort(Communicator &communicator, std::function<void(const std::string &reason)> tell) {
  if (auto *here = dynamic_cast<InProcessCommunicator *>(&communicator)) here->listen(std::move(tell));
}

std::vector<std::unique_ptr<Communicator>> inProcessCommunicators(int64_t n, const InProcessOptions &options) {
  auto job = std::make_shared<Job>(n, options);
  std::vector<std::unique_ptr<Communicator>> ends;
  for (int64_t r = 0; r < n; ++r) ends.push_back(std::make_unique<InProcessCommunicator>(job, r));
  return ends;
}

} // namespace opc::runtime
