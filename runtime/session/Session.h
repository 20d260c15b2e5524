// Session: the runtime's front door. Load a plan, feed inputs, run, fetch outputs. The one header of the runtime that
// programs include; it brings the tensor files with it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "FileBytes.h"
#include "HostTensor.h"
#include "PlanDescription.h"
#include "RankReport.h"
#include "Registry.h"
#include "RunObserver.h"
#include "TensorFill.h"
#include "TensorIo.h"

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace opc {

namespace runtime {
class Communicator;
} // namespace runtime

/// As many threads as a session may be given by whoever lets others choose: the command, its package, the C interface.
inline constexpr int kMostThreads = 4096;

struct SessionOptions {
  /// Threads that kernels may use in all; shared evenly between streams. 0: one for each core that this process may
  /// use.
  int threads = 0;
  /// The most bytes that the plan's arenas may take; 0: nine tenths of the memory of this machine or container.
  uint64_t maxMemory = 0;
  /// For variables whose initializer draws numbers and that have no random_seed of their own, and for random operators
  /// beside their own seeds.
  uint64_t seed = 0;
  /// Whether variables stay in memory when all kernels that read them have packed them. False saves their size again:
  /// such variables can be neither read nor set after the kernels have been tied to them (OPC0617).
  bool keepPackedVariables = true;
  /// Who keeps the bytes that the plan is loaded from, where they stay as they are as long as the session lives: a file
  /// that is mapped. Variables that need not be kept are then taken from them when their kernels are made, one at a
  /// time, and kernels that look up single rows read these there. Null: all are read while loading.
  std::shared_ptr<const void> planBytes;
  /// Whether the plan's machine code runs, where it has some (`opc compile --native`). It is as trusted as this
  /// program: what loading checks is its frame, that it belongs to the plan's regions, and that it gives their bits for
  /// some hundred values. Without it such a plan is interpreted, with the same bits.
  bool allowNative = false;
  /// Of a plan with sizes in a range: how many sizes beside the present ones keep their kernels, with the weights that
  /// these have packed, so that going back to them costs nothing.
  uint32_t keptSizes = 3;

  /// This process's end of a job of several processes, for a plan of as many ranks; must outlive the session. Then
  /// every process of the job makes the same calls in the same order, feed aside (docs/distributed.md).
  runtime::Communicator *communicator = nullptr;
  /// Without a communicator: the ranks of the plan, which then are threads of this process and share `threads`. 0: as
  /// many as the plan is for, up to 1024.
  int64_t ranks = 1;
  /// Whether sums over ranks are always made in the order of the ranks, so that their bits do not depend on the engine.
  /// False: sums of small tensors are the engine's.
  bool deterministic = false;
  /// Seconds that a rank waits for another one, and that it may take for a step between two transfers.
  double timeout = 300;
  /// With a communicator: gets the code and the reason when this rank ends the job, from any thread: "rank 1 has
  /// failed:
  /// ...", or what a watchdog has seen. The process may end with it, so run() does not return.
  std::function<void(const RankReport &)> report;
};

/// What maxMemory is when it is 0.
uint64_t defaultMemoryLimit();

/// The op whose kernel the calling thread is in, as "op NAME (TYPE)"; "" outside of kernels. For what ends a process.
std::string runningKernel();
/// The same for a handler of signals: name and type, which live while the kernel runs; null outside of kernels.
struct RunningOp {
  const char *name = nullptr, *type = nullptr;
};
RunningOp runningOp() noexcept;

/// What a plan takes and gives, in the graph's order.
struct SessionInterface {
  std::vector<PortInfo> inputs, outputs, variables;
  std::vector<SizeInfo> sizes; // that the plan leaves open
  /// Tensors of the model that have become part of ops: neither inputs nor variables, unless other ops read them as
  /// such.
  std::vector<PortInfo> numbers;
};

/// Numbers for --stats.
struct SessionStats {
  uint64_t tasks = 0;    // of the plan
  uint64_t views = 0;    // of them: nothing executes for these
  uint64_t prepared = 0; // of them: these run once, before the first step
  uint64_t streams = 0;
  uint64_t arenaBytes = 0;    // all arenas together
  uint64_t constantBytes = 0; // of constants and variables
  uint64_t steps = 0;         // run so far
  uint64_t nativeImages = 0;  // of machine code, in the plan
  uint64_t nativeRegions = 0; // loops that run as the plan's machine code
  uint64_t nativeBytes = 0;   // of it in memory
};

/// What one rank of a job takes and sends.
struct RankStats {
  int64_t rank = 0;
  uint64_t arenaBytes = 0;
  uint64_t bytesSent = 0, bytesReceived = 0,
           messages = 0; // in all steps run so far; what fetching sends does not count
};

/// A loaded plan with its memory and kernels. A session of several ranks has the same interface: what goes in and comes
/// out are whole tensors. Use one session from one thread at a time; different sessions are
/// independent. No call but load, setVariable, the first run and one in which a region gets its code allocates
/// anything, fetch aside, which returns a new tensor.
class Session {
public:
  /// Decodes and checks the plan, takes the memory. `registry` must outlive the session. A plan is untrusted: whatever
  /// it says is checked first (docs/plan-format.md lists the rules and their codes).
  static Result<Session> load(std::string_view planBytes, const Registry &registry, const SessionOptions &options = {});
  Session(Session &&) noexcept;
  Session &operator=(Session &&) noexcept;
  ~Session();

  const SessionInterface &interface() const;

  /// Of a plan that leaves sizes open: the input has this shape from now on, and is still to be given; inputs that have
  /// not been given follow. feed() does it by itself. Errors: OPC0611; OPC0704 when the plan is not made for it.
  Status setInputShape(const std::string &name, const Shape &shape);
  /// Copies the tensor into the input. Errors: OPC0611 (no such input, with the nearest names), OPC0703, OPC0704.
  Status feed(const std::string &name, const HostTensor &tensor);
  /// Memory for filling in place, which the following runs take the input from; counts as fed. It holds what was given
  /// before. nullptr where inputMemory fails.
  void *inputData(const std::string &name);
  /// The same with the reason. Errors: OPC0611; those of a copy from the device, and of memory.
  Result<void *> inputMemory(const std::string &name);
  /// The following runs read the input from `data` itself, which must stay until the input is given anew; values that
  /// are changed between runs are seen. Another address binds the kernels that read it again. False, and no change,
  /// where it must be copied: no such input, not aligned to 64, several ranks, micro-batches, no keepPackedVariables, a
  /// plan with sizes in a range.
  bool lendInput(const std::string &name, const void *data);
  /// Copies the tensor into the variable. After the first run the kernels that read it are bound again. Of a number of
  /// the model it is checkNumber().
  Status setVariable(const std::string &name, const HostTensor &tensor);
  /// The same without a look at the numbers: for what a run of this graph has left in the variable.
  Status restoreVariable(const std::string &name, const HostTensor &tensor);
  /// OPC0719 where `name` is one of the interface's numbers and has another value, of which `tensor` could change a
  /// part at most. OPC0703, OPC0704.
  Status checkNumber(const std::string &name, const HostTensor &tensor) const;
  /// The same of all that a file has.
  Status checkNumbers(const TensorArchive &archive) const;
  /// The same, with a value that `fill` writes into memory of the variable's type: where that saves memory, not before
  /// the kernels that read it are tied (prepare()), and not again once it has succeeded. Its errors are
  /// those of prepare() then. `lies`, if given, has the value itself as long as the session has it, at any address: a
  /// file that is mapped, of which kernels that look up single rows read these alone.
  Status setVariableLater(const std::string &name, std::function<Status(void *to)> fill,
                          std::shared_ptr<const void> lies = nullptr);
  /// Memory for filling in place, which the first run takes the variable from; counts as set. nullptr when there is no
  /// such variable or the kernels have been tied.
  void *variableData(const std::string &name);
  /// The variable's present value. Initialises what has not been set.
  Result<HostTensor> variable(const std::string &name);

  /// Initialises the variables that have not been set (OPC0612 for one without an initializer) and ties the kernels to
  /// their tensors, for the sizes that the inputs have (OPC0704 when they disagree). run() does it when nobody has.
  Status prepare();
  /// Runs `steps` steps with the inputs that were fed; inputs stay fed. Errors: OPC0610 naming every input that was
  /// never fed; those of kernels. After an error the session can be fed and run again.
  Status run(int64_t steps = 1);
  /// A copy of an output as the last step left it. Errors: OPC0611, OPC0613 (nothing has been run).
  Result<HostTensor> fetch(const std::string &name) const;
  /// The same without a copy: valid until the next run. nullptr where fetch would fail or cuts.
  const void *outputData(const std::string &name) const;

  /// The number of the next step: 0 in a new session. What random operators draw depends on it and on the seed.
  int64_t step() const;
  /// Goes on from another step: a checkpoint's. Errors: OPC0616 (a negative number).
  Status setStep(int64_t step);
  /// Shows every task of the following runs to `observer`, which must live until it is replaced; nullptr: none. Of
  /// ranks that are threads the first one's tasks, or those of all of them.
  void observe(RunObserver *observer, bool onAllRanks = false);
  /// The tasks of the plan, as observers see them; of several ranks here the first one's.
  const std::vector<ObservedTask> &tasks();
  /// Task `index` alone, as the text of a graph: an input or variable for each tensor that it reads, named by
  /// `inputNames` in order (one for each distinct tensor), and an output for each that it makes.
  Result<std::string> taskGraphText(uint32_t index, std::vector<std::string> *inputNames);

  SessionStats stats() const;
  /// The rank of this process, and the ranks of the job: 0 of 1 in most sessions, 0 of n when all ranks are threads of
  /// this process.
  int64_t rank() const;
  int64_t ranks() const;
  /// Whether the ranks are processes, which all make the same calls.
  bool hasPeers() const;
  /// Of every rank. A call of the whole job.
  Result<std::vector<RankStats>> rankStats() const;
  /// The largest of the values that the processes of the job give: for decisions that all of them must make alike. A
  /// call of the whole job.
  Result<int64_t> agree(int64_t value) const;

private:
  struct Impl;
  explicit Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

} // namespace opc
