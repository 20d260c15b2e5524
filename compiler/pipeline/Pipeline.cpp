// The phases in order, and MLIR's diagnostics as data.
// SPDX-License-Identifier: Apache-2.0
#include "Pipeline.h"
#include "AttrBridge.h"
#include "BoxingInsertion.h"
#include "DiagnosticList.h"
#include "EmitStatus.h"
#include "GradientGeneration.h"
#include "Graph.h"
#include "GraphBuilder.h"
#include "GraphCut.h"
#include "GraphEmitter.h"
#include "GraphFile.h"
#include "GraphStates.h"
#include "Importer.h"
#include "LibraryFusion.h"
#include "Locations.h"
#include "NearestNames.h"
#include "OpcDialect.h"
#include "PhysicalGraph.h"
#include "PipelineStages.h"
#include "PlanEmitter.h"
#include "PlanFile.h"
#include "Schedule.h"
#include "ShapeInference.h"
#include "SignatureAssignment.h"
#include "Simplify.h"
#include "TrainConf.h"
#include "TrainingGraph.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/AsmState.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"

#include <algorithm>
#include <chrono>

using namespace mlir;

namespace opc {
namespace {

struct PhaseInfo {
  Phase phase;
  const char *name, *doc;
};
constexpr PhaseInfo kPhases[] = {
    {Phase::kImport, "import", "read the graph, resolve names, order the ops"},
    {Phase::kShape, "shape", "infer every tensor's shape and dtype"},
    {Phase::kGrad, "grad", "add the gradient subgraph, when one is asked for"},
    {Phase::kSimplify, "simplify", "fold constants, merge equal ops, drop what nobody reads"},
    {Phase::kSbp, "sbp", "choose how every tensor is cut over the devices"},
    {Phase::kBoxing, "boxing", "make every transition between cuts an op, and each rank's graph"},
    {Phase::kFuse, "fuse", "join what a library computes in one call, choose layouts"},
    {Phase::kSchedule, "tasks", "choose the order of execution"},
    {Phase::kMemory, "memory", "select kernels, plan buffers and offsets"},
    {Phase::kPlan, "plan", "write the plan"},
};

SourceRange toRange(const ir::OpLocation &l) { return {l.file, l.line, l.column, l.endLine, l.endColumn}; }

/// What MLIR reports as data. Diagnostics without parts of ours are MLIR's own complaints: a bug of ours.
Diagnostic convert(mlir::Diagnostic &diag) {
  Diagnostic d;
  unsigned ownNotes = 0;
  if (std::optional<Finding> finding = findingOf(diag)) {
    d.code = std::move(finding->code);
    d.message = std::move(finding->message);
    d.help = std::move(finding->help);
    for (Finding::Operand &o : finding->operands)
      d.operands.push_back({std::move(o.text), std::move(o.madeBy), toRange(ir::readLocation(o.location))});
    ownNotes = finding->ownNotes;
  } else {
    d.code = "OPC0901";
    d.message = diag.str();
  }
  d.severity = diag.getSeverity() == DiagnosticSeverity::Error     ? Severity::kError
               : diag.getSeverity() == DiagnosticSeverity::Warning ? Severity::kWarning
                                                                   : Severity::kNote;
  const ir::OpLocation l = ir::readLocation(diag.getLocation());
  d.range = toRange(l);
  if (!l.name.empty()) d.subject = "op " + l.name;
  if (!l.pythonLoc.empty()) d.notes.push_back("python: " + l.pythonLoc + " (from OperatorConf.loc)");
  for (mlir::Diagnostic &n : llvm::drop_begin(diag.getNotes(), ownNotes)) d.notes.push_back(n.str());
  return d;
}

size_t countOps(ModuleOp module) {
  size_t n = 0;
  for (Operation &op : graphBlock(module)) n += !op.hasTrait<OpTrait::IsTerminator>();
  return n;
}

} // namespace

const char *phaseName(Phase phase) { return kPhases[static_cast<size_t>(phase)].name; }
const char *phaseDoc(Phase phase) { return kPhases[static_cast<size_t>(phase)].doc; }
std::optional<Phase> parsePhase(const std::string &name) {
  for (const auto &p : kPhases)
    if (name == p.name) return p.phase;
  return std::nullopt;
}
const std::vector<Phase> &allPhases() {
  static const std::vector<Phase> phases = [] {
    std::vector<Phase> v;
    for (const auto &p : kPhases) v.push_back(p.phase);
    return v;
  }();
  return phases;
}

bool looksLikePlan(const std::string &bytes) { return looksLikePlan(std::string_view(bytes)); }

struct Pipeline::Impl {
  Impl(const Registry &r, CompileOptions o)
      : registry(r), options(std::move(o)), context(MLIRContext::Threading::DISABLED), findings(options.maxErrors) {
    context.loadDialect<func::FuncDialect>();
    context.getOrLoadDialect<ir::OpcDialect>()->setRegistry(&registry);
    // Passes here are our own; the printed form is for people, who read it by op and not by location.
    context.getDiagEngine().registerHandler([this](mlir::Diagnostic &d) {
      findings.incoming()->push_back(convert(d));
      return success();
    });
  }

  const std::chrono::steady_clock::time_point made = std::chrono::steady_clock::now();
  const Registry &registry;
  CompileOptions options;
  GraphCut cut;
  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  /// What runs: the module itself, or on several devices the graphs of the ranks.
  std::vector<OwningOpRef<ModuleOp>> parts;
  std::vector<uint32_t> partOfRank;
  std::vector<std::unique_ptr<ExecutionSchedule>> executions; // by part
  SbpReport sbpReport;
  SourceText source;
  std::string format, planBytes;
  DiagnosticList findings;
  std::vector<PhaseStats> stats;
  std::vector<GradientInfo> gradients;
  int done = -1; // index of the last phase that ran

  template <class F> bool phase(Phase p, F &&body) {
    if (options.progress) options.progress(p);
    const auto start = std::chrono::steady_clock::now();
    const bool ok = body();
    const bool reported = findings.settle();
    PhaseStats s;
    s.phase = p;
    s.start = std::chrono::duration<double>(start - made).count();
    s.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (module) s.ops = countOps(*module);
    stats.push_back(s);
    if (!ok || reported) {
      if (!findings.errors()) {
        report(Severity::kError, "OPC0901", std::string("phase ") + phaseName(p) + " failed without a reason");
        findings.settle();
      }
      return false;
    }
    done = static_cast<int>(p);
    if (options.dump) options.dump(p, text());
    return true;
  }

  std::string text() {
    std::string s;
    if (!module) return s;
    llvm::raw_string_ostream os(s);
    OpPrintingFlags flags;
    flags.enableDebugInfo(true, /*prettyForm=*/true);
    flags.elideLargeElementsAttrs(64);
    // From the ranks' graphs on it is these that change.
    if (parts.empty() || done <= static_cast<int>(Phase::kBoxing)) {
      (*module)->print(os, flags);
      os << "\n";
    } else {
      for (auto &part : parts) {
        (*part)->print(os, flags);
        os << "\n";
      }
    }
    return s;
  }

  /// Calls f(module) for everything that runs.
  template <class F> bool forParts(F &&f) {
    if (parts.empty()) return succeeded(f(*module));
    for (auto &part : parts)
      if (failed(f(*part))) return false;
    return true;
  }

  LogicalResult plan(ModuleOp graph) {
    executions.push_back(std::make_unique<ExecutionSchedule>());
    return planExecution(graph, registry, DeviceType::kCPU, executions.back().get(), options.inPlace,
                         options.mesh ? options.mesh->microBatches : 1);
  }

  bool fitsDevice() {
    const uint64_t limit = options.mesh ? options.mesh->deviceMemory : 0;
    if (!limit) return true;
    for (const auto &e : executions)
      if (e->memory.arenaBytes > limit) {
        report(Severity::kError, "OPC0312",
               "a device needs " + std::to_string(e->memory.arenaBytes) + " bytes, and --device-memory gives it " +
                   std::to_string(limit),
               "more devices, smaller batches (--micro-batches), or --recompute");
        return false;
      }
    return true;
  }

  bool hasOutputs() {
    for (Operation &op : graphBlock(*module))
      if (isa<ir::OutputOp>(&op)) return true;
    report(Severity::kError, "OPC0111", "the graph has no output",
           "add op { name: \"y\" output_conf { in: \"OP/out_0\" } }");
    return false;
  }

  void report(Severity severity, const char *code, std::string message, std::string help = "") {
    Diagnostic d;
    d.severity = severity;
    d.code = code;
    d.message = std::move(message);
    d.help = std::move(help);
    d.range.file = source.name;
    findings.incoming()->push_back(std::move(d));
  }

  /// What is trained is shown: a loss that is no output becomes one.
  void addLossOutputs(ArrayRef<Value> losses, const GradientRequest &request) {
    GraphBuilder builder(*module, registry);
    for (auto [i, loss] : llvm::enumerate(losses)) {
      if (llvm::any_of(loss.getUsers(), [](Operation *user) { return isa<ir::OutputOp>(user); })) continue;
      std::string name = request.losses[i];
      if (const size_t slash = name.rfind('/'); slash != std::string::npos) name.resize(slash);
      builder.addOutput(name == ir::opName(loss.getDefiningOp()) ? name + "_value" : name, loss);
    }
  }

  bool differentiate(const GradientRequest &request) {
    SmallVector<Value> losses;
    for (const std::string &name : request.losses)
      if (Value loss = findLoss(*module, name)) losses.push_back(loss);
    auto wanted = findWanted(*module, request.wrt);
    if (losses.size() != request.losses.size() || failed(wanted)) return false;
    if (request.wrt.empty())
      wanted->erase(
          std::remove_if(wanted->begin(), wanted->end(), [&](const WantedGradient &w) { return isWritten(w.tensor); }),
          wanted->end());
    if (request.lossesOnly) {
      for (Operation &op : llvm::make_early_inc_range(graphBlock(*module)))
        if (isa<ir::OutputOp>(&op)) op.erase();
    }
    GraphBuilder builder(*module, registry);
    if (request.lossOutputs)
      for (auto [i, loss] : llvm::enumerate(losses)) builder.addOutput("loss:" + std::to_string(i), loss);
    if (request.lossesOnly) return true;
    SmallVector<Value> seeds;
    if (request.dyInputs)
      for (auto [i, loss] : llvm::enumerate(losses))
        seeds.push_back(builder.addInput(request.losses[i] + ".dy", loss.getType()));
    if (request.training && !request.dyInputs) {
      auto scaled = scaledSeeds(*module, registry, losses, request.training->lossScale);
      if (failed(scaled)) return false;
      seeds = *scaled;
    }
    auto made = generateGradients(*module, registry, losses, *wanted, seeds);
    if (failed(made)) return false;
    if (!request.recompute.empty() && failed(recompute(*module, request.recompute))) return false;
    if (request.training) {
      if (failed(addTraining(*module, registry, *request.training, *made))) return false;
      addLossOutputs(losses, request);
    }
    builder.refresh();
    size_t reached = 0;
    std::vector<GeneratedGradient> level = *made;
    for (int order = 1; order <= request.order; ++order) {
      std::string suffix;
      for (int k = 0; k < order; ++k) suffix += ".grad";
      for (const GeneratedGradient &g : level) {
        GradientInfo info;
        info.name = g.name;
        info.tensor = ir::tensorName(g.tensor);
        user_op::TensorDesc desc;
        ir::describe(g.tensor.getType(), &desc);
        info.dtype = desc.data_type();
        info.shape = desc.shape();
        if (g.gradient) {
          ++reached;
          info.gradient = ir::tensorName(g.gradient);
          if (!request.training || !isa<ir::VariableOp>(g.tensor.getDefiningOp()))
            info.output = builder.addOutput(g.name + suffix, g.gradient);
        } else if (order == 1) {
          const bool exact = llvm::is_contained(request.wrt, g.name);
          report(exact ? Severity::kError : Severity::kWarning, "OPC0505",
                 "the loss " + request.losses[0] + " does not depend differentiably on " + g.name +
                     "; it gets no gradient",
                 "opc grad --explain " + g.name + " shows where the path ends");
        }
        gradients.push_back(std::move(info));
      }
      if (order == request.order) break;
      // The next order: each gradient's sum is a loss of its own, for its own tensor.
      std::vector<GeneratedGradient> next;
      for (const GeneratedGradient &g : level) {
        if (!g.gradient) continue;
        auto second = generateGradients(*module, registry, {g.gradient}, {{g.name, g.tensor}});
        if (failed(second)) return false;
        next.insert(next.end(), second->begin(), second->end());
      }
      builder.refresh();
      level = std::move(next);
    }
    if (!reached && !level.empty())
      report(Severity::kError, "OPC0505",
             "no gradient of " + request.losses[0] + " reaches anything that was asked for",
             "opc grad --explain NAME shows where the path ends");
    if (request.backwardOnly) keepBackwardOnly(*module);
    return true;
  }

  bool runPhase(Phase p) {
    switch (p) {
    case Phase::kImport: return true;
    case Phase::kShape:
      return succeeded(inferShapes(*module, registry)) &&
             (cut.empty() || succeeded(cutGraph(*module, cut.feeds, cut.until, cut.only)));
    case Phase::kGrad:
      if (!options.gradient) return true;
      forgetTraining(*module);
      return differentiate(*options.gradient);
    case Phase::kSimplify:
      if (!hasOutputs()) return false;
      return !options.simplify || succeeded(simplify(*module, registry));
    case Phase::kSbp:
      if (!options.mesh) return true;
      return succeeded(placeOps(*module, *options.mesh)) &&
             succeeded(assignSignatures(*module, *options.mesh, &sbpReport));
    case Phase::kBoxing: {
      if (!options.mesh) return true;
      if (failed(insertBoxing(*module, *options.mesh)) || failed(schedule(*module))) return false;
      numberBoxings(*module);
      if (failed(assignLags(*module, *options.mesh))) return false;
      PhysicalGraphs graphs = makePhysicalGraphs(*module, options.mesh->devices());
      parts = std::move(graphs.parts);
      partOfRank = std::move(graphs.partOfRank);
      return true;
    }
    case Phase::kFuse:
      if (options.fuse)
        forParts([&](ModuleOp graph) {
          fuseForLibraries(graph);
          return success();
        });
      return true;
    case Phase::kSchedule: return forParts([&](ModuleOp graph) { return schedule(graph); });
    case Phase::kMemory:
      executions.clear();
      return forParts([&](ModuleOp graph) { return plan(graph); }) && fitsDevice();
    case Phase::kPlan:
      if (parts.empty()) {
        planBytes = emitPlan(*module, *executions[0], source.name);
      } else {
        std::vector<RankPart> ranks;
        for (size_t i = 0; i < parts.size(); ++i) ranks.push_back({*parts[i], executions[i].get()});
        planBytes = emitPlan(ranks, partOfRank, readPlacements(*module),
                             static_cast<uint32_t>(options.mesh->microBatches), source.name);
      }
      return true;
    }
    return false;
  }
};

Pipeline::Pipeline(const Registry &registry, CompileOptions options)
    : impl_(std::make_unique<Impl>(registry, std::move(options))) {}
Pipeline::~Pipeline() = default;

bool Pipeline::import(const std::string &name, const std::string &bytes) {
  Impl &impl = *impl_;
  return impl.phase(Phase::kImport, [&] {
    impl.source.name = name;
    auto file = readGraphFile(name, bytes, impl.options.maxGraphBytes, impl.findings.incoming());
    if (!file) return false;
    impl.format = file->format;
    if (file->isText) impl.source.text = bytes;
    ImportOptions options;
    options.shapes = impl.options.shapes;
    options.floatsAs = impl.options.floatsAs;
    if (impl.options.train && !impl.options.gradient)
      if (auto training = readTraining(*file, impl.findings.incoming())) {
        GradientRequest request;
        request.losses = training->losses;
        request.training = training->config;
        impl.options.gradient = request;
      }
    impl.module = importGraph(&impl.context, impl.registry, *file, options, impl.findings.incoming());
    if (impl.module) {
      std::vector<std::string> names;
      for (Operation &op : graphBlock(*impl.module))
        if (isa<ir::InputOp, ir::VariableOp>(&op)) names.push_back(ir::opName(&op));
      for (const auto &[shaped, dims] : impl.options.shapes) {
        if (llvm::is_contained(names, shaped)) continue;
        const std::vector<std::string> near = nearestNames(shaped, names, 1);
        impl.report(Severity::kError, "OPC0005",
                    "--shape names '" + shaped + "', which is no input or variable of the graph",
                    near.empty() ? "opc show " + name + " lists them" : "did you mean " + near[0] + "?");
      }
    }
    return static_cast<bool>(impl.module);
  });
}

void Pipeline::cut(GraphCut cut) { impl_->cut = std::move(cut); }

bool Pipeline::run(Phase to) {
  Impl &impl = *impl_;
  if (!impl.module || impl.findings.errors()) return false;
  while (impl.done < static_cast<int>(to)) {
    const Phase next = static_cast<Phase>(impl.done + 1);
    if (!impl.phase(next, [&] { return impl.runPhase(next); })) return false;
  }
  return true;
}

const std::vector<Diagnostic> &Pipeline::diagnostics() const { return impl_->findings.list(); }
size_t Pipeline::errorCount() const { return impl_->findings.errors(); }
StatusCode Pipeline::errorClass() const { return impl_->findings.worst(); }
const SourceText &Pipeline::source() const { return impl_->source; }
const std::vector<PhaseStats> &Pipeline::stats() const { return impl_->stats; }

GraphInfo Pipeline::graph() const {
  GraphInfo info;
  info.format = impl_->format;
  if (!impl_->module) return info;
  auto tensor = [](const std::string &name, Value v) {
    GraphTensor t;
    t.name = name;
    t.tensor = ir::tensorName(v);
    user_op::TensorDesc desc;
    if (ir::describe(v.getType(), &desc)) {
      t.dtype = desc.data_type();
      t.shape = desc.shape();
    }
    return t;
  };
  for (Operation &op : graphBlock(*impl_->module)) {
    if (auto in = dyn_cast<ir::InputOp>(&op)) {
      info.inputs.push_back(tensor(in.getName().str(), in.getOut()));
    } else if (auto var = dyn_cast<ir::VariableOp>(&op)) {
      info.variables.push_back(tensor(var.getName().str(), var.getOut()));
      info.variables.back().trainable = var.getTrainable();
    } else if (auto out = dyn_cast<ir::OutputOp>(&op)) {
      info.outputs.push_back(tensor(out.getName().str(), out.getIn()));
    } else if (auto user = dyn_cast<ir::UserOp>(&op)) {
      GraphOp g;
      user_op::OpConf conf = ir::toOpConf(user);
      g.name = conf.name;
      g.type = conf.type;
      for (const auto &b : conf.inputs)
        for (size_t i = 0; i < b.tensors.size(); ++i)
          g.inputs.push_back({b.name + "_" + std::to_string(i), b.tensors[i]});
      unsigned next = 0;
      for (const auto &b : conf.outputs)
        for (size_t i = 0; i < b.tensors.size(); ++i)
          g.outputs.push_back(tensor(b.name + "_" + std::to_string(i), user.getOuts()[next++]));
      g.attrs = std::move(conf.attrs);
      const ir::OpLocation l = ir::readLocation(op.getLoc());
      g.range = toRange(l);
      g.loc = l.pythonLoc;
      info.isDifferentiated |= user.getRole() == ir::Role::kBackward;
      info.ops.push_back(std::move(g));
    }
  }
  return info;
}

MemoryInfo Pipeline::memory() const {
  MemoryInfo info;
  if (impl_->executions.empty()) return info;
  const ExecutionSchedule &e =
      **std::max_element(impl_->executions.begin(), impl_->executions.end(),
                         [](const auto &a, const auto &b) { return a->memory.arenaBytes < b->memory.arenaBytes; });
  info.arenaBytes = e.memory.arenaBytes;
  info.persistentBytes = e.memory.persistentBytes;
  info.activationBytes = e.memory.arenaBytes - e.memory.persistentBytes;
  info.liveLowerBound = e.memory.liveLowerBound;
  static const char *const kKinds[] = {"activation", "input", "variable", "constant", "workspace"};
  for (const ScheduledBuffer &b : e.buffers)
    info.slots.push_back(
        {b.name, b.plan.offset, b.plan.bytes, b.plan.first, b.plan.last, kKinds[static_cast<int>(b.kind)]});
  return info;
}

SbpReport Pipeline::sbp() const {
  SbpReport report = impl_->sbpReport;
  if (impl_->options.mesh && impl_->done >= static_cast<int>(Phase::kBoxing))
    describeSbp(*impl_->module, *impl_->options.mesh, &report);
  return report;
}

std::vector<GradientInfo> Pipeline::gradients() const { return impl_->gradients; }

std::vector<std::string> Pipeline::explainGradient(const std::string &loss, const std::string &tensor, bool *reaches) {
  Value from = findLoss(*impl_->module, loss);
  auto wanted = findWanted(*impl_->module, {tensor});
  std::vector<std::string> lines;
  *reaches = true;
  if (from && succeeded(wanted))
    for (const WantedGradient &w : *wanted) {
      bool one = false;
      for (std::string &line : opc::explainGradient(*impl_->module, from, w.tensor, &one))
        lines.push_back(std::move(line));
      *reaches &= one;
    }
  impl_->findings.settle();
  return lines;
}

bool Pipeline::tidy() {
  SimplifyOptions options;
  options.splatConstantsOnly = true;
  return succeeded(simplify(*impl_->module, impl_->registry, options)) && !impl_->findings.settle();
}

std::string Pipeline::emit(Emit what) {
  if (what == Emit::kPlan) return impl_->planBytes;
  if (what == Emit::kMlir) return impl_->text();
  graph::Job job;
  std::string error;
  if (!impl_->module || !toGraph(*impl_->module, &job, &error)) {
    if (!error.empty()) {
      impl_->report(Severity::kError, "OPC0112", error);
      impl_->findings.settle();
    }
    return "";
  }
  if (what == Emit::kGraphText) return canonicalText(job);
  const bool bare = !job.has_placement() && !job.has_job_conf() && !job.has_job_parallel_view_conf();
  return bare ? job.net().SerializePartialAsString() : job.SerializePartialAsString();
}

} // namespace opc
