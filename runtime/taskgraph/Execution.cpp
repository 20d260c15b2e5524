// Running a task graph: the hot loop of one stream, and the counters between several.
// SPDX-License-Identifier: Apache-2.0
#include "TaskGraph.h"

#include "DeviceErrors.h"
#include "StepFailure.h"

#include "opc/NanKeeping.h"

#include <chrono>
#include <utility>

namespace opc::runtime {
namespace {

// About a microsecond: most waits between streams end sooner, and a futex call costs more.
constexpr int kSpins = 1000;

void pauseCpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

int64_t nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// After two runs that have met NaN so many more keep it from the beginning: a second run of each would cost more.
constexpr int64_t kCareful = 64;

} // namespace

Status TaskGraph::failed(Status status, uint32_t task) const {
  if (!status.context().empty()) return status; // a device has said which op it is
  const ModelTask &t = model_.tasks[task];
  status = orDeviceError(std::move(status));
  // Of several ops that are one task the one that has failed, if it was one.
  const std::optional<size_t> step = std::exchange(failedStep, std::nullopt);
  const ModelTask::Part op = step && *step < t.parts.size() ? t.parts[*step] : ModelTask::Part{t.name, t.type, t.where};
  return Status(failureCode(status), status.id().empty() ? "OPC0601" : status.id(), op.type + ": " + status.message())
      .withHelp(status.help())
      .withContext(runningText(op.name) + op.where.at());
}

/// What a device has said at the end of a run: an op that it names gets its place in the graph.
Status TaskGraph::placed(Status status) const {
  if (status.isOk()) return status;
  std::string help = status.help(), context = status.context();
  if (context.empty() && !isWatched() && !model_.arenas.empty() && !arenas().device(0).isHostMemory())
    help = "opc run --observe sync waits after each op and names the one" + (help.empty() ? "" : "; " + help);
  for (const ModelTask &t : model_.tasks)
    if (!context.empty() && context == runningText(t.name)) context += t.where.at();
  return Status(status.code(), status.id(), status.message()).withHelp(help).withContext(context);
}

template <bool kLeaves> Status TaskGraph::runPlainAs(Lane &lane, int64_t first, int64_t steps) {
  DeviceCtx *const context = lane.stream->context(), *const alone = lane.stream->contextAlone();
  ThreadGain *gain = lane.gain ? &*lane.gain : nullptr;
  for (int64_t k = first; k < steps; ++k) {
    lane.stream->beginStep(seed_, position() + k);
    const bool isTimed = gain && gain->isTrial();
    for (size_t i = 0; i < lane.plain.size(); ++i) {
      KernelTask &task = *lane.plain[i];
      const bool isAlone = gain && gain->isAlone(i), leaves = kLeaves && lane.leaves[i];
      DeviceCtx *ctx = isAlone ? alone : context;
      const int64_t start = isTimed ? nanoseconds() : 0;
      if (Status s = leaves ? task.runBefore(ctx) : task.run(ctx); !s.isOk()) [[unlikely]] {
        lane.stream->endSteps();
        (void)lane.stream->synchronize(); // what the device has noted so far belongs to this run
        return failed(std::move(s), lane.operations[i].task);
      }
      if (isTimed) gain->took(i, isAlone, nanoseconds() - start);
    }
    if (gain) gain->endStep();
  }
  lane.stream->endSteps();
  return lane.stream->synchronize();
}

bool TaskGraph::await(const Wait &wait, int64_t step) {
  const int64_t wanted = step + wait.offset;
  int64_t have = wait.counter->load(std::memory_order_acquire);
  for (int i = 0; have < wanted && i < kSpins; ++i) {
    pauseCpu();
    have = wait.counter->load(std::memory_order_acquire);
  }
  while (have < wanted) {
    wait.counter->wait(have, std::memory_order_acquire);
    have = wait.counter->load(std::memory_order_acquire);
  }
  return !aborted_.load(std::memory_order_relaxed);
}

void TaskGraph::abortRun() {
  if (aborted_.exchange(true)) return; // of several lanes that fail one: counters must not pass the end of their type
  // No waiter may stay: every counter passes anything that can be waited for. The next run sets them anew.
  for (Counter &c : counters_) {
    c.fetch_add(int64_t{1} << 60);
    c.notify_all();
  }
}

void TaskGraph::stopLane(Lane &lane, Status status) {
  lane.status = std::move(status);
  abortRun();
  // Other ranks wait for what this one will not send, and its own lanes for what those will not.
  if (!link_.communicator) return;
  if (link_.onFailure && lane.status.id() != kRankGone) link_.onFailure(lane.status);
  link_.communicator->abort(lane.status.message() +
                            (lane.status.context().empty() ? "" : ", " + lane.status.context()));
}

/// What other ranks have to do for it is waited for in a way that their failure ends.
Status TaskGraph::waitFor(Lane &lane) {
  if (exchange_) OPC_RETURN_IF_ERROR(exchange_->finish(*lane.stream));
  return lane.stream->synchronize();
}

template <bool kObserved> void TaskGraph::runLaneAs(Lane &lane, int64_t first, int64_t steps) {
  struct Steps { // whatever way the lane is left
    Stream &stream;
    ~Steps() { stream.endSteps(); }
  } inSteps{*lane.stream};
  int64_t announced = first - 1;
  for (int64_t turn = 0; turn < steps + lane.maxLag; ++turn) {
    [[maybe_unused]] size_t nextView = 0;
    [[maybe_unused]] uint32_t position = 0;
    for (const Operation &op : lane.operations) {
      const int64_t inRun = turn - op.lag;
      if (inRun < 0 || inRun >= steps) { // begins later than this turn, or has ended
        if constexpr (kObserved) ++position;
        continue;
      }
      const int64_t k = first + inRun;
      if (k != announced) {
        lane.stream->beginStep(seed_, origin_ + k);
        announced = k;
      }
      for (uint32_t w = op.waitBegin; w < op.waitEnd; ++w) {
        if (!await(lane.waits[w], k)) return;
        // What an earlier run has done was waited for at its end.
        if (StreamMark *mark = lane.waits[w].mark; mark && k + lane.waits[w].offset > first)
          if (Status s = lane.stream->waitFor(*mark); !s.isOk()) return stopLane(lane, failed(std::move(s), op.task));
      }
      // A task that skips this step still waits and signals: counters count steps, not runs.
      const bool runs = op.stride == 1 || (k + 1) % op.stride == 0;
      if constexpr (kObserved) {
        Status s = observeViews(lane, &nextView, position++, k);
        if (s.isOk() && runs) s = runObserved(lane, op, k);
        if (!s.isOk()) return stopLane(lane, std::move(s));
      } else if (runs) {
        Status s = execute(lane, op, k);
        if (!s.isOk()) return stopLane(lane, failed(std::move(s), op.task));
      }
      if (op.signalBegin != op.signalEnd)
        if (Status s = op.mark ? lane.stream->mark(*op.mark) : waitFor(lane); !s.isOk())
          return stopLane(lane, failed(std::move(s), op.task));
      for (uint32_t i = op.signalBegin; i < op.signalEnd; ++i) {
        lane.signals[i]->fetch_add(1, std::memory_order_release);
        lane.signals[i]->notify_all();
      }
    }
    if constexpr (kObserved)
      if (Status s = observeViews(lane, &nextView, UINT32_MAX, std::min(first + turn, first + steps - 1)); !s.isOk())
        return stopLane(lane, std::move(s));
    if (aborted_.load(std::memory_order_relaxed)) return;
    if (link_.watchdog) link_.watchdog->poke();
  }
}

void TaskGraph::runLane(Lane &lane, int64_t first, int64_t steps) {
  isWatched() ? runLaneAs<true>(lane, first, steps) : runLaneAs<false>(lane, first, steps);
}

void TaskGraph::workerLoop(Lane *lane) {
  lane->stream->enter();
  uint64_t seen = 0;
  for (;;) {
    epoch_.wait(seen, std::memory_order_acquire);
    const uint64_t now = epoch_.load(std::memory_order_acquire);
    if (stopping_) return;
    if (now == seen) continue;
    seen = now;
    runLane(*lane, runFirst_, runSteps_);
    if (working_.fetch_sub(1, std::memory_order_acq_rel) == 1) working_.notify_all();
  }
}

/// As fast as it goes, and again, with kernels that keep NaN, where there is one.
Status TaskGraph::runKeepingNan(Lane &lane, int64_t steps) {
  if (carefulRuns_ == 0) {
    (void)lane.stream->takeInvalid(/*alone=*/true); // what the caller has computed
    OPC_RETURN_IF_ERROR(runPlain(lane, steps));
    const bool hadNan = std::exchange(hasNan_, lane.stream->takeInvalid(/*alone=*/false));
    if (!hasNan_) return Status::ok();
    carefulRuns_ = hadNan ? kCareful : 1;
  }
  --carefulRuns_;
  user_op::NanKeeping keeping;
  return runPlain(lane, steps);
}

Status TaskGraph::run(int64_t steps) { return steps > 0 ? placed(runLanes(steps)) : Status::ok(); }

Status TaskGraph::runLanes(int64_t steps) {
  Lane &own = lanes_[0];
  own.stream->enter();
  OPC_RETURN_IF_ERROR(showPrepared());
  const bool isPlain = lanes_.size() == 1 && !own.plain.empty() && !isWatched();
  std::optional<user_op::NanKeeping> keeping; // where a run cannot be made again, or would be shown twice
  if (losesNan_ && !isPlain) keeping.emplace();
  if (lanes_.size() == 1) {
    if (isPlain) {
      OPC_RETURN_IF_ERROR(losesNan_ ? runKeepingNan(own, steps) : runPlain(own, steps));
    } else {
      own.status = Status::ok();
      aborted_ = false;
      runLane(own, step_, steps);
      if (own.status.isOk()) own.status = waitFor(own);
      if (!own.status.isOk()) return own.status;
    }
    step_ += steps;
    return Status::ok();
  }
  if (!recordsAll_ || isWatched()) return runTogether(steps);
  const int64_t before = step_;
  Status status = runRecorded(steps);
  if (!status.isOk()) step_ = before;
  return status;
}

Status TaskGraph::runTogether(int64_t steps) {
  Lane &own = lanes_[0];
  for (Counter &c : counters_) c.store(step_, std::memory_order_relaxed);
  for (Lane &lane : lanes_) lane.status = Status::ok();
  aborted_ = false;
  runFirst_ = step_;
  runSteps_ = steps;
  working_.store(static_cast<int64_t>(lanes_.size()) - 1, std::memory_order_relaxed);
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  runLane(own, step_, steps);
  for (int64_t left = working_.load(std::memory_order_acquire); left != 0;
       left = working_.load(std::memory_order_acquire))
    working_.wait(left, std::memory_order_acquire);
  OPC_RETURN_IF_ERROR(waitForAll());
  step_ += steps;
  return Status::ok();
}

/// What lanes have put into their streams is waited for here, when none of them adds to it.
Status TaskGraph::waitForAll() {
  for (Lane &lane : lanes_) {
    Status done = waitFor(lane);
    if (lane.status.isOk()) lane.status = std::move(done);
  }
  // A lane that was ended from outside is not the reason.
  const Status *failure = nullptr;
  for (const Lane &lane : lanes_)
    if (!lane.status.isOk() && (!failure || failure->id() == kRankGone)) failure = &lane.status;
  return failure ? *failure : Status::ok();
}

} // namespace opc::runtime
