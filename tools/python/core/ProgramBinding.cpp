// Compiling from Python: text of a graph in, a plan, another graph or facts out, with the findings as exceptions.
// SPDX-License-Identifier: Apache-2.0
#include "Bindings.h"

#include "AttrConversion.h"
#include "CompileRequest.h"
#include "CompiledProgram.h"
#include "GraphMessage.h"
#include "ModelSource.h"
#include "PlanValues.h"
#include "PythonErrors.h"
#include "PythonTurn.h"
#include "WithoutGil.h"

#include <pybind11/stl.h>

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

namespace py = pybind11;

namespace opc::python {
namespace {

/// A graph file's bytes, through the phases up to `to`. Throws what is found.
std::unique_ptr<Pipeline> runPipeline(const Registry &registry, const std::string &name, SharedBytes bytes,
                                      const CompileOptions &options, Phase to) {
  auto pipeline = std::make_unique<Pipeline>(registry, options);
  const bool done = withoutGil([&] { return pipeline->import(name, std::move(bytes)) && pipeline->run(to); });
  if (!done) raiseFindings(*pipeline);
  return pipeline;
}

py::list factsOf(const std::vector<GraphTensor> &tensors) {
  py::list all;
  for (const GraphTensor &t : tensors)
    all.append(py::make_tuple(t.name, shapeToPython(t.shape), dataTypeName(t.dtype), t.tensor));
  return all;
}

py::list opsOf(const GraphFacts &facts) {
  py::list ops;
  for (const GraphOp &op : facts.ops) {
    py::list inputs;
    for (const GraphOperand &in : op.inputs) inputs.append(py::make_tuple(in.slot.text(), in.tensor));
    py::dict attrs;
    for (const auto &[name, value] : op.attrs) attrs[py::str(name)] = attrToPython(value);
    ops.append(py::make_tuple(op.name, op.type, inputs, factsOf(op.outputs), attrs, op.loc));
  }
  return ops;
}

py::dict memoryOf(const MemoryFacts &memory) {
  py::dict d;
  d["arena_bytes"] = memory.arenaBytes;
  d["persistent_bytes"] = memory.persistentBytes;
  d["activation_bytes"] = memory.activationBytes;
  return d;
}

/// What is known of a graph, for `show`: after the shapes, or with memory and states when `planned`.
py::dict graphFacts(const std::string &name, std::string bytes, const CompileOptions &options, bool planned) {
  const RegistryPtr registry = currentRegistry();
  const auto pipeline =
      runPipeline(*registry, name, std::move(bytes), options, planned ? Phase::kMemory : Phase::kShape);
  const GraphFacts facts = pipeline->facts();
  py::dict d;
  d["inputs"] = factsOf(facts.inputs);
  d["outputs"] = factsOf(facts.outputs);
  d["variables"] = factsOf(facts.variables);
  d["ops"] = opsOf(facts);
  d["memory"] = memoryOf(facts.memory);
  d["tasks"] = facts.costs.tasks;
  py::dict signatures;
  for (const MeshFacts::Op &op : facts.mesh.ops) signatures[py::str(op.name)] = op.signature;
  d["signatures"] = signatures;
  py::list transitions;
  for (const MeshFacts::Transition &t : facts.mesh.transitions)
    transitions.append(py::make_tuple(t.tensors, t.kind, t.from, t.to, t.bytes));
  d["transitions"] = transitions;
  return d;
}

/// Canonical text is a list of ops, or a Job.
graph::Job parseText(const std::string &text) {
  struct Silent : google::protobuf::io::ErrorCollector {
    void AddError(int, int, const std::string &) override {}
  } silent;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&silent);
  graph::Job job;
  if (parser.ParseFromString(text, &job)) return job;
  job.Clear();
  if (!parser.ParseFromString(text, job.mutable_net()))
    raise(Status(StatusCode::kInternal, "OPC0901", "the canonical text of a graph does not read back"));
  return job;
}

/// A graph that was read (or differentiated: with a gradient in the options), with what is known of its tensors:
/// (message, inputs, variables, outputs, gradients, values that came with it or None). Constants of a model that a
/// graph's text cannot hold are variables of it.
py::tuple readGraph(const std::string &name, SharedBytes bytes, const CompileOptions &options,
                    std::function<Status()> unchanged = nullptr) {
  const RegistryPtr registry = currentRegistry();
  const bool gradient = options.gradient.has_value();
  const auto pipeline =
      runPipeline(*registry, name, std::move(bytes), options, gradient ? Phase::kGrad : Phase::kShape);
  pipeline->keepConstants();
  const std::string text = pipeline->emit(Emit::kGraphText);
  if (text.empty()) raiseFindings(*pipeline);
  warn(pipeline->diagnostics(), pipeline->source());
  const GraphFacts facts = pipeline->facts();
  std::vector<TensorFact> tensors;
  for (const auto *list : {&facts.inputs, &facts.variables})
    for (const GraphTensor &t : *list) tensors.push_back({t.tensor, {t.shape, t.dtype}});
  for (const GraphOp &op : facts.ops)
    for (const GraphTensor &t : op.outputs) tensors.push_back({t.tensor, {t.shape, t.dtype}});
  py::dict gradients;
  for (const GraphGradient &g : facts.gradients) gradients[py::str(g.name)] = py::make_tuple(g.gradient, g.output);
  auto message = std::make_unique<GraphMessage>(name);
  message->become(parseText(text), text, std::move(tensors));
  py::object values = py::none();
  if (!pipeline->values().empty())
    values = py::cast(GraphValues{std::make_shared<const std::map<std::string, StoredTensor>>(pipeline->values()),
                                  std::move(unchanged)});
  return py::make_tuple(std::move(message), factsOf(facts.inputs), factsOf(facts.variables), factsOf(facts.outputs),
                        gradients, values);
}

/// The plan goes without the values that came with the graph: sessions read them where they lie.
std::shared_ptr<CompiledProgram> compile(const std::string &name, std::string bytes, CompileOptions options,
                                         const GraphValues *given) {
  check(refuseInsideKernel());
  const RegistryPtr registry = currentRegistry();
  options.planHasValues = false;
  const auto pipeline = runPipeline(*registry, name, std::move(bytes), options, Phase::kPlan);
  warn(pipeline->diagnostics(), pipeline->source());
  GraphValues values;
  if (!pipeline->values().empty()) {
    values.tensors = std::make_shared<const std::map<std::string, StoredTensor>>(pipeline->values());
    if (given) values.check = given->check;
  }
  return std::make_shared<CompiledProgram>(CompiledProgram{registry, pipeline->emit(Emit::kPlan), std::move(values)});
}

/// The plan with the values, as `opc compile` writes it.
std::string wholePlan(const CompiledProgram &program) {
  if (!program.values.tensors) return program.plan;
  check(program.values.areAsTheyWere());
  return valueOf(withoutGil([&] { return planWithValues(program.plan, *program.values.tensors); }));
}

size_t valueBytes(const CompiledProgram &program) {
  size_t bytes = 0;
  if (program.values.tensors)
    for (const auto &[name, value] : *program.values.tensors) bytes += value.bytes.size();
  return bytes;
}

} // namespace

void bindProgram(py::module_ &module) {
  bindCompileOptions(module);
  py::class_<ModelFile>(module, "ModelFile");
  py::class_<CompiledProgram, std::shared_ptr<CompiledProgram>>(module, "CompiledProgram")
      .def(py::init([](const py::bytes &plan) {
        return std::make_shared<CompiledProgram>(CompiledProgram{currentRegistry(), std::string(plan)});
      }))
      .def_property_readonly("plan", [](const CompiledProgram &program) { return py::bytes(wholePlan(program)); })
      .def_property_readonly("plan_bytes", [](const CompiledProgram &program) { return program.plan.size(); })
      .def_property_readonly("value_bytes", &valueBytes);
  module.def("compile", [](const std::string &name, const py::bytes &bytes, const CompileOptions &options,
                           const GraphValues *values) { return compile(name, std::string(bytes), options, values); });
  module.def("read_graph", [](const std::string &name, const ModelFile &file, const CompileOptions &options) {
    return readGraph(name, file.bytes(), options, [file] { return file.check(); });
  });
  module.def("read_graph", [](const std::string &name, const py::bytes &bytes, const CompileOptions &options) {
    return readGraph(name, std::string(bytes), options);
  });
  module.def("graph_facts", [](const std::string &name, const py::bytes &bytes, const CompileOptions &options,
                               bool planned) { return graphFacts(name, std::string(bytes), options, planned); });
  module.def("looks_like_plan", [](const py::bytes &bytes) { return looksLikePlan(std::string(bytes)); });
}

} // namespace opc::python
