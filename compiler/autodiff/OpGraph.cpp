// A graph in an op (if, loop) while its gradient is made: a module of its own.
// SPDX-License-Identifier: Apache-2.0
#include "OpGraph.h"
#include "AttrBridge.h"
#include "ControlOp.h"
#include "EmitStatus.h"
#include "FoldOp.h"
#include "Graph.h"
#include "GraphBuilder.h"
#include "Locations.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <cstring>

using namespace mlir;

namespace opc {
namespace {

using user_op::OpConf;

constexpr int64_t kMostKnown = 64; // elements of what is computed to know an integer
constexpr int kMostKnownOps = 32;

std::optional<OpTensor> known(Value v, const Registry &registry, int *budget) {
  user_op::TensorDesc desc;
  if (!v.getDefiningOp() || !ir::describe(v.getType(), &desc)) return std::nullopt;
  if (desc.shape().elem_cnt() > kMostKnown || desc.shape().elem_cnt() < 1) return std::nullopt;
  if (auto constant = v.getDefiningOp<ir::ConstantOp>()) {
    OpTensor tensor(desc);
    const std::string bytes = ir::denseToBytes(cast<DenseElementsAttr>(constant.getValue()));
    std::memcpy(tensor.data(), bytes.data(), std::min(bytes.size(), tensor.bytes()));
    return tensor;
  }
  auto op = v.getDefiningOp<ir::UserOp>();
  if (!op || !op.def() || op.getOuts().size() != 1 || --*budget < 0 || !isMemoryEffectFree(op)) return std::nullopt;
  auto instance = ir::toInstance(op, *op.def());
  if (!instance) return std::nullopt;
  std::vector<OpTensor> inputs;
  for (Value x : op.getArgs()) {
    auto value = known(x, registry, budget);
    if (!value) return std::nullopt;
    inputs.push_back(std::move(*value));
  }
  std::vector<std::string_view> operands;
  for (const OpTensor &t : inputs) operands.emplace_back(t.dptr(), t.bytes());
  auto results = foldOp(registry, *instance, operands);
  return results ? std::optional(std::move(results->front())) : std::nullopt;
}

Value valueOf(ir::InputOp input) { return input.getOut(); }
Value valueOf(Value output) { return output; }

/// What a graph takes or makes against what its op says; "" where they agree.
template <class Ports>
std::string faultOf(const std::vector<Ports> &have, const std::vector<user_op::TensorDesc> &want, const char *what) {
  if (have.size() != want.size())
    return "has " + std::to_string(have.size()) + " " + what + "s, expected " + std::to_string(want.size());
  for (size_t i = 0; i < have.size(); ++i)
    if (const user_op::TensorDesc desc = ir::descOf(valueOf(have[i])); desc != want[i])
      return std::string("has the ") + what + " " + std::to_string(i) + " of type " + desc.toString() + ", expected " +
             want[i].toString();
  return "";
}

} // namespace

std::optional<int64_t> knownInteger(Value v, const Registry &registry) {
  int budget = kMostKnownOps;
  const auto value = known(v, registry, &budget);
  if (!value || value->elements() != 1) return std::nullopt;
  if (value->type() == kBool) return *value->dptr<char>() != 0;
  if (value->type() == kInt64) return *value->dptr<int64_t>();
  return std::nullopt;
}

void joinTwins(OpGraphs *graphs) {
  llvm::SmallDenseSet<Operation *> joined;
  for (const LoopTwin &twin : graphs->twins) {
    if (!joined.insert(twin.loop).second) continue;
    ir::UserOp loop = twin.loop, keeping = twin.keeping;
    for (auto [from, to] : llvm::zip(loop.getOuts(), keeping.getOuts())) from.replaceAllUsesWith(to); // there are more
    keeping->setLoc(loop.getLoc());
    keeping->removeAttr(ir::kGradientOfAttr);
    if (Attribute of = loop->getAttr(ir::kGradientOfAttr)) keeping->setAttr(ir::kGradientOfAttr, of);
  }
  for (Operation *op : joined) op->erase();
  graphs->twins.clear();
}

OpGraph::OpGraph(ir::UserOp op, OwningOpRef<ModuleOp> module, const Registry &registry, const GraphTexts &texts)
    : op_(op), module_(std::move(module)), registry_(&registry), texts_(&texts) {
  for (auto in : graphBlock(*module_).getOps<ir::InputOp>()) inputs_.push_back(in);
  for (Operation &o : llvm::make_early_inc_range(graphBlock(*module_))) {
    auto out = dyn_cast<ir::OutputOp>(&o);
    if (!out) continue;
    outputs_.push_back(out.getIn());
    out.erase();
  }
}

std::optional<OpGraph> OpGraph::read(ir::UserOp op, const std::string &attribute, const Registry &registry,
                                     const GraphTexts &texts) {
  OwningOpRef<ModuleOp> module = texts.read(op, op.attribute<std::string>(attribute, ""));
  if (!module) return std::nullopt;
  OpGraph graph(op, std::move(module), registry, texts);
  const ControlPorts ports = controlPorts(*ir::toInstance(op, *op.def()));
  std::string fault = faultOf(graph.inputs_, ports.inputs, "input");
  if (fault.empty()) fault = faultOf(graph.outputs_, ports.outputs, "output");
  if (fault.empty()) {
    graph.bindKnown();
    return graph;
  }
  emitFinding(op.getLoc(), "OPC0826", "op " + ir::opName(op) + " (" + op.getOpType().str() + "): its graph " + fault,
              "a graph in an op is made for the shapes around it: give shapes where the model is imported");
  return std::nullopt;
}

/// What is constant outside is an input inside: bounds of loops in loops, conditions that are always true.
void OpGraph::bindKnown() {
  size_t first = 0, operand = 1; // of the captures
  if (controlKind(op_.getOpType().str()) == ControlKind::kLoop) {
    const LoopParts parts = loopParts(*ir::toInstance(op_, *op_.def()));
    first = 1 + parts.states + parts.sequences;
    operand = LoopParts::kFirst + parts.states + parts.sequences;
  } else if (controlKind(op_.getOpType().str()) == ControlKind::kParts) {
    first = operand = batchParts(*ir::toInstance(op_, *op_.def())).cut;
  }
  for (size_t j = first; j < inputs_.size() && operand < op_.getArgs().size(); ++j, ++operand) {
    Value outside = op_.getArgs()[static_cast<unsigned>(operand)];
    const auto number = knownInteger(outside, *registry_);
    if (!number || (input(j).use_empty() && !llvm::is_contained(outputs_, input(j)))) continue;
    Value constant = addInteger(ir::descOf(outside), *number);
    if (!constant) continue;
    Operation *made = constant.getDefiningOp();
    made->moveAfter(input_(j));
    for (Value &output : outputs_)
      if (output == input(j)) output = constant;
    input(j).replaceAllUsesWith(constant);
  }
}

size_t OpGraph::addInput(const std::string &name, Type type) {
  GraphBuilder build(*module_, *registry_);
  inputs_.push_back(build.addInput(name, type).getDefiningOp<ir::InputOp>());
  return inputs_.size() - 1;
}

Value OpGraph::add(OpConf conf) {
  GraphBuilder build(*module_, *registry_);
  auto made = build.add(std::move(conf), nullptr);
  if (made) return *made;
  emitStatus(op_, made.status());
  return {};
}

Value OpGraph::addZero(Type type) {
  const user_op::TensorDesc desc = ir::descOf(type);
  OpConf zero{"grad_zero", "constant", {}, {}, {}};
  zero.attrs["dtype"] = AttrValue(desc.data_type());
  zero.attrs["shape"] = AttrValue(desc.shape());
  zero.attrs["floating_value"] = AttrValue(0.0);
  zero.attrs["is_floating_value"] = AttrValue(true);
  return add(std::move(zero));
}

Value OpGraph::addInteger(const user_op::TensorDesc &desc, int64_t value) {
  OpConf one{"grad_constant", "constant", {}, {}, {}};
  one.attrs["dtype"] = AttrValue(desc.data_type());
  one.attrs["shape"] = AttrValue(desc.shape());
  one.attrs["integer_value"] = AttrValue(value);
  one.attrs["is_floating_value"] = AttrValue(false);
  return add(std::move(one));
}

Value OpGraph::addSum(Value a, Value b) {
  return add({"grad_total", "add_n", {{"in", {ir::tensorName(a), ir::tensorName(b)}}}, {}, {}});
}

FailureOr<std::vector<Value>> OpGraph::differentiate(const std::vector<size_t> &seeded,
                                                     const std::vector<size_t> &wanted) {
  SmallVector<Value> losses, seeds;
  for (size_t i : seeded) {
    losses.push_back(outputs_[i]);
    seeds.push_back(input(addInput("dy" + std::to_string(i), outputs_[i].getType())));
  }
  std::vector<WantedGradient> tensors;
  for (size_t i : wanted) tensors.push_back({ir::opName(inputs_[i]), input(i)});
  OpGraphs inner{texts_, {}};
  auto made = generateGradients(*module_, *registry_, losses, tensors, seeds, &inner);
  if (failed(made)) return failure();
  std::vector<Value> gradients;
  for (const GeneratedGradient &g : *made) gradients.push_back(g.gradient);
  joinTwins(&inner);
  outputs_.clear(); // some may be of loops that are gone
  return gradients;
}

void OpGraph::setOutputs(const std::vector<Value> &values) {
  GraphBuilder build(*module_, *registry_);
  for (auto [i, v] : llvm::enumerate(values)) build.addOutput("made" + std::to_string(i), v);
  outputs_.assign(values.begin(), values.end());
  std::vector<Operation *> ops;
  for (Operation &op : graphBlock(*module_))
    if (isa<ir::UserOp, ir::ConstantOp>(&op)) ops.push_back(&op);
  for (Operation *op : llvm::reverse(ops))
    if (op->use_empty()) op->erase();
}

std::string OpGraph::write(const std::vector<size_t> &inputs) {
  Block &block = graphBlock(*module_);
  llvm::SmallDenseSet<Operation *> kept;
  for (size_t i : llvm::reverse(inputs)) {
    inputs_[i]->moveBefore(&block, block.begin());
    kept.insert(inputs_[i]);
  }
  for (ir::InputOp in : inputs_)
    if (!kept.contains(in)) in.erase();
  inputs_.clear();
  return texts_->write(op_, *module_);
}

} // namespace opc
