// The compiler's one door: graph in, phases, plan (or text of any phase) out. Knows no MLIR in its interface.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Diagnostic.h"
#include "MeshRequest.h"
#include "Registry.h"
#include "TrainingConfig.h"
#include "opc/Tensor.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace opc {

/// The phases in order. SBP and boxing have something to do when the graph is for several devices.
enum class Phase { kImport, kShape, kGrad, kSimplify, kSbp, kBoxing, kFuse, kSchedule, kMemory, kPlan };
/// "import", "shape", "grad", "simplify", "sbp", "boxing", "fuse", "tasks", "memory", "plan".
const char *phaseName(Phase phase);
/// One line on what a phase does.
const char *phaseDoc(Phase phase);
std::optional<Phase> parsePhase(const std::string &name);
const std::vector<Phase> &allPhases();

/// What emit() writes.
enum class Emit { kMlir, kGraphText, kGraphBinary, kPlan };

/// What the grad phase adds to a graph.
struct GradientRequest {
  /// Tensors, output ops, or ops with one output; their sum is differentiated.
  std::vector<std::string> losses;
  /// Globs over variables and inputs, or names of tensors; none: the trainable variables.
  std::vector<std::string> wrt;
  /// 2 adds the gradient of the sum of each gradient with respect to the same tensor ("NAME.grad.grad"), and so on.
  int order = 1;
  /// Keep only the backward ops; what they read of the forward ops becomes inputs.
  bool backwardOnly = false;
  /// The gradient of each loss is an input "NAME.dy" of the loss's shape, in place of ones.
  bool dyInputs = false;
  /// Each loss becomes an output, called "loss:0", "loss:1", ... With `lossesOnly` nothing else is kept, and no
  /// gradient is made.
  bool lossOutputs = false, lossesOnly = false;
  /// Set: the graph becomes a training step. Gradients of variables are then not outputs; those of inputs are.
  std::optional<TrainingConfig> training;
  RecomputeConfig recompute;
};

/// One gradient that the grad phase has made.
struct GradientInfo {
  std::string name;     // of the variable, input or tensor
  std::string tensor;   // "fc1.w/out"
  std::string gradient; // the tensor that holds the gradient; empty when the loss does not depend on it
  std::string output;   // the output op, "fc1.w.grad"; empty without gradient
  DataType dtype = kInvalidDataType;
  Shape shape;
};

struct CompileOptions {
  /// Shapes that replace those of inputs, by input op name (`--shape x=32,784`). Also binds dimensions given as -1.
  std::map<std::string, std::vector<int64_t>> shapes;
  size_t maxErrors = 20;
  uint64_t maxGraphBytes = uint64_t{4} << 30;
  /// Called after each phase with its name and the IR's text, when set (`--dump`).
  std::function<void(Phase, const std::string &mlir)> dump;
  bool simplify = true;
  /// Set: the grad phase generates gradients.
  std::optional<GradientRequest> gradient;
  /// A Job whose train_conf has optimizers is given their training step, unless `gradient` is set or this is false.
  bool train = true;
  /// Set to a floating-point type: every floating-point tensor of the graph is given that type (gradient checks run in
  /// f64).
  DataType floatsAs = kInvalidDataType;
  /// Join ops for the libraries (docs/adr/0006-library-fusion.md); off for a run that others are compared with.
  bool fuse = true;
  /// Whether kernels may write their result over an operand that is read for the last time.
  bool inPlace = true;
  /// Set: the graph is planned for a mesh of devices.
  std::optional<MeshRequest> mesh;
  /// Called as each phase begins (`--progress`), when set.
  std::function<void(Phase)> progress;
};

/// What remains of a graph (`--until`, `--feed`, `--only`). Names of tensors and ops as graph() gives them.
struct GraphCut {
  std::vector<std::string> feeds;                         // tensors that become inputs of the same name
  std::vector<std::pair<std::string, std::string>> until; // (tensor, output's name): the only outputs
  std::vector<std::string> only;                          // ops that are kept, without the others
  bool empty() const { return feeds.empty() && until.empty() && only.empty(); }
};

struct PhaseStats {
  Phase phase;
  double start = 0; // seconds after the pipeline was made
  double seconds = 0;
  size_t ops = 0; // after the phase
};

struct GraphTensor {
  std::string name; // of the input, output or variable op
  DataType dtype = kInvalidDataType;
  Shape shape;
  std::string tensor; // the value's name, "x/out"
  bool trainable = false;
};

struct GraphOp {
  std::string name, type;
  std::vector<std::pair<std::string, std::string>> inputs; // argument_index, tensor name
  std::vector<GraphTensor> outputs;                        // name is argument_index
  std::map<std::string, AttrValue> attrs;
  SourceRange range;
  std::string loc; // OperatorConf.loc
};

/// What a graph holds after the phase that was run.
struct GraphInfo {
  std::string format; // "Job (text)", "DLNetConf (binary)", ...
  std::vector<GraphTensor> inputs, outputs, variables;
  std::vector<GraphOp> ops;
  bool isDifferentiated = false; // it has ops of a backward pass
};

struct MemoryInfo {
  uint64_t arenaBytes = 0, persistentBytes = 0, activationBytes = 0;
  uint64_t liveLowerBound = 0; // the largest sum of live activation bytes at any task
  struct Slot {
    std::string name;
    uint64_t offset = 0, bytes = 0;
    uint32_t firstTask = 0, lastTask = 0;
    std::string kind; // "activation", "input", "variable", "constant", "workspace"
  };
  std::vector<Slot> slots; // in plan order
};

/// One compilation. Not thread safe; several may run at once on different threads.
class Pipeline {
public:
  Pipeline(const Registry &registry, CompileOptions options);
  ~Pipeline();

  /// Reads a graph. `name` is what diagnostics call it. False when it is not valid: see diagnostics().
  bool import(const std::string &name, const std::string &bytes);
  /// Cuts the graph at the end of Phase::kShape, which must not have run.
  void cut(GraphCut cut);
  /// Runs the phases up to and including `to`. False on error; all errors of the failing phase are in diagnostics().
  bool run(Phase to);

  const std::vector<Diagnostic> &diagnostics() const;
  /// How many errors there were, including those beyond maxErrors.
  size_t errorCount() const;
  /// The exit-code class of the errors: kInvalidGraph, kUnsupported or kInternal.
  StatusCode errorClass() const;
  const SourceText &source() const;
  const std::vector<PhaseStats> &stats() const;
  GraphInfo graph() const;
  MemoryInfo memory() const;                   // after kMemory; of the ranks that need most, on several
  SbpReport sbp() const;                       // after kBoxing; empty without a mesh
  std::vector<GradientInfo> gradients() const; // after kGrad
  /// For each loss and each tensor (names as in GradientRequest): the path of the gradient, or the ops at which it
  /// stops. After kShape and before kGrad. `reaches` is false when one of them gets none. Empty on error.
  std::vector<std::string> explainGradient(const std::string &loss, const std::string &tensor, bool *reaches);
  /// Merges equal ops, removes no-ops and dead ops, folds what a graph file can hold. For emitted gradient graphs.
  bool tidy();
  /// The text or bytes of the graph or plan as it is now. kPlan needs Phase::kPlan. A graph that cannot be written
  /// gives "" and a finding in diagnostics().
  std::string emit(Emit what);

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// True when the bytes are a plan file and not a graph.
bool looksLikePlan(const std::string &bytes);

} // namespace opc
