// Adds ops to the end of a graph by configuration: completes, names, checks, infers.
// SPDX-License-Identifier: Apache-2.0
#include "GraphBuilder.h"
#include "AttrBridge.h"
#include "Graph.h"
#include "Locations.h"
#include "UserOpBuilder.h"

using namespace mlir;

namespace opc {

user_op::ArgBinding bindTensor(const std::string &arg, const std::string &tensor) { return {arg, {tensor}}; }

GraphBuilder::GraphBuilder(ModuleOp module, const Registry &registry)
    : module_(module), registry_(registry), builder_(module.getContext()) {
  refresh();
}

void GraphBuilder::refresh() {
  Block &block = graphBlock(module_);
  builder_.setInsertionPoint(block.getTerminator());
  for (Operation &op : block)
    if (!op.hasTrait<OpTrait::IsTerminator>()) {
      names_.insert(ir::opName(&op));
      know(&op);
    }
}

Location GraphBuilder::named(const std::string &name) const {
  return ir::renamed(UnknownLoc::get(module_.getContext()), name);
}

void GraphBuilder::know(Operation *op) {
  for (Value v : op->getResults()) tensors_[ir::tensorName(v)] = v;
}

std::string GraphBuilder::uniqueName(const std::string &name) {
  std::string candidate = name;
  for (int n = 2; !names_.insert(candidate).second; ++n) candidate = name + "_" + std::to_string(n);
  return candidate;
}

Value GraphBuilder::findTensor(const std::string &tensor) const {
  auto it = tensors_.find(tensor);
  return it == tensors_.end() ? Value() : it->second;
}

std::string GraphBuilder::nameOf(Value v) const { return ir::tensorName(v); }

Status GraphBuilder::addOp(user_op::OpConf *conf, Operation *origin, ir::UserOp *made) {
  const user_op::OpDef *def = registry_.findOp(conf->type);
  if (!def)
    return Status(StatusCode::kInvalidGraph, "OPC0201", "unknown op type '" + conf->type + "'")
        .withHelp("a gradient rule may only use registered ops");
  conf->name = uniqueName(conf->name);
  // Output tensors carry the op's name, which may just have changed; completion names them anew.
  for (user_op::ArgBinding &b : conf->outputs)
    for (size_t i = 0; i < b.tensors.size(); ++i) b.tensors[i] = conf->name + "/" + b.name + "_" + std::to_string(i);
  OPC_RETURN_IF_ERROR(completeOpConf(*def, conf));

  SmallVector<Value> operands;
  for (const auto &b : conf->inputs)
    for (const std::string &t : b.tensors) {
      operands.push_back(findTensor(t));
      if (!operands.back())
        return Status(StatusCode::kInvalidGraph, "OPC0107",
                      "op " + conf->name + " (" + conf->type + "): no op makes the tensor '" + t + "'");
    }
  OpInstance instance(*def, *conf);
  if (instance.inputDescs().size() != operands.size())
    return Status(StatusCode::kInternal, "OPC0901", def->name + ": operands and definition disagree");
  for (auto [i, v] : llvm::enumerate(operands)) instance.inputDescs()[i] = ir::descOf(v);
  if (Status s = instance.infer(); !s.isOk()) {
    std::string operandsText;
    for (auto [i, v] : llvm::enumerate(operands))
      operandsText += (i ? ", " : "") + ir::tensorName(v) + " " + instance.inputDescs()[i].toString();
    return Status(s.code(), s.id(),
                  "op " + conf->name + " (" + conf->type + ") on " + operandsText + ": " + s.message())
        .withHelp(s.help());
  }
  SmallVector<Type> types;
  for (const user_op::TensorDesc &d : instance.outputDescs()) types.push_back(ir::tensorType(module_.getContext(), d));
  ir::UserOp op = ir::UserOpBuilder(builder_, *conf, operands, types)
                      .role(role)
                      .make(origin ? ir::renamed(origin->getLoc(), conf->name) : named(conf->name));
  if (role == ir::Role::kBackward && isa_and_nonnull<ir::UserOp>(origin))
    if (const std::string name = ir::opName(origin); !name.empty())
      op->setAttr(ir::kGradientOfAttr, builder_.getStringAttr(name));
  know(op);
  if (made) *made = op;
  return Status::ok();
}

Result<Value> GraphBuilder::add(user_op::OpConf conf, Operation *origin) {
  ir::UserOp op;
  OPC_RETURN_IF_ERROR(addOp(&conf, origin, &op));
  return Value(op.getOuts()[0]);
}

Value GraphBuilder::addVariable(const std::string &name, const user_op::TensorDesc &desc,
                                ir::InitializerAttr initializer) {
  const std::string unique = uniqueName(name);
  auto op = ir::VariableOp::create(builder_, named(unique), ir::tensorType(module_.getContext(), desc), unique,
                                   /*trainable=*/false, initializer, IntegerAttr());
  know(op);
  return op.getOut();
}

Value GraphBuilder::addInput(const std::string &name, Type type) {
  const std::string unique = uniqueName(name);
  auto op = ir::InputOp::create(builder_, named(unique), type, unique);
  know(op);
  return op.getOut();
}

std::string GraphBuilder::addOutput(const std::string &name, Value v) {
  const std::string unique = uniqueName(name);
  ir::OutputOp::create(builder_, named(unique), v, unique);
  return unique;
}

} // namespace opc
