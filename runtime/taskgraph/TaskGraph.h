// The executable form of a plan: memory, kernels, and one lane of tasks for each stream.
//
// Five concepts: a task runs a kernel on fixed addresses; a stream is an ordered list of tasks run by one thread; a
// register is a memory slot times its credits, with monotone counters (produced; consumed, per reading stream); an edge
// is a wait on a counter (data: produced >= k + 1; credits: consumed >= k + 1 - credits); k is the step. Edges inside a
// stream vanish: its order is their proof.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Arenas.h"
#include "BoxingTask.h"
#include "KernelTask.h"
#include "PlanModel.h"
#include "Poison.h"
#include "RunObserver.h"
#include "ThreadGain.h"
#include "Watchdog.h"

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <vector>

namespace opc::runtime {

/// The tasks of a plan as observers see them. `instance` gives a task's op.
std::vector<ObservedTask> describeTasks(const PlanModel &model,
                                        const std::function<const OpInstance &(uint32_t)> &instance);

/// What calls on a communicator end with when another rank has failed.
constexpr char kRankGone[] = "OPC0721";

/// What a rank of several needs beside its plan.
struct RankLink {
  Communicator *communicator = nullptr; // outlives the task graph
  Watchdog *watchdog = nullptr;         // is shown every turn; may be none
  /// Hears of this rank's failure before Communicator::abort, which may end the process. From any lane's thread.
  std::function<void(const Status &)> onFailure;
  BoxingOptions boxing;
  ExchangeOptions exchange;
  bool hasDevices = false; // some rank of the job has one that is not the CPU
};

class TaskGraph {
public:
  /// Takes the memory. `threads` is shared evenly between the streams that compute; streams for communication have a
  /// thread each beside them. Boxing tasks need a link.
  /// With `sibling`, a graph of the same plan for other sizes, in the memory that the sibling has taken.
  static Result<std::unique_ptr<TaskGraph>> create(PlanModel model, std::vector<CrossEdge> edges, int threads,
                                                   const RankLink &link = {}, const TaskGraph *sibling = nullptr);
  ~TaskGraph();

  const PlanModel &model() const { return model_; }
  /// With what graphs in tasks have; of those that several threads have, one.
  uint64_t arenaBytes() const { return arenas().totalBytes() + model_.graphBytes(); }
  /// Another communicator in place of one that has been aborted. Between runs.
  void setCommunicator(Communicator *communicator) {
    link_.communicator = communicator;
    isLinked_ = false;
  }
  /// How tensors in the memory of devices travel; null: there are none, or nothing is bound yet.
  const DeviceExchange *exchange() const { return exchange_.get(); }
  void setWatchdog(Watchdog *watchdog) { link_.watchdog = watchdog; }
  /// Whether the host may follow data(tensor).
  bool isHostMemory(uint32_t tensor) const {
    return arenas().device(model_.registers[model_.tensors[tensor].reg].arena).isHostMemory();
  }
  /// The address of a tensor in the slot that step `step` uses.
  void *data(uint32_t tensor, int64_t step = 0) const;
  /// Copies between the host and a tensor (in the slot of step `step`).
  Status copyIn(uint32_t tensor, const void *from, int64_t step = 0);
  /// Copies `bytes` to where a tensor of one slot begins, for a sibling in which it has that size.
  Status copyPrefix(uint32_t tensor, const void *from, uint64_t bytes);
  Status copyOut(uint32_t tensor, int64_t step, void *to) const;
  /// The other way round of copyPrefix().
  Status copyPrefixOut(uint32_t tensor, void *to, uint64_t bytes) const;
  /// Lets the readers of an input's register follow `from` in place of the arena; nullptr: the arena again. The next
  /// refresh() ties their kernels anew. False where that cannot be: several slots, other ranks, packed weights that are
  /// given back.
  bool lend(uint32_t tensor, const void *from);

  /// Lets bind() write a variable's value right before the first kernel that reads it is made, so that of weights that
  /// are packed one at a time is in memory twice. Before bind(), and for host memory alone.
  using Fill = std::function<Status(void *to)>;
  /// `lies`, which may be null: where the value is as long as the graph lives, at any address. Kernels that can read it
  /// there do so where memory of packed variables is given back, and it is not written for them.
  void fillLater(uint32_t tensor, Fill fill, std::shared_ptr<const void> lies = nullptr) {
    const uint32_t reg = model_.tensors[tensor].reg;
    fills_[reg] = {tensor, std::move(fill)};
    if (lies) elsewhere_[reg] = {tensor, std::move(lies)};
  }
  /// Does it at once where it is still to be done, or not at all.
  Status fillNow(uint32_t tensor) { return fillRegister(model_.tensors[tensor].reg); }
  void fillNever(uint32_t tensor);
  /// Who hears, while bind() runs, of tensors in lent memory that all their readers have packed. Before bind().
  void tellPacked(std::function<void(uint32_t tensor)> hear) { hearPacked_ = std::move(hear); }
  /// What is lent to an input stays as it is until markChanged(): kernels may pack it. Before bind().
  void holdConstant(uint32_t tensor) { model_.registers[model_.tensors[tensor].reg].kind = plan::Register::VARIABLE; }

  /// Makes the kernels of all tasks. What constants and variables hold now is what kernels may pack.
  Status bind();
  bool isBound() const { return bound_; }
  /// Asks bind() to give back the memory of constants and variables that all their readers have packed. Before bind().
  void releasePacked() { releasesPacked_ = true; }
  /// Whether that has happened: to a register, to any.
  bool isReleased(uint32_t reg) const { return !released_.empty() && released_[reg]; }
  bool hasReleased() const { return anyReleased_; }
  /// The contents of a register changed after bind(): kernels that read it as a constant are bound again by the next
  /// refresh().
  void markChanged(uint32_t reg);
  Status refresh();

  /// Shows every task of the next runs to `observer`; nullptr: none, at no cost.
  void observe(RunObserver *observer);
  /// What an observer is shown of each task, by index.
  const std::vector<ObservedTask> &observedTasks();
  /// A task's op with its attributes.
  const OpInstance &instance(uint32_t task) const;

  /// Runs `steps` steps. Not before bind(). On failure the step counter stays at the last complete step before the
  /// call; on several ranks a failure ends the job (Communicator::abort).
  Status run(int64_t steps);
  /// Steps completed since create().
  int64_t steps() const { return step_; }
  /// The number of the next step as kernels see it, and the seed: a session that goes on from a checkpoint does not
  /// begin at 0.
  int64_t position() const { return origin_ + step_; }
  void setPosition(int64_t step) { origin_ = step - step_; }
  void setSeed(uint64_t seed) { seed_ = seed; }
  /// Of a graph in a task: the graph around it sees to it that NaN is kept. Before run().
  void leaveNanToOthers() { losesNan_ = false; }
  /// Goes on where a sibling is: its steps, its seed, its observer.
  void followOn(const TaskGraph &sibling);

private:
  using Counter = std::atomic<int64_t>;
  struct Wait { // until *counter >= step + offset
    Counter *counter;
    int64_t offset;
    StreamMark *mark; // behind the work that the counter counts, where that is not done by then
  };
  struct Operation {             // one task of a lane
    KernelTask *const *variants; // one for each combination of slots
    BoxingTask *boxing;          // in place of kernels
    uint32_t variantCount, stride, lag, task;
    uint32_t waitBegin, waitEnd, signalBegin, signalEnd;
    StreamMark *mark; // set before it signals
  };
  struct Lane {
    std::unique_ptr<Stream> stream;
    std::vector<Operation> operations;
    std::vector<KernelTask *> plain; // the same tasks, when no operation waits, signals, skips or has variants
    std::vector<bool> leaves;        // which of them leave what they have taken to the next one; empty: none
    std::optional<ThreadGain> gain;  // of the plain tasks, when the stream has threads
    std::vector<Wait> waits;
    std::vector<Counter *> signals;
    std::vector<std::pair<uint32_t, uint32_t>> views; // (operation that it stands before, task), for observers
    bool repeats = false;                             // each step puts the same work into the stream
    int64_t stepsBefore = 0;                          // that were not recorded
    std::unique_ptr<StreamRecording> recording;       // of one step
    std::vector<std::unique_ptr<StreamMark>> marks;
    uint32_t maxLag = 0;
    DeviceMemory scratch, deviceScratch; // of its boxing tasks, one at a time
    Status status;
    std::thread thread; // lanes but the first, which runs in the caller's thread
  };

  TaskGraph() = default;
  Result<Device *> deviceOf(const std::string &name);
  std::string largestOf(uint32_t arena) const;
  Status openDevices();
  Status takeArenas();
  Status makeLanes(int threads);
  const Arenas &arenas() const { return memory_->arenas; }
  bool isConstant(uint32_t tensor) const;
  bool isTiedTo(uint32_t tensor) const;
  std::vector<void *> addresses(uint32_t index, uint32_t variant, void **workspace) const;
  Status countVariants(const ModelTask &task, uint64_t *variants);
  Status fillRegister(uint32_t reg);
  Status bindTask(uint32_t index, Stream &stream);
  Device *ownDevice() const;
  const Device *deviceOf(const ModelTask &task) const;
  Status linkDevices();
  Status prepareExchange(uint32_t index, int channel);
  Status bindBoxing(uint32_t index, int channel);
  Status takeScratch();
  Status startThreads();
  std::vector<uint32_t> bindingOrder(const std::vector<uint32_t> &tasks) const;
  Status waitFor(Lane &lane);
  void countReads();
  void notePacked(uint32_t index);
  bool readElsewhere(uint32_t index, size_t input);
  void noteRead(uint32_t tensor);
  class TaskInputs;
  Status bindLate(uint32_t index, Stream &stream);
  Status makeKernels(uint32_t index, Stream &stream);
  Status prepare();
  Status runOnce(uint32_t index, Stream &stream);
  Status renew(uint32_t index, Stream &stream);
  Status renewAll();
  Status showPrepared();
  void buildLanes(const std::vector<CrossEdge> &edges);
  static void noteLeaving(Lane &lane);
  template <bool kLeaves> Status runPlainAs(Lane &lane, int64_t first, int64_t steps);
  Status runKeepingNan(Lane &lane, int64_t steps);
  Status runPlain(Lane &lane, int64_t steps) {
    if (lane.repeats) return runRepeating(lane, steps);
    return lane.leaves.empty() ? runPlainAs<false>(lane, 0, steps) : runPlainAs<true>(lane, 0, steps);
  }
  bool mayRunAgain() const;
  bool mayRepeat(uint32_t task) const;
  Status runRepeating(Lane &lane, int64_t steps);
  bool mayRecordAll() const;
  Status recordLanes();
  Status runRecorded(int64_t steps);
  StreamMark *markBehind(uint32_t task, std::vector<std::optional<StreamMark *>> *marks);
  class DataView;
  template <bool kObserved> void runLaneAs(Lane &lane, int64_t first, int64_t steps);
  Status execute(const Lane &lane, const Operation &op, int64_t step) {
    const auto variant = static_cast<uint32_t>(static_cast<uint64_t>(step) % op.variantCount);
    return op.boxing ? op.boxing->run(*link_.communicator, *lane.stream, variant)
                     : op.variants[variant]->run(lane.stream->context());
  }
  void stopLane(Lane &lane, Status status);
  void runLane(Lane &lane, int64_t first, int64_t steps);
  std::unique_lock<std::mutex> alone();
  /// The tasks of the graphs of a task that has some, timed from now on; what they have taken since.
  void timeGraphs(uint32_t task);
  std::vector<InnerTime> innerTimes(uint32_t task);
  bool isWatched() const { return observer_ || poison_; }
  Status runObserved(Lane &lane, const Operation &op, int64_t step);
  Status observeViews(const Lane &lane, size_t *next, uint32_t operation, int64_t step);
  bool await(const Wait &wait, int64_t step);
  void abortRun();
  Status failed(Status status, uint32_t task) const;
  Status runLanes(int64_t steps);
  Status runTogether(int64_t steps);
  Status waitForAll();
  Status placed(Status status) const;
  void workerLoop(Lane *lane);

  PlanModel model_;
  struct Memory {
    std::vector<std::unique_ptr<Device>> devices;
    Arenas arenas;
  };
  std::shared_ptr<Memory> memory_; // of all siblings, in whatever order they go
  std::vector<CrossEdge> edges_;
  std::vector<Lane> lanes_;
  bool recordsAll_ = false;                       // each step puts the same work into all streams, of one device
  std::vector<std::unique_ptr<StreamMark>> ends_; // by lane: where what is recorded of it ends; of the first, begins
  std::vector<std::unique_ptr<Stream>> ownStreams_;
  std::vector<Stream *> arenaStreams_; // by arena: a lane's, or its own
  std::mutex observing_;
  bool isBoxing_ = false;                                         // the model has boxing tasks
  std::vector<std::vector<std::unique_ptr<KernelTask>>> kernels_; // by task, then variant
  std::vector<std::vector<KernelTask *>> variants_;
  std::vector<std::unique_ptr<BoxingTask>> boxings_; // by task
  std::vector<bool> isReady_;                        // by task: one that runs once has
  bool showsPrepared_ = false;                       // some have run since they were shown
  RankLink link_;
  std::unique_ptr<DeviceExchange> exchange_;
  bool isLinked_ = false; // exchange_ is of the communicator that is there
  std::deque<Counter> counters_;
  std::vector<bool> changed_; // registers
  std::vector<void *> lent_;  // by register: the host's memory in place of the arena's; empty when nothing is lent
  std::map<uint32_t, std::pair<uint32_t, Fill>> fills_; // by register: the variable, and what writes it
  std::map<uint32_t, std::pair<uint32_t, std::shared_ptr<const void>>> elsewhere_; // by register: where the value lies
  std::set<std::pair<uint32_t, size_t>> readElsewhere_; // tasks with the inputs that they read there
  bool anyChanged_ = false, bound_ = false;
  std::function<void(uint32_t)> hearPacked_; // may be empty
  bool releasesPacked_ = false, anyReleased_ = false;
  bool hasLost_ = false;                // weights, with a kernel that could not be made
  bool losesNan_ = false;               // a kernel is fast because it loses NaN (opc/NanKeeping.h)
  bool hasNan_ = false;                 // the last run may have had one
  int64_t carefulRuns_ = 0;             // that are to come, and keep NaN from the beginning
  std::vector<uint32_t> unpackedReads_; // by register: readers that have not packed it
  std::vector<bool> released_;          // registers
  RunObserver *observer_ = nullptr;
  std::optional<Poison> poison_;
  std::vector<ObservedTask> observed_;
  uint64_t kernelTasks_ = 0;
  int64_t step_ = 0, origin_ = 0;
  uint64_t seed_ = 0;

  // The hand-over between the caller and the workers.
  std::atomic<uint64_t> epoch_{0};
  std::atomic<int64_t> working_{0};
  std::atomic<bool> aborted_{false}, stopping_{false};
  int64_t runFirst_ = 0, runSteps_ = 0;
};

} // namespace opc::runtime
