// The ops of a graph as ONNX nodes, in one operator set.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxOpsExport.h"

#include "OnnxEmitters.h"
#include "OnnxOpNotes.h"
#include "OnnxOwnNodes.h"
#include "PrintableText.h"

#include <algorithm>

namespace opc::onnx_export {

namespace {

user_op::OpConf confOf(const GraphOp &op) {
  user_op::OpConf conf;
  conf.name = op.name;
  conf.type = op.type;
  conf.attrs = op.attrs;
  const auto bind = [](std::vector<user_op::ArgBinding> *args, const GraphSlot &slot, const std::string &tensor) {
    const auto it = std::find_if(args->begin(), args->end(), [&](const auto &a) { return a.name == slot.argument; });
    (it == args->end() ? args->emplace_back(user_op::ArgBinding{slot.argument, {}}) : *it).tensors.push_back(tensor);
  };
  for (const auto &[slot, tensor] : op.inputs) bind(&conf.inputs, slot, tensor);
  for (const GraphTensor &t : op.outputs) bind(&conf.outputs, t.slot, t.tensor);
  return conf;
}

/// The instance that the op is among these wires; nothing, with the reason, where there is none.
std::string fillDescs(const std::map<std::string, Wire> &wires, OpInstance *instance) {
  for (size_t k = 0; k < instance->inputArgs().size(); ++k) {
    const auto &[arg, index] = instance->inputArgs()[k];
    const auto wire = wires.find(instance->wrapper().input(arg, index));
    if (wire == wires.end()) return "its input " + arg + " is a tensor that nothing makes";
    instance->inputDescs()[k] = user_op::TensorDesc(wire->second.shape, wire->second.type);
  }
  for (size_t k = 0; k < instance->outputArgs().size(); ++k) {
    const auto &[arg, index] = instance->outputArgs()[k];
    const Wire &wire = wires.at(instance->wrapper().output(arg, index));
    instance->outputDescs()[k] = user_op::TensorDesc(wire.shape, wire.type);
  }
  return "";
}

/// With the names that the tensors have in the model.
user_op::OpConf renamed(user_op::OpConf conf, const std::map<std::string, Wire> &wires) {
  for (auto *args : {&conf.inputs, &conf.outputs})
    for (user_op::ArgBinding &b : *args)
      for (std::string &tensor : b.tensors) tensor = wires.at(tensor).name;
  return conf;
}

} // namespace

void OpsExport::refuse(const GraphOp &op, const std::string &reason) {
  std::string name;
  for (const GraphOp *outer : around_) name += outer->name + ": ";
  refused_.push_back({name + op.name, op.type, reason, around_.empty() ? op.range : around_[0]->range});
}

void OpsExport::writeProduct(const GraphOp &op, const BlockProduct &p, Nodes &nodes,
                             std::map<std::string, Wire> *wires) {
  onnx::Node *node = nodes.graph().add_node();
  node->set_name(printableName(op.name));
  node->set_op_type("MatMulNBits");
  node->set_domain(kContributed);
  for (const std::string &tensor : {p.data, p.steps, p.scales}) node->add_input(wires->at(tensor).name);
  node->add_output(wires->at(op.outputs.at(0).tensor).name);
  const std::pair<const char *, int64_t> attributes[] = {
      {"K", p.terms}, {"N", p.columns}, {"bits", 4}, {"block_size", p.block}};
  for (const auto &[name, value] : attributes) {
    onnx::Attribute *a = node->add_attribute();
    a->set_name(name);
    a->set_type(onnx::Attribute::INT);
    a->set_i(value);
  }
}

/// The operator set that has an element type.
static int64_t opsetOf(DataType type) {
  switch (type) {
  case kFloat8E4M3FN:
  case kFloat8E5M2:
  case kFloat8E4M3FNUZ:
  case kFloat8E5M2FNUZ: return 19;
  case kInt4:
  case kUInt4: return 21;
  case kFloat4E2M1: return 23;
  case kFloat8E8M0: return 24;
  case kInt2:
  case kUInt2: return 25;
  default: return 0;
  }
}

/// True where it is a node that opc alone runs.
static bool emit(const Emitter *emitter, Emission &e) {
  if (emitter) {
    e.types = emitter->types;
    emitter->emit(e);
    return false;
  }
  const scalar::ScalarProgram *function = e.instance.def().scalar.get();
  if (function && missingFunction(*function).empty()) {
    e.types = Types::kWide;
    try {
      emitExpression(e);
      return false;
    } catch (const NoForm &) { // of these element types
      e.startAgain();
    }
  }
  e.types = Types::kOwn;
  emitOwnNode(e);
  return true;
}

void OpsExport::write(const GraphOp &op, Nodes &nodes, std::map<std::string, Wire> *wires,
                      std::map<std::string, std::string> *next) {
  const auto blocks = request_.blockProducts.find(op.name);
  if (blocks != request_.blockProducts.end() && around_.empty()) return writeProduct(op, blocks->second, nodes, wires);
  const user_op::OpDef *def = registry_.findOp(op.type);
  if (!def) return refuse(op, "its definition is not known");
  const Emitter *emitter = EmitterTable::get().find(def->name);
  user_op::OpConf conf = confOf(op);
  if (const Status s = completeOpConf(*def, &conf); !s.isOk()) return refuse(op, s.message());
  OpInstance instance(*def, conf);
  if (const std::string fault = fillDescs(*wires, &instance); !fault.empty()) return refuse(op, fault);
  try {
    Emission e(nodes, op, instance, *wires, *next, opset_, *this);
    for (const auto *descs : {&instance.inputDescs(), &instance.outputDescs()})
      for (const user_op::TensorDesc &d : *descs)
        e.need(opsetOf(d.data_type()), std::string("the type ") + dataTypeName(d.data_type()));
    const size_t written = next->size();
    const bool isOwn = emit(emitter, e);
    const std::vector<onnx::Node *> made = e.finish();
    if (isOwn) ++ownNodes_[def->name];
    // What a step writes is no result of an op.
    const size_t least = emitter && emitter->isAnotherAlone ? 1 : 2;
    if (made.size() >= least && next->size() == written && !(emitter && emitter->nodesSayMore))
      setOpNote({renamed(std::move(conf), *wires), made.size()}, made[0]);
  } catch (const NoForm &n) {
    refuse(op, n.reason);
  } catch (const NeedsOpset &n) {
    needed_ = std::max(needed_, n.version);
    if (request_.opset || n.version > kNewestExport)
      refuse(op, n.what + " is of operator set " + std::to_string(n.version));
  } catch (const ContractError &error) {
    refuse(op, error.what());
  }
}

std::vector<Wire> OpsExport::write(const GraphOp &op, const std::string &text, const std::vector<Wire> &inputs,
                                   Nodes &nodes) {
  const auto graph = request_.graphs.find(text);
  if (graph == request_.graphs.end()) throw NoForm{"its graphs are not known"};
  const GraphFacts &facts = graph->second.facts;
  if (facts.inputs.size() != inputs.size())
    throw NoForm{"its graph has " + std::to_string(facts.inputs.size()) + " inputs, and the op gives " +
                 std::to_string(inputs.size())};
  if (!facts.variables.empty()) throw NoForm{"its graph has the variable " + facts.variables[0].name};
  std::map<std::string, Wire> wires;
  std::map<std::string, std::string> next; // nothing: it has no variables
  for (size_t k = 0; k < inputs.size(); ++k) wires.try_emplace(facts.inputs[k].tensor, inputs[k]);
  for (const auto &[tensor, value] : graph->second.constants)
    wires.try_emplace(tensor, nodes.constant(value.desc.data_type(), value.desc.shape(), std::string(value.bytes)));
  for (const GraphOp &inner : facts.ops)
    for (const GraphTensor &t : inner.outputs)
      wires.try_emplace(t.tensor, Wire{nodes.fresh(op.name + "/" + t.tensor), t.dtype, t.shape});
  around_.push_back(&op);
  for (const GraphOp &inner : facts.ops) write(inner, nodes, &wires, &next);
  around_.pop_back();
  std::vector<Wire> made;
  for (const GraphTensor &t : facts.outputs) made.push_back(wires.at(t.tensor));
  return made;
}

} // namespace opc::onnx_export
