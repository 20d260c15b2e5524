// The phases in order: a graph file in, passes over the graph, a plan out.
// SPDX-License-Identifier: Apache-2.0
#include "Pipeline.h"
#include "BoxingInsertion.h"
#include "CollectFacts.h"
#include "CompilerFlags.h"
#include "ConstantVariables.h"
#include "ControlGraphs.h"
#include "ControlOp.h"
#include "DeclaredOutputs.h"
#include "DiagnosticHandler.h"
#include "DiagnosticList.h"
#include "ForeignFile.h"
#include "GradientGeneration.h"
#include "Graph.h"
#include "GraphAttributes.h"
#include "GraphDigest.h"
#include "GraphEmitter.h"
#include "GraphFile.h"
#include "GraphPass.h"
#include "GraphStates.h"
#include "Importer.h"
#include "LearningRate.h"
#include "Locations.h"
#include "ModelSource.h"
#include "NativeEmitter.h"
#include "NearestNames.h"
#include "OnnxImport.h"
#include "OpcDialect.h"
#include "OpenCompilation.h"
#include "OptionChecks.h"
#include "PhasePasses.h"
#include "PhaseSource.h"
#include "PhysicalGraph.h"
#include "PlanEmitter.h"
#include "PlanFile.h"
#include "PlanFinish.h"
#include "PlanValues.h"
#include "PlannedCrash.h"
#include "SavedModule.h"
#include "Schedule.h"
#include "SizeVariants.h"
#include "TrainConf.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/AsmState.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Support/Timing.h"
#include "llvm/Support/ErrorHandling.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <new>
#include <stdexcept>

using namespace mlir;

namespace opc {
namespace {

/// As factsWithConstants() has them: those in regions one by one, and no inputs, variables and outputs.
size_t countOps(ModuleOp module) {
  size_t count = 0;
  const auto add = [&](Operation &op) { count += isa<ir::UserOp, ir::ConstantOp>(&op) ? 1 : 0; };
  for (Operation &op : graphBlock(module)) {
    add(op);
    if (auto fused = dyn_cast<ir::FusedOp>(&op); fused && !fused.getBody().empty())
      for (Operation &inner : fused.getBody().front()) add(inner);
  }
  return count;
}

/// What ends a program of LLVM's ends one compilation of opc's.
void throwFatalErrors() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::install_fatal_error_handler(
        [](void *, const char *reason, bool) { throw std::runtime_error(std::string("LLVM: ") + reason); });
    llvm::install_bad_alloc_error_handler([](void *, const char *, bool) { throw std::bad_alloc(); });
  });
}

/// Messages about shapes have the largest sizes, which nobody has written. False, as what has failed.
bool noteSizes(const SizeRequest &sizes, std::vector<opc::Diagnostic> *found) {
  std::string list;
  for (const SizeRange &size : sizes.sizes)
    list += (list.empty() ? "" : ", ") + size.name + " = " + std::to_string(size.max) + " of " +
            std::to_string(size.min) + ".." + std::to_string(size.max);
  for (opc::Diagnostic &d : *found)
    if (d.severity == Severity::kError && !list.empty())
      d.notes.push_back("the shapes are those of the largest sizes: " + list);
  return false;
}

/// Binary graphs of up to so many bytes are kept for irBeforePoint().
constexpr size_t kKeptBytes = 16 << 20;
std::string beyondDevice(uint64_t bytes, uint64_t limit) {
  return "a device needs " + std::to_string(bytes) + " bytes, and --device-memory gives it " + std::to_string(limit);
}

const VariableValues kNoValues;

/// Of the file's variables; its other values are constants of the graph. `values` are those of variables without one.
VariableValues valuesOf(const GraphFile &file, VariableValues values) {
  for (const auto &[name, value] : file.values)
    if (!file.constants.count(name)) values.insert_or_assign(name, value);
  return values;
}

/// The plan of the part that needs most memory, or nullptr before phase memory.
const ExecutionSchedule *largest(const std::vector<std::unique_ptr<ExecutionSchedule>> &executions) {
  const auto found = std::max_element(executions.begin(), executions.end(), [](const auto &a, const auto &b) {
    return a->memory.arenaBytes < b->memory.arenaBytes;
  });
  return found == executions.end() ? nullptr : found->get();
}

} // namespace

bool verifiesByDefault() {
#ifdef NDEBUG
  const char *asked = std::getenv("OPC_VERIFY_EACH");
  return asked && std::string_view(asked) != "0" && *asked;
#else
  return true;
#endif
}

bool looksLikeIr(std::string_view bytes) { return looksLikeMlir(bytes); }

static std::vector<RankPart> partsOf(PhysicalGraphs &ranks,
                                     const std::vector<std::unique_ptr<ExecutionSchedule>> &executions) {
  std::vector<RankPart> parts;
  for (size_t i = 0; i < ranks.parts.size(); ++i) parts.push_back({*ranks.parts[i], executions[i].get()});
  return parts;
}

static FilePieces emitParts(ModuleOp module, const std::vector<RankPart> &parts, llvm::ArrayRef<uint32_t> partOfRank,
                            int64_t microBatches, const std::string &name, const VariableValues &values,
                            NativeEmitter *native) {
  return emitPlan(parts, partOfRank, readPlacements(module), static_cast<uint32_t>(microBatches), name, values, native,
                  modelNumbersOf(module));
}

static onnx::ImportRequest requestOf(const std::string &name, const CompileOptions &options) {
  return {name, options.maxGraphBytes, options.shapes, options.model, graphsInOps(options), options.sizes};
}

namespace {

/// Inputs of a model whose sizes have the name of one with a range have that range, too.
void takeSizes(const GraphFile &file, CompileOptions *to) {
  for (const graph::OperatorConf &op : file.job->net().op()) {
    const auto sized = file.sizeDims.find(op.name());
    if (!op.has_input_conf() || sized == file.sizeDims.end() || to->sizes.dims.count(op.name())) continue;
    to->sizes.dims.insert(*sized);
    std::vector<int64_t> &largest = to->shapes[op.name()];
    for (size_t k = 0; k < sized->second.size(); ++k)
      largest.push_back(sized->second[k] >= 0 ? to->sizes.sizes[static_cast<size_t>(sized->second[k])].max
                                              : op.input_conf().blob_conf().shape().dim(static_cast<int>(k)));
  }
}

/// A copy without the names of other ops at its ops, which are places, too, without those in the graphs of ops, and
/// without what initializers say that is the default.
OwningOpRef<ModuleOp> withoutOrigins(ModuleOp graph) {
  OwningOpRef<ModuleOp> copy = graph.clone();
  copy->walk([](Operation *op) { op->removeAttr(ir::kGradientOfAttr); });
  copy->walk([](ir::UserOp op) {
    NamedAttrList attrs(op.getOpAttrs());
    for (const std::string &name : controlGraphs(controlKind(op.getOpType())))
      if (auto text = dyn_cast_or_null<StringAttr>(attrs.get(name)))
        attrs.set(name, StringAttr::get(op.getContext(), graphWithoutPlaces(text.str())));
    op.setOpAttrsAttr(attrs.getDictionary(op.getContext()));
  });
  copy->walk([](ir::VariableOp op) {
    if (auto initializer = op.getInitializerAttr()) op.setInitializerAttr(withoutDefaults(initializer));
  });
  return copy;
}

/// What a pass throws comes out of here.
LogicalResult runOver(ModuleOp graph, PassManager &passes) {
  const LogicalResult done = passes.run(graph);
  if (failed(done)) throwAgain();
  return done;
}

/// Not watched: phases alone are told of.
bool isRewritten(ModuleOp graph, Rewrite rewrite, const CompileOptions &options) {
  PassManager passes(graph.getContext(), ModuleOp::getOperationName());
  passes.enableVerifier(options.verifyEach);
  populateRewrite(rewrite, passes, options);
  return succeeded(runOver(graph, passes));
}

} // namespace

struct Pipeline::Impl {
  Impl(const Registry &r, CompileOptions o)
      : registry(r), options(std::move(o)), context(MLIRContext::Threading::DISABLED),
        findings(std::max<size_t>(options.maxErrors, 1)) {
    throwFatalErrors();
    context.disableMultithreading(); // a context made without threads still locks and caches for them by itself
    context.loadDialect<func::FuncDialect>();
    context.getOrLoadDialect<ir::OpcDialect>()->setRegistry(&registry);
    // Passes here are our own; the printed form is for people, who read it by op and not by location.
    context.getDiagEngine().registerHandler([this](mlir::Diagnostic &d) {
      findings.incoming()->push_back(toFinding(d));
      return success();
    });
  }

  const std::chrono::steady_clock::time_point made = std::chrono::steady_clock::now();
  const Registry &registry;
  CompileOptions options;
  MLIRContext context;
  std::unique_ptr<GraphImport> imported; // until a phase follows
  std::vector<DeclaredOutput> declared;
  OwningOpRef<ModuleOp> module;
  PhysicalGraphs ranks;                                       // on several devices: what runs in place of the module
  std::vector<std::unique_ptr<ExecutionSchedule>> executions; // by part
  ControlPlans controlPlans;                                  // of the ops with graphs
  SizeVariants variants;                                      // with sizes in a range
  SizeFacts sizeFacts;
  SourceText source;
  SharedBytes binary;               // the graph's bytes where `source` shows none
  GraphFacts found;                 // what phases have left: format, gradients, the planner's answer, times
  std::vector<PassFacts> passesRun; // of the phase that runs
  FilePieces planFile;
  std::unique_ptr<NativeEmitter> native; // null: the plan has no machine code
  DiagnosticList findings;
  int done = -1; // index of the last phase that ran
  bool trainsAsJobSays = false;
  bool isModel = false;                       // of ONNX
  bool isUnbound = false;                     // a model of which nothing but inputs is known
  std::map<std::string, StoredTensor> values; // of variables: those that came with the graph
  std::vector<std::string> sources;           // the imported graph's inputs and variables: some may be pruned

  template <class F> bool phase(Phase p, F &&body) {
    if (options.progress) options.progress(p);
    OpenPhase open(phaseName(p), [this, p] { return irBefore(p); });
    const auto start = std::chrono::steady_clock::now();
    bool ok = false;
    try {
      ok = body();
    } catch (const std::bad_alloc &) {
      throw; // no error of opc
    } catch (...) {
      open.breaksOff();
      throw;
    }
    const bool reported = findings.settle();
    PhaseFacts s;
    s.name = phaseName(p);
    s.doc = phaseDoc(p);
    s.start = std::chrono::duration<double>(start - made).count();
    s.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (module) s.ops = countOps(*module);
    s.passes = std::exchange(passesRun, {});
    found.phases.push_back(std::move(s));
    if (!ok || reported) {
      if (!findings.errors()) {
        report(Severity::kError, "OPC0901", std::string("phase ") + phaseName(p) + " failed without a reason");
        findings.settle();
      }
      if (findings.worst() == StatusCode::kInternal)
        open.breaksOff();
      else
        open.ends();
      return false;
    }
    open.ends();
    done = static_cast<int>(p);
    if (options.dump) options.dump(p, text());
    return true;
  }

  /// The IR before a phase, from the graph's bytes, and the passes of the phase.
  std::string irBefore(Phase p) const {
    const SharedBytes bytes = source.text.empty() ? binary : SharedBytes(source.text);
    if (p == Phase::kImport || bytes.empty()) return "";
    CompileOptions again = options;
    again.progress = nullptr;
    again.dump = nullptr;
    Pipeline pipeline(registry, std::move(again));
    if (!pipeline.import(source.name, bytes) || (options.cut.hasParts() && !pipeline.cut(options.cut))) return "";
    if (!pipeline.run(static_cast<Phase>(static_cast<int>(p) - 1))) return "";
    const Impl &there = *pipeline.impl_;
    return phaseSource(p, *there.module, there.ranks.parts, options);
  }

  std::string text(bool places = true) {
    std::string s;
    if (!module) return s;
    llvm::raw_string_ostream os(s);
    OpPrintingFlags flags;
    if (places) {
      flags.enableDebugInfo(true, /*prettyForm=*/true);
      flags.elideLargeElementsAttrs(64);
    }
    const auto print = [&](ModuleOp graph) {
      places ? graph->print(os, flags) : withoutOrigins(graph)->print(os, flags);
      os << "\n";
    };
    // From the ranks' graphs on it is these that change.
    if (ranks.parts.empty() || done <= static_cast<int>(Phase::kBoxing))
      print(*module);
    else
      for (auto &part : ranks.parts) print(*part);
    return s;
  }

  /// Calls f(module) for everything that runs.
  template <class F> bool forParts(F &&f) {
    if (ranks.parts.empty()) return succeeded(f(*module));
    for (auto &part : ranks.parts)
      if (failed(f(*part))) return false;
    return true;
  }

  std::vector<PartFacts> partFacts() const {
    std::vector<PartFacts> parts;
    for (const auto &e : executions) parts.push_back(partFact(*e));
    for (uint32_t rank = 0; rank < ranks.partOfRank.size(); ++rank)
      if (ranks.partOfRank[rank] < parts.size()) parts[ranks.partOfRank[rank]].ranks.push_back(rank);
    if (ranks.parts.empty() && !parts.empty()) parts[0].ranks = {0};
    return parts;
  }

  LogicalResult plan(ModuleOp graph) {
    executions.emplace_back(std::make_unique<ExecutionSchedule>())->device = options.device;
    return planExecution(graph, registry, options.deviceType(), executions.back().get(), options.inPlace,
                         options.mesh ? options.mesh->microBatches : 1, options.sizes.empty() ? nullptr : &sizeFacts);
  }

  bool fitsDevice() {
    const uint64_t limit = options.mesh ? options.mesh->deviceMemory : 0;
    if (!limit) return true;
    for (const auto &e : executions)
      if (e->memory.arenaBytes > limit)
        return report(Severity::kError, "OPC0312", beyondDevice(e->memory.arenaBytes, limit),
                      "more devices, smaller batches (--micro-batches), or --recompute"),
               false;
    return true;
  }

  void report(Severity severity, const char *code, std::string message, std::string help = "") {
    Diagnostic d;
    d.severity = severity, d.code = code;
    d.message = std::move(message);
    d.help = std::move(help);
    d.range.file = source.name;
    findings.incoming()->push_back(std::move(d));
  }

  /// Runs the passes of a phase over the graph, or over each of the ranks' graphs.
  bool runPasses(Phase phase) {
    PassManager passes(&context, ModuleOp::getOperationName());
    passes.enableVerifier(options.verifyEach);
    if (hasCompilerFlags()) {
      (void)applyPassManagerCLOptions(passes); // it has no error that could be met here
      applyDefaultTimingPassManagerCLOptions(passes);
    }
    passes.addInstrumentation(std::make_unique<PassWatch>(made, &passesRun));
    populatePhase(phase, passes, options, &found);
    if (std::string how = plannedCrash(phase, source.name); !how.empty()) passes.addPass(createPlannedCrash(how));
    if (passes.empty()) return true;
    for (auto &copy : variants.copies())
      if (failed(runOver(*copy, passes))) return false;
    return forParts([&](ModuleOp graph) { return runOver(graph, passes); });
  }

  /// What sizes in a range do not go with. A graph's own gradients are found when it is known.
  bool checkSizes() {
    if (options.sizes.empty() || (!options.mesh && !options.gradient)) return true;
    report(Severity::kError, "OPC0220",
           options.mesh ? "sizes in a range are for one device, and the graph is compiled for several"
                        : "sizes in a range are for forward graphs: gradients and training steps are made for one size",
           options.mesh ? "leave --mesh and --ranks out, or give fixed shapes"
                        : "give fixed shapes, or compile the forward graph alone: --mode infer");
    return false;
  }

  bool runPhase(Phase phase) {
    if (phase >= Phase::kMemory) crashAs(plannedCrash(phase, source.name));
    if (phase == Phase::kMemory) {
      if (!options.sizes.empty() && variants.settle(&module, registry, options.sizes, &sizeFacts).failed())
        return false;
      executions.clear();
      return forParts([&](ModuleOp graph) { return plan(graph); }) && fitsDevice() &&
             compileControl(*module, registry, options, source.name, findings.incoming(), &executions,
                            options.deviceType() == DeviceType::kCPU ? native.get() : nullptr, &controlPlans);
    }
    if (phase == Phase::kPlan) return writePlan();
    if (phase == Phase::kShape && (!checkSizes() || !checkControl(*module, options))) return false;
    if (!runPasses(phase)) return phase == Phase::kShape && noteSizes(options.sizes, findings.incoming());
    if (phase == Phase::kShape)
      checkDeclaredOutputs(*module, declared, {options.shapes, options.floatsAs}, findings.incoming());
    if (phase == Phase::kShape && !options.sizes.empty()) return succeeded(variants.begin(*module, options.sizes));
    if (phase == Phase::kBoxing && options.mesh) ranks = takePhysicalGraphs(*module);
    return true;
  }

  bool writePlan() {
    const VariableValues &given = options.planHasValues ? values : kNoValues;
    if (const Status s = valuesFitPlan(given); !s)
      return report(Severity::kError, s.id().c_str(), s.message(), s.help()), false;
    const SizeFacts *open = options.sizes.empty() ? nullptr : &sizeFacts;
    if (ranks.parts.empty())
      return planFile = emitPlan(*module, *executions[0], source.name, given, open, native.get(), controlPlans), true;
    planFile = emitParts(*module, partsOf(ranks, executions), ranks.partOfRank, options.mesh->microBatches, source.name,
                         given, native.get());
    return options.mesh->microBatches == 1 ||
           checkFinishes(planFile.text(), *module, registry, source.name, findings.incoming());
  }

  /// Shapes that were given must be of inputs or variables that there are.
  void checkGivenShapes() {
    for (Operation &op : graphBlock(*module))
      if (isa<ir::VariableOp>(&op) && options.sizes.dims.count(ir::opName(&op)))
        report(Severity::kError, "OPC0220",
               "variable '" + ir::opName(&op) + "' has one shape: a run does not choose it",
               "give ranges to inputs alone");
    for (const auto &[shaped, dims] : options.shapes) {
      if (llvm::is_contained(sources, shaped)) continue;
      report(Severity::kError, "OPC0005", "--shape names '" + shaped + "', which is no input or variable of the graph",
             didYouMean(shaped, sources, "opc show " + source.name + " lists them"));
    }
  }

  bool import(const std::string &name, SharedBytes bytes) {
    source = {name, ""};
    crashAs(plannedCrash(Phase::kImport, name));
    if (looksLikeOnnx(bytes)) { // nothing that diagnostics could show
      auto model = onnx::importModel(bytes, registry, requestOf(name, options), findings.incoming());
      return keepBinary(std::move(bytes)), model && importFile(std::move(model));
    }
    source.text = bytes.take();
    auto file = readGraphFile(name, source.text, options.maxGraphBytes, findings.incoming());
    // What cannot be read is shown, too, where it has lines to show.
    const bool isText = file ? file->isText : source.text.find('\0') == std::string::npos;
    const bool isImported = file && importFile(std::move(file));
    if (!isText) keepBinary(std::exchange(source.text, {}));
    return isImported;
  }

  void keepBinary(SharedBytes bytes) { binary = bytes.size() <= kKeptBytes ? std::move(bytes) : SharedBytes(); }

  bool importFile(std::unique_ptr<GraphFile> file) {
    values = valuesOf(*file, options.values);
    found.format = file->format, isModel = file->isModel, isUnbound = file->isUnbound;
    takeSizes(*file, &options);
    declared = declaredOutputs(*file);
    if (options.train && !options.gradient)
      if (auto training = readTraining(*file, findings.incoming())) {
        options.gradient.emplace().losses = training->losses;
        options.gradient->isOfGraph = true;
        options.gradient->training = training->config;
        trainsAsJobSays = true;
      }
    if (options.gradient && options.gradient->training)
      options.gradient->training->regularizers = readRegularizers(*file);
    ImportOptions importing;
    importing.shapes = options.shapes, importing.floatsAs = options.floatsAs;
    importing.wanted = options.wanted;
    importing.onCpu = options.onCpu, importing.isForGpu = options.device != "cpu";
    imported = std::make_unique<GraphImport>(&context, registry, std::move(file), importing, findings.incoming());
    module = imported->module();
    if (!module) return false;
    for (Operation &op : graphBlock(*module))
      if (isa<ir::InputOp, ir::VariableOp>(&op)) sources.push_back(ir::opName(&op));
    return checkImported();
  }

  bool checkImported() {
    checkGivenShapes();
    return !options.verifyEach || succeeded(verify(*module));
  }

  bool prune() {
    if (trainsAsJobSays) options.cut.outputs.clear(); // a step is made whole
    if (!isRewritten(*module, Rewrite::kPrune, options)) return false;
    const auto isGone = [&](const std::string &loss) {
      for (Operation &op : graphBlock(*module)) {
        if (ir::opName(&op) == loss) return false;
        for (Value v : op.getResults())
          if (ir::tensorName(v) == loss) return false;
      }
      return true;
    };
    if (trainsAsJobSays && llvm::any_of(options.gradient->losses, isGone)) {
      options.gradient.reset();
      trainsAsJobSays = false;
    }
    return true;
  }
};

Pipeline::Pipeline(const Registry &registry, CompileOptions options)
    : impl_(std::make_unique<Impl>(registry, std::move(options))) {}
Pipeline::~Pipeline() = default;

bool Pipeline::import(const std::string &name, SharedBytes bytes) {
  return impl_->phase(Phase::kImport, [&] {
    return checkOptions(impl_->options, name, impl_->findings.incoming()) && impl_->import(name, std::move(bytes));
  });
}

bool Pipeline::import(ModelSource model, SharedBytes bytes) {
  return impl_->phase(Phase::kImport, [&] {
    impl_->source = {model.file->name, ""};
    if (!checkOptions(impl_->options, impl_->source.name, impl_->findings.incoming())) return false;
    crashAs(plannedCrash(Phase::kImport, model.file->name));
    impl_->keepBinary(std::exchange(bytes, {}));
    for (opc::Diagnostic &d : model.warnings) impl_->findings.incoming()->push_back(std::move(d));
    return impl_->importFile(std::move(model.file));
  });
}

bool Pipeline::resume(const std::string &name, std::string bytes, std::optional<Phase> after) {
  Impl &impl = *impl_;
  // What it was written after is known when it has been read. The memory plan is no part of the IR: it is made again.
  Phase reached = after.value_or(Phase::kImport);
  const bool isRead = impl.phase(std::min(reached, Phase::kSchedule), [&] {
    impl.source = {name, ""};
    if (!checkOptions(impl.options, name, impl.findings.incoming())) return false;
    impl.found.format = "MLIR";
    impl.module = readSavedModule(&impl.context, &impl.source.name, bytes, after, &impl.options, &reached);
    for (opc::Diagnostic &d : *impl.findings.incoming())
      if (!impl.module && d.code == "OPC0901") d.code = "OPC0114"; // MLIR's own words for what the file has wrong
    if (impl.module && impl.options.mesh && reached >= Phase::kBoxing) impl.ranks = takePhysicalGraphs(*impl.module);
    return static_cast<bool>(impl.module);
  });
  if (isRead) impl.done = static_cast<int>(std::min(reached, Phase::kSchedule));
  return isRead;
}

bool Pipeline::setShapes(std::map<std::string, std::vector<int64_t>> shapes) {
  impl_->options.shapes = std::move(shapes);
  impl_->imported->setShapes(impl_->options.shapes);
  const bool ok = impl_->checkImported();
  return !impl_->findings.settle() && ok;
}

bool Pipeline::setLearningRate(double rate) {
  size_t changed = opc::setLearningRate(*impl_->module, impl_->registry, rate);
  if (impl_->options.gradient && impl_->options.gradient->training)
    for (OptimizerGroup &group : impl_->options.gradient->training->groups) {
      const auto type = group.schedule.find("decay_type");
      const auto *decay = type == group.schedule.end() ? nullptr : type->second.get<std::string>();
      if (!group.learningRateTensor.empty() || (decay && !hasBaseRate(*decay))) continue;
      group.learningRate = rate;
      ++changed;
    }
  return changed > 0;
}

bool Pipeline::cut(GraphCut cut) {
  impl_->options.cut = std::move(cut);
  return impl_->prune() && !impl_->findings.settle();
}

bool Pipeline::run(Phase to) {
  Impl &impl = *impl_;
  if (!impl.module || impl.findings.errors()) return false;
  while (impl.done < static_cast<int>(to)) {
    impl.imported.reset();
    const Phase next = static_cast<Phase>(impl.done + 1);
    if (!impl.phase(next, [&] { return impl.runPhase(next); })) return false;
  }
  return true;
}

const std::vector<Diagnostic> &Pipeline::diagnostics() const { return impl_->findings.list(); }
size_t Pipeline::errorCount() const { return impl_->findings.errors(); }
StatusCode Pipeline::errorClass() const { return impl_->findings.worst(); }
const SourceText &Pipeline::source() const { return impl_->source; }
const std::map<std::string, StoredTensor> &Pipeline::values() const { return impl_->values; }
const std::vector<PhaseFacts> &Pipeline::stats() const { return impl_->found.phases; }

GraphFacts Pipeline::facts(bool costs) const {
  GraphFacts facts = impl_->found;
  if (!impl_->module) return facts;
  collectGraph(*impl_->module, &facts);
  if (costs) collectCosts(*impl_->module, &facts);
  if (impl_->options.mesh && impl_->done >= static_cast<int>(Phase::kBoxing))
    describeMesh(*impl_->module, *impl_->options.mesh, &facts.mesh);
  if (const ExecutionSchedule *execution = largest(impl_->executions)) {
    collectTasks(*execution, &facts);
    facts.memory = memoryFacts(*execution);
  }
  facts.parts = impl_->partFacts();
  for (size_t i = 0; i < facts.parts.size() && i < impl_->ranks.parts.size(); ++i)
    facts.parts[i].pieces = piecesOf(*impl_->ranks.parts[i]);
  sumCosts(&facts);
  return facts;
}

GraphFacts Pipeline::factsWithConstants(bool costs, std::map<std::string, StoredTensor> *values) const {
  GraphFacts all = facts(costs);
  if (impl_->module) collectConstants(*impl_->module, impl_->registry, costs, &all, values);
  return all;
}

MemoryFacts Pipeline::memory() const {
  const ExecutionSchedule *execution = largest(impl_->executions);
  return execution ? memoryFacts(*execution) : MemoryFacts();
}

uint64_t Pipeline::tasks() const {
  uint64_t count = 0;
  for (const auto &e : impl_->executions) count += e->tasks.size();
  return count;
}

FusionFacts Pipeline::fusion() const {
  const ExecutionSchedule *execution = largest(impl_->executions);
  const auto &parts = impl_->executions;
  const auto part = std::find_if(parts.begin(), parts.end(), [&](const auto &e) { return e.get() == execution; });
  const auto at = static_cast<size_t>(part - parts.begin());
  if (!execution || at >= impl_->found.fusion.size()) return {};
  FusionFacts facts = impl_->found.fusion[at];
  facts.parts = impl_->found.batchParts;
  facts.graphs = fusionOfGraphs(*impl_->module, impl_->registry, impl_->options, impl_->source.name);
  addRegionCode(*execution, &facts);
  return facts;
}

void Pipeline::addNative(std::shared_ptr<RegionImager> imager, std::vector<CodeLevel> levels) {
  impl_->native = std::make_unique<NativeEmitter>(std::move(imager), std::move(levels));
}

const NativeFacts &Pipeline::native() const {
  static const NativeFacts kNone;
  return impl_->native ? impl_->native->facts() : kNone;
}

std::vector<std::string> Pipeline::explainGradient(const std::string &loss, const std::string &tensor, bool *reaches) {
  Value from = findLoss(*impl_->module, loss);
  auto wanted = findWanted(*impl_->module, {tensor}, "--explain");
  std::vector<std::string> lines;
  const auto texts = controlTexts(impl_->options);
  *reaches = true;
  if (from && succeeded(wanted))
    for (const WantedGradient &w : *wanted) {
      bool one = false;
      for (std::string &line : opc::explainGradient(*impl_->module, from, w.tensor, texts.get(), &one))
        lines.push_back(std::move(line));
      *reaches &= one;
    }
  impl_->findings.settle();
  return lines;
}

bool Pipeline::tidy() {
  return isRewritten(*impl_->module, Rewrite::kTidy, impl_->options) && !impl_->findings.settle();
}

void Pipeline::keepConstants() {
  if (impl_->module && !impl_->isUnbound) makeConstantsVariables(*impl_->module, &impl_->values);
}

Status Pipeline::writePlan(const std::function<Status(std::string_view)> &sink) const {
  return impl_->planFile.write(sink);
}
uint64_t Pipeline::planBytes() const { return impl_->planFile.size(); }

std::string Pipeline::emit(Emit what) {
  if (what == Emit::kPlan) return impl_->planFile.text();
  if (impl_->isUnbound) { // what there is to write would pass for the whole model
    impl_->report(Severity::kError, "OPC0207", "the inputs of the model leave sizes open, and its ops follow from them",
                  "bind them: --shape x=1,3,224,224");
    impl_->findings.settle();
    return "";
  }
  if (what == Emit::kMlir || what == Emit::kMlirBytecode) {
    if (!impl_->module) return "";
    const SavedState state = savedState(impl_->source.name, static_cast<Phase>(impl_->done), impl_->options);
    return savedModule(*impl_->module, impl_->ranks, state, what == Emit::kMlirBytecode);
  }
  if (what == Emit::kMlirWithoutPlaces) return impl_->text(/*places=*/false);
  graph::Job job;
  std::string error;
  if (!impl_->module || !toGraph(*impl_->module, &job, &error)) {
    if (!error.empty()) {
      impl_->report(
          Severity::kError, "OPC0112", error,
          impl_->isModel
              ? "--weights-out FILE keeps it as a variable that is not trained, beside the weights; --emit plan "
                "and --emit mlir hold it"
              : "--emit plan and --emit mlir hold it; --to shape --emit pbtxt writes the graph as it was "
                "before the compiler computed such constants");
      impl_->findings.settle();
    }
    return "";
  }
  if (what == Emit::kGraphText) return canonicalText(job);
  const bool bare = !job.has_placement() && !job.has_job_conf() && !job.has_job_parallel_view_conf();
  return bare ? job.net().SerializePartialAsString() : job.SerializePartialAsString();
}

} // namespace opc
