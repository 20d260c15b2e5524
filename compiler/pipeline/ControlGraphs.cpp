// The graphs of ops whose work is graphs of their own, compiled to plans.
// SPDX-License-Identifier: Apache-2.0
#include "ControlGraphs.h"
#include "AttrBridge.h"
#include "ControlOp.h"
#include "EmitStatus.h"
#include "Graph.h"
#include "GraphEmitter.h"
#include "GraphFile.h"
#include "Importer.h"
#include "Locations.h"
#include "ModelSource.h"
#include "NativeEmitter.h"
#include "Passes.h"
#include "PlanFile.h"
#include "PlanGraphs.h"
#include "ShapeInference.h"

#include "llvm/Support/Path.h"

#include <map>
#include <optional>

using namespace mlir;

namespace opc {
namespace {

thread_local int depth = 0; // of the compilations that are under way

/// While one graph in another is compiled.
struct Deeper {
  Deeper() { ++depth; }
  ~Deeper() { --depth; }
  Deeper(const Deeper &) = delete;
  Deeper &operator=(const Deeper &) = delete;
};

/// What of the options is of a graph in an op.
CompileOptions optionsOf(const CompileOptions &whole) {
  CompileOptions options;
  options.maxErrors = 1;
  options.maxGraphBytes = whole.maxGraphBytes;
  options.simplify = whole.simplify;
  options.train = false;
  options.fuse = whole.fuse;
  options.winograd = whole.winograd;
  options.keptTensors = whole.keptTensors;
  options.regions = whole.regions;
  options.prepares = false; // it runs when the op around it does
  options.inPlace = whole.inPlace;
  options.verifyEach = whole.verifyEach;
  options.floatsAs = whole.floatsAs;
  return options;
}

/// What a plan takes or makes against what the op says; "" where they agree.
template <class Ports>
std::string faultOf(const plan::Plan &plan, const Ports &ports, const std::vector<user_op::TensorDesc> &want,
                    const char *what) {
  if (static_cast<size_t>(ports.size()) != want.size())
    return "has " + std::to_string(ports.size()) + " " + what + "s, expected " + std::to_string(want.size());
  for (int i = 0; i < ports.size(); ++i) {
    const plan::Tensor &tensor = plan.tensor(static_cast<int>(ports[i].tensor()));
    const user_op::TensorDesc have(Shape(DimVector(tensor.dim().begin(), tensor.dim().end())),
                                   static_cast<DataType>(tensor.data_type()));
    if (have != want[static_cast<size_t>(i)])
      return std::string("has the ") + what + " " + ports[i].name() + " of type " + have.toString() + ", expected " +
             want[static_cast<size_t>(i)].toString();
  }
  return "";
}

/// Nothing of one that has no lines.
std::optional<plan::Location> locationOf(StringRef file, uint32_t line, uint32_t column) {
  if (file.empty() || line == 0) return std::nullopt;
  plan::Location place;
  place.set_file(llvm::sys::path::filename(file).str());
  place.set_line(line);
  place.set_column(column);
  return place;
}

using Places = std::map<std::string, plan::Location>; // by op

/// The lines of a graph's text are not those of a file: its tasks stand where its ops say, else where the op does.
void placeTasks(google::protobuf::RepeatedPtrField<plan::Task> *tasks, const Places &known, const plan::Location &op) {
  for (plan::Task &task : *tasks) {
    if (task.location().line()) { // else it is a node of a model
      const auto found = known.find(task.name());
      *task.mutable_location() = found == known.end() ? op : found->second;
    }
    placeTasks(task.mutable_body(), known, task.location());
    for (plan::Plan &graph : *task.mutable_graph()) placeTasks(graph.mutable_task(), {}, task.location());
  }
}

struct CompiledGraph {
  std::string plan;   // file
  uint64_t bytes = 0; // of its arenas
};

/// Reads a graph's text into a compilation of its own; null where it has errors, which are in `found`.
std::unique_ptr<Pipeline> importOne(const std::string &text, const Registry &registry, const CompileOptions &options,
                                    const std::string &name, Places *places, std::vector<Diagnostic> *found) {
  ModelSource source;
  source.file = readGraphFile(name, text, options.maxGraphBytes, found);
  if (!source.file) return nullptr;
  source.file->keepsInterface = true;
  for (const graph::OperatorConf &inner : source.file->job->net().op())
    if (auto place = locationOf(inner.place().file(), inner.place().line(), inner.place().column()))
      places->emplace(inner.name(), std::move(*place));
  auto pipeline = std::make_unique<Pipeline>(registry, optionsOf(options));
  if (pipeline->import(std::move(source), "")) return pipeline;
  *found = pipeline->diagnostics();
  return nullptr;
}

/// One graph; without a plan after an error, which has been said.
CompiledGraph compileOne(ir::UserOp op, const std::string &text, const Registry &registry,
                         const CompileOptions &options, const std::string &name, NativeEmitter *native,
                         std::vector<Diagnostic> *findings) {
  const std::string what = "op " + ir::opName(op) + " (" + op.getOpType().str() + "): ";
  const auto failed = [&](const std::vector<Diagnostic> &found) {
    for (Diagnostic d : found) {
      if (d.severity != Severity::kError) continue;
      d.message = what + "in its graph: " + d.message;
      findings->push_back(std::move(d));
    }
    return CompiledGraph();
  };
  std::vector<Diagnostic> found;
  Places places;
  const std::unique_ptr<Pipeline> pipeline = importOne(text, registry, options, name, &places, &found);
  if (!pipeline) return failed(found);
  if (native) pipeline->addNative(native->imager(), native->levels());
  if (!pipeline->run(Phase::kPlan)) return failed(pipeline->diagnostics());
  std::string bytes = pipeline->emit(Emit::kPlan);
  if (native) native->addFacts(pipeline->native());
  plan::Plan plan;
  const ControlPorts ports = controlPorts(*ir::toInstance(op, *op.def()));
  std::string fault;
  if (Status s = decodePlan(bytes, &plan); !s.isOk()) fault = "cannot be read: " + s.message();
  if (fault.empty()) fault = faultOf(plan, plan.interface().input(), ports.inputs, "input");
  if (fault.empty()) fault = faultOf(plan, plan.interface().output(), ports.outputs, "output");
  if (fault.empty() && plan.interface().variable_size())
    fault = "has the variable " + plan.interface().variable(0).name() + ": what it reads must be among its inputs";
  if (fault.empty()) {
    const ir::OpLocation own = ir::readLocation(op.getLoc());
    placeTasks(plan.mutable_task(), places, locationOf(own.file, own.line, own.column).value_or(plan::Location()));
    CompiledGraph made{encodePlan(plan), 0};
    plan::Task task;
    task.set_op_type(op.getOpType().str());
    for (NamedAttribute a : op.getOpAttrs()) {
      const AttrValue value = ir::fromMlir(a.getValue());
      if (!value.get<int64_t>()) continue;
      auto *attr = task.add_attr();
      attr->set_name(a.getName().str());
      attr->mutable_value()->set_at_int64(*value.get<int64_t>());
    }
    task.add_graph()->Swap(&plan);
    made.bytes = taskGraphBytes(task);
    return made;
  }
  emitFinding(op.getLoc(), "OPC0826", what + "its graph " + fault,
              "a graph in an op is made for the shapes around it: give shapes where the model is imported");
  return {};
}

class ControlTexts final : public GraphTexts {
public:
  ControlTexts(uint64_t maxBytes, DataType floatsAs) : maxBytes_(maxBytes) { importing_.floatsAs = floatsAs; }

  OwningOpRef<ModuleOp> read(ir::UserOp op, const std::string &text) const override {
    std::vector<Diagnostic> found;
    const Registry &registry = registryOf(op.getContext());
    auto file = readGraphFile(ir::readLocation(op.getLoc()).file, text, maxBytes_, &found);
    if (file) file->keepsInterface = true;
    OwningOpRef<ModuleOp> module;
    const ScopedDiagnosticHandler errorsAlone(op.getContext(), [](mlir::Diagnostic &d) {
      return success(d.getSeverity() != DiagnosticSeverity::Error); // a graph is read again and again
    });
    if (file) module = GraphImport(op.getContext(), registry, std::move(file), importing_, &found).module();
    if (module && succeeded(inferShapes(*module, registry))) return module;
    for (const Diagnostic &d : found)
      if (d.severity == Severity::kError)
        emitFinding(op.getLoc(), d.code,
                    "op " + ir::opName(op) + " (" + op.getOpType().str() + "): in its graph: " + d.message, d.help);
    return nullptr;
  }

  std::string write(ir::UserOp op, ModuleOp module) const override {
    graph::Job job;
    std::string error;
    if (toGraph(module, &job, &error)) return canonicalText(job);
    emitFinding(op.getLoc(), "OPC0112",
                "op " + ir::opName(op) + " (" + op.getOpType().str() + "): in the graph of its gradient: " + error);
    return "";
  }

private:
  const uint64_t maxBytes_;
  ImportOptions importing_;
};

} // namespace

std::shared_ptr<const GraphTexts> controlTexts(const CompileOptions &options) {
  return std::make_shared<ControlTexts>(options.maxGraphBytes, options.floatsAs);
}

bool checkControl(ModuleOp module, const CompileOptions &options) {
  if (options.sizes.empty()) return true;
  for (auto op : graphBlock(module).getOps<ir::UserOp>()) {
    if (controlKind(op.getOpType()) == ControlKind::kNone) continue;
    emitFinding(op.getLoc(), "OPC0416",
                "op " + ir::opName(op) + " (" + op.getOpType().str() +
                    "): its graphs are made for fixed shapes, and this compilation is for sizes in a range",
                "make what it decides known (--const of an ONNX model), or compile for fixed shapes");
    return false;
  }
  return true;
}

bool compileControl(ModuleOp module, const Registry &registry, const CompileOptions &options, const std::string &name,
                    std::vector<Diagnostic> *findings, std::vector<std::unique_ptr<ExecutionSchedule>> *executions,
                    NativeEmitter *native, ControlPlans *plans) {
  bool isFine = true;
  plans->clear();
  for (auto op : graphBlock(module).getOps<ir::UserOp>()) {
    const ControlKind kind = controlKind(op.getOpType());
    if (kind == ControlKind::kNone) continue;
    if (depth == kMostControlDepth) {
      emitFinding(op.getLoc(), "OPC0416",
                  "op " + ir::opName(op) + ": graphs lie in one another more than " +
                      std::to_string(kMostControlDepth) + " deep",
                  "make what they decide known (--const of an ONNX model)");
      return false;
    }
    const Deeper deeper;
    for (const std::string &graph : controlGraphs(kind)) {
      CompiledGraph made =
          compileOne(op, op.attribute<std::string>(graph, ""), registry, options, name, native, findings);
      isFine &= !made.plan.empty();
      ControlPlan &all = (*plans)[op];
      all.files.push_back(std::move(made.plan));
      all.bytes += made.bytes;
    }
  }
  for (const auto &e : *executions)
    for (ScheduledTask &task : e->tasks)
      if (const auto own = plans->find(task.op); own != plans->end()) task.graphBytes = own->second.bytes;
  return isFine;
}

std::vector<FusionFacts::Graph> fusionOfGraphs(ModuleOp module, const Registry &registry, const CompileOptions &options,
                                               const std::string &name) {
  std::vector<FusionFacts::Graph> graphs;
  for (auto op : graphBlock(module).getOps<ir::UserOp>())
    for (const std::string &graph : controlGraphs(controlKind(op.getOpType()))) {
      Places places;
      std::vector<Diagnostic> found;
      const auto pipeline = importOne(op.attribute<std::string>(graph, ""), registry, options, name, &places, &found);
      if (pipeline && pipeline->run(Phase::kMemory))
        graphs.push_back({ir::opName(op), graph, std::make_shared<const FusionFacts>(pipeline->fusion())});
    }
  return graphs;
}

} // namespace opc
