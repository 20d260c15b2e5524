// The compiler's one door: graph in, phases, plan (or text of any phase) out. Knows no MLIR in its interface.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Diagnostic.h"
#include "GraphFacts.h"
#include "MeshRequest.h"
#include "ModelRequest.h"
#include "PassRequests.h"
#include "Registry.h"
#include "SharedBytes.h"
#include "SizeRequest.h"
#include "StoredTensor.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace opc {

struct ModelSource;
class RegionImager;
struct NativeFacts;
enum class CodeLevel : uint8_t;

/// The phases in order. SBP and boxing have something to do when the graph is for several devices.
enum class Phase { kImport, kShape, kGrad, kSimplify, kSbp, kBoxing, kFuse, kSchedule, kMemory, kPlan };
/// "import", "shape", "grad", "simplify", "sbp", "boxing", "fuse", "tasks", "memory", "plan".
const char *phaseName(Phase phase);
/// One line on what a phase does.
const char *phaseDoc(Phase phase);
std::optional<Phase> parsePhase(const std::string &name);
const std::vector<Phase> &allPhases();

/// What emit() writes. MLIR and its bytecode are complete: Pipeline::resume() reads them. Without places: neither names
/// nor lines of ops.
enum class Emit { kMlir, kMlirBytecode, kMlirWithoutPlaces, kGraphText, kGraphBinary, kPlan };

/// What CompileOptions::verifyEach is by default.
bool verifiesByDefault();

struct CompileOptions {
  /// Shapes that replace those of inputs, by input op name (`--shape x=32,784`). Also binds dimensions given as -1.
  std::map<std::string, std::vector<int64_t>> shapes;
  /// Dimensions of inputs that the plan leaves open within a range; `shapes` has the largest. Forward graphs for one
  /// device alone.
  SizeRequest sizes;
  ModelRequest model;
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
  /// Let kernels compute 3x3 windows of convolutions by Winograd's minimal filtering, which is faster and whose errors
  /// are larger (docs/numerics.md#convolutions); not without `fuse`.
  bool winograd = true;
  /// Globs over tensors that nothing is joined over, for whoever looks at them.
  std::vector<std::string> keptTensors;
  /// Compute elementwise ops that follow each other in one loop (docs/code-generation.md); not without `fuse`. Their
  /// inner tensors are then nowhere to be seen.
  bool regions = true;
  /// Compute what is the same in every run before the first step (docs/adr/0028-prepared-tensors.md); not without
  /// `regions`.
  bool prepares = true;
  /// Branches that the run decides are ops of their own without `regions`, too.
  bool keepsBranches = false;
  /// Whether kernels may write their result over an operand that is read for the last time.
  bool inPlace = true;
  /// Ops that compute in another element type, with casts around them.
  std::vector<CastRequest> castOps;
  /// Ops, by glob over names and types, that run on the CPU whatever device_tag says (`--place`).
  std::vector<std::string> onCpu;
  /// Where the plan runs: "cpu", "gpu", "gpu:1" (CUDA's), "sim" (the simulated GPU).
  std::string device = "cpu";
  DeviceType deviceType() const { return device == "cpu" ? DeviceType::kCPU : DeviceType::kGPU; }
  /// Of a graph for a GPU: ops that have no kernel there run on the CPU, with copies.
  bool cpuFallback = false;
  /// Set: the graph is planned for a mesh of devices.
  std::optional<MeshRequest> mesh;
  /// Called as each phase begins (`--progress`), when set.
  std::function<void(Phase)> progress;
  /// Ops and tensors beyond which cut() will leave nothing: import() passes over ops of unknown types that these do not
  /// need.
  std::vector<std::string> wanted;
  /// What remains of the graph after Phase::kShape. See Pipeline::cut().
  GraphCut cut;
  /// Values of the graph's variables, as if they had come with the graph.
  std::map<std::string, StoredTensor> values;
  /// Whether the plan has the values that came with the graph (an ONNX model) for its variables. Else values() has
  /// them, for whoever runs it.
  bool planHasValues = true;
  /// Check the IR after the import and after each pass. By default in debug builds, and where the environment sets
  /// OPC_VERIFY_EACH to anything but 0, as the tests do.
  bool verifyEach = verifiesByDefault();
};

/// One compilation. Not thread safe; several may run at once on different threads.
class Pipeline {
public:
  Pipeline(const Registry &registry, CompileOptions options);
  ~Pipeline();

  /// Reads a graph. `name` is what diagnostics call it. False when it is not valid: see diagnostics().
  bool import(const std::string &name, SharedBytes bytes);
  /// In place of it: a model that has been read already, from `bytes`.
  bool import(ModelSource model, SharedBytes bytes);
  /// In place of import(): IR that emit() of this version wrote after the phase `after`, with the same options for the
  /// phases that follow. Without `after` the phase and, unless CompileOptions::mesh is set, the mesh are those that the
  /// IR says. source() then has the graph's name. False when it is none: see diagnostics().
  bool resume(const std::string &name, std::string bytes, std::optional<Phase> after);
  /// Replaces CompileOptions::shapes after import(), whose errors it may find, and before anything else.
  bool setShapes(std::map<std::string, std::vector<int64_t>> shapes);
  /// Replaces the learning rate of a graph that trains, after import() and before anything else. False: no op and no
  /// train_conf of it has one.
  bool setLearningRate(double rate);
  /// After import(): what nothing that the cut keeps depends on goes at once, so that it needs no shapes; the rest of
  /// the cut is made at the end of Phase::kShape. A training step that a Job's train_conf asks for is left out when its
  /// loss is gone, and keeps all outputs. False on error: see diagnostics().
  bool cut(GraphCut cut);
  /// Before Phase::kPlan: the plan gets machine code of its regions, for these levels, the lowest first, beside what it
  /// has without (`--native`).
  void addNative(std::shared_ptr<RegionImager> imager, std::vector<CodeLevel> levels);
  /// Runs the phases up to and including `to`. False on error; all errors of the failing phase are in diagnostics().
  bool run(Phase to);

  const std::vector<Diagnostic> &diagnostics() const;
  /// How many errors there were, including those beyond maxErrors.
  size_t errorCount() const;
  /// The exit-code class of the errors: kInvalidGraph, kUnsupported or kInternal.
  StatusCode errorClass() const;
  const SourceText &source() const;
  /// The values that came with the graph (an ONNX model) or in the options, by variable.
  const std::map<std::string, StoredTensor> &values() const;
  const std::vector<PhaseFacts> &stats() const;
  /// All that is known of the graph after the phases that have run; with `costs`, what each op costs as well.
  GraphFacts facts(bool costs = false) const;
  /// The same with the graph's constants among the ops, as a graph file has them. Those of several values, which a
  /// file cannot hold, have type and shape alone, and `values` gets what they hold, by op.
  GraphFacts factsWithConstants(bool costs, std::map<std::string, StoredTensor> *values) const;
  /// Of them the memory alone, which needs no walk over the graph: of the largest part of a mesh.
  MemoryFacts memory() const;
  /// CostFacts::tasks alone.
  uint64_t tasks() const;
  /// Which ops one loop computes, after Phase::kMemory: of the largest part of a mesh. Regions are compiled, where this
  /// process has a compiler of regions, to know which have machine code. Nothing where there are no regions.
  FusionFacts fusion() const;
  /// What machine code the plan has, after Phase::kPlan.
  const NativeFacts &native() const;
  /// For each loss and each tensor (names as in GradientRequest): the path of the gradient, or the ops at which it
  /// stops. After kShape and before kGrad. `reaches` is false when one of them gets none. Empty on error.
  std::vector<std::string> explainGradient(const std::string &loss, const std::string &tensor, bool *reaches);
  /// Merges equal ops, removes no-ops and dead ops, folds what a graph file can hold. For emitted gradient graphs.
  bool tidy();
  /// The text or bytes of the graph or plan as it is now. kPlan needs Phase::kPlan. A graph that cannot be written
  /// gives "" and a finding in diagnostics().
  std::string emit(Emit what);
  /// The bytes of emit(Emit::kPlan), one piece after another and without a copy of the weights: sink(bytes). Errors:
  /// the sink's first.
  Status writePlan(const std::function<Status(std::string_view)> &sink) const;
  uint64_t planBytes() const;
  /// Makes variables of the constants that a graph file cannot hold; values() then has their values. Before emit().
  void keepConstants();

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// True when the bytes are a plan file and not a graph.
bool looksLikePlan(std::string_view bytes);

/// True when the bytes are MLIR, as text or bytecode, whoever wrote it.
bool looksLikeIr(std::string_view bytes);

} // namespace opc
