// The facts of a graph or plan that a command was given.
// SPDX-License-Identifier: Apache-2.0
#include "FactsInput.h"

#include "ControlOp.h"
#include "GraphDigest.h"
#include "GraphValues.h"
#include "LockFile.h"
#include "Placement.h"
#include "PlanInput.h"
#include "TextParts.h"

#include <algorithm>
#include <map>
#include <set>

namespace opc::cli {

namespace {

/// What the phases behind the ops have found.
void takeDecisions(GraphFacts from, GraphFacts *to) {
  to->mesh = std::move(from.mesh);
  to->tasks = std::move(from.tasks);
  to->memory = std::move(from.memory);
  to->parts = std::move(from.parts);
  from.costs.flops = to->costs.flops;
  from.costs.bytes = to->costs.bytes;
  to->costs = from.costs;
  to->phases = std::move(from.phases);
}

bool hasGraphs(const GraphOp &op) { return controlKind(op.type) != ControlKind::kNone; }

/// Of ops whose work is graphs a plan has what they compute and not their text: here it is what a plan would have.
Status takeGraphs(Pipeline *pipeline, const Registry &registry, GraphFacts *facts) {
  if (!hasInnerGraphs(*facts) || !pipeline->run(Phase::kPlan)) return Status::ok();
  OPC_ASSIGN_OR_RETURN(const GraphFacts planned, factsOfPlan(pipeline->emit(Emit::kPlan), registry));
  std::map<std::string, const GraphOp *> byName;
  for (const GraphOp &op : planned.ops) byName.emplace(op.name, &op);
  for (GraphOp &op : facts->ops)
    if (hasGraphs(op))
      if (const auto found = byName.find(op.name); found != byName.end())
        for (const std::string &graph : controlGraphs(controlKind(op.type)))
          if (const auto digest = found->second->attrs.find(graph); digest != found->second->attrs.end())
            op.attrs[graph] = digest->second;
  return Status::ok();
}

std::string firstError(const Pipeline &pipeline) {
  for (const Diagnostic &d : pipeline.diagnostics())
    if (d.severity == Severity::kError) return d.code + ": " + d.message;
  return "the graph cannot be planned";
}

Outcome<FactsInput> compiledFacts(Invocation &invocation, GraphInput input, const FactsRequest &request) {
  FactsInput result;
  result.name = input.name;
  result.isPlan = input.isPlan;
  OPC_ASSIGN_OR_RETURN(Registry loaded, invocation.loadRegistry(input.path));
  result.registry = std::make_unique<Registry>(std::move(loaded));
  const Registry &registry = *result.registry;
  if (input.isPlan) {
    OPC_ASSIGN_OR_RETURN(result.facts, factsOfPlan(input.bytes, registry));
    if (request.withPlan) result.plan = input.bytes.take();
    return result;
  }
  result.isIr = input.isIr;
  CompileOptions options;
  options.mesh = request.mesh;
  if (request.model && input.isModel) {
    OPC_ASSIGN_OR_RETURN(options, request.model->applied(input, std::move(options)));
  }
  Pipeline pipeline(registry, options);
  if (!begin(&pipeline, input)) return failureOf(pipeline);
  if (hasOpenInputs(pipeline.facts())) {
    OPC_RETURN_IF_ERROR(checkBound(input, pipeline.facts()));
    result.facts = factsWithConstants(pipeline);
    forgetInnerPlaces(&result.facts);
    result.undecided = "inputs leave dimensions open";
    return result;
  }
  if (!pipeline.run(Phase::kGrad)) return failureOf(pipeline);
  result.facts = factsWithConstants(pipeline, /*costs=*/true);
  forgetInnerPlaces(&result.facts);
  digestValues(pipeline, &result.facts);
  if (!pipeline.run(Phase::kMemory)) {
    // What was asked for is wrong whatever the graph is; the rest says why there is no plan.
    const StatusCode worst = pipeline.errorClass();
    if (worst == StatusCode::kInternal || worst == StatusCode::kUsage) return failureOf(pipeline);
    result.undecided = firstError(pipeline);
    return result;
  }
  GraphFacts planned = pipeline.facts();
  if (request.asPlanned) {
    result.facts = std::move(planned);
    OPC_RETURN_IF_ERROR(takeGraphs(&pipeline, registry, &result.facts));
  } else {
    takeDecisions(std::move(planned), &result.facts);
  }
  if (request.withPlan && pipeline.run(Phase::kPlan)) {
    result.plan = pipeline.emit(Emit::kPlan);
    result.facts.phases = pipeline.stats();
  }
  return result;
}

} // namespace

Outcome<FactsInput> factsOf(Invocation &invocation, GraphInput input, const FactsRequest &request) {
  invocation.watch().lap("read");
  Outcome<FactsInput> facts = compiledFacts(invocation, std::move(input), request);
  invocation.watch().lap("compile");
  return facts;
}

std::optional<GraphFacts> factsOf(Pipeline *pipeline) {
  if (!pipeline->run(Phase::kGrad)) return std::nullopt;
  GraphFacts facts = factsWithConstants(*pipeline, /*costs=*/true);
  if (!pipeline->run(Phase::kMemory)) return std::nullopt;
  takeDecisions(pipeline->facts(), &facts);
  return facts;
}

GraphFacts factsWithConstants(const Pipeline &pipeline, bool costs) {
  std::map<std::string, StoredTensor> values;
  GraphFacts facts = pipeline.factsWithConstants(costs, &values);
  for (GraphOp &op : facts.ops)
    if (const auto value = values.find(op.name); op.isValue && value != values.end()) {
      op.digest = digestOf(value->second.bytes);
      op.attrs.insert_or_assign("values", AttrValue("sha256:" + op.digest));
    }
  return facts;
}

void takeConstantsAsVariables(const GraphFacts &other, GraphFacts *facts) {
  std::set<std::string> kept;
  for (const GraphTensor &v : other.variables)
    if (!v.trainable) kept.insert(v.name);
  std::vector<GraphOp> ops;
  for (GraphOp &op : facts->ops) {
    if (op.digest.empty() || !kept.count(op.name)) {
      ops.push_back(std::move(op));
      continue;
    }
    GraphTensor variable = op.outputs.at(0);
    variable.name = op.name;
    variable.range = op.range;
    variable.digest = op.digest;
    facts->variables.push_back(std::move(variable));
  }
  facts->ops = std::move(ops);
}

void forgetConstants(const GraphFacts &locked, GraphFacts *facts) {
  std::set<std::string> known;
  for (const GraphOp &op : locked.ops) known.insert(op.name);
  std::erase_if(facts->ops, [&](const GraphOp &op) { return op.isValue && !known.count(op.name); });
}

bool hasInnerGraphs(const GraphFacts &facts) { return std::any_of(facts.ops.begin(), facts.ops.end(), hasGraphs); }

void forgetInnerPlaces(GraphFacts *facts) {
  for (GraphOp &op : facts->ops)
    for (const std::string &graph : controlGraphs(controlKind(op.type)))
      if (const auto attr = op.attrs.find(graph); attr != op.attrs.end())
        if (const auto *text = attr->second.get<std::string>()) attr->second = AttrValue(graphWithoutPlaces(*text));
}

void forgetWhatLockLacks(const std::set<LockSection> &detailed, GraphFacts *locked, GraphFacts *facts) {
  for (GraphFacts *side : {locked, facts})
    for (GraphOp &op : side->ops) {
      if (detailed.count(op.role == "forward" ? LockSection::kOps : LockSection::kGrad)) continue;
      op.after.clear();
      // Its digests are of texts with the model's path in them.
      for (const std::string &graph : controlGraphs(controlKind(op.type))) op.attrs.erase(graph);
    }
}

void digestValues(const Pipeline &pipeline, GraphFacts *facts) {
  for (GraphTensor &v : facts->variables)
    if (const auto value = pipeline.values().find(v.name); value != pipeline.values().end()) {
      v.initializer.clear();
      v.digest = digestOf(value->second.bytes);
      letGo(value->second);
    }
}

bool haveDigests(const GraphFacts &facts) {
  return std::any_of(facts.variables.begin(), facts.variables.end(),
                     [](const GraphTensor &v) { return !v.digest.empty(); });
}

void completeAttributes(const Registry &registry, GraphFacts *facts) {
  for (GraphOp &op : facts->ops)
    if (const user_op::OpDef *def = registry.findOp(op.type))
      for (const user_op::AttrDef &attr : def->attrs)
        if (!attr.defaultValue.empty()) op.attrs.emplace(attr.name, attr.defaultValue);
}

bool looksLikeLock(const GraphInput &input) {
  static const std::string kStart = "{\"opc_lock\"";
  return input.bytes.view().substr(0, kStart.size()) == kStart;
}

Result<FactsInput> factsOfLock(const GraphInput &input, std::optional<MeshRequest> *mesh) {
  OPC_ASSIGN_OR_RETURN(Lock lock, readLock(input.bytes.text(), input.name));
  if (lock.version > kLockVersion)
    return Status(StatusCode::kUnsupported, "OPC0120",
                  concat(input.name, ": a lock file of version ", lock.version, ", and this opc reads up to ",
                         kLockVersion))
        .withHelp("use the opc that wrote it, or write it anew: opc check GRAPH --update");
  if (!lock.target.mesh.empty()) {
    const auto dims = parseMesh(lock.target.mesh);
    if (!dims)
      return Status(StatusCode::kInvalidGraph, "OPC0120", input.name + ": the mesh '" + lock.target.mesh + "' is none");
    mesh->emplace().dims = *dims;
  }
  FactsInput result;
  result.name = input.name;
  result.isLock = true;
  result.facts = std::move(lock.facts);
  std::move(lock.constants.begin(), lock.constants.end(), std::back_inserter(result.facts.ops));
  result.detailed = lock.detailed;
  result.hasConstants = lock.sections.count(LockSection::kConstants) > 0;
  const auto has = [&](LockSection section) { return lock.sections.count(section) > 0; };
  ComparisonOptions &known = result.known;
  known.interface = has(LockSection::kInterface);
  known.ops = has(LockSection::kOps);
  known.tensors = known.ops && has(LockSection::kTensors);
  known.grad = has(LockSection::kGrad);
  known.sbp = has(LockSection::kSbp);
  known.boxing = has(LockSection::kBoxing);
  known.tasks = has(LockSection::kTasks);
  known.cost = has(LockSection::kCost);
  return result;
}

void forgetWhatPlansLack(GraphFacts *facts) {
  for (GraphOp &op : facts->ops) {
    op.role = "forward";
    op.device.clear();
    op.after.clear();
  }
  for (GraphTensor &t : facts->variables) {
    t.initializer.clear();
    t.digest.clear();
  }
  facts->gradients.clear();
}

void forgetDigests(GraphFacts *facts) {
  for (GraphTensor &v : facts->variables) v.digest.clear();
}

} // namespace opc::cli
