// Adds ops to the end of a graph by configuration: completes, names, checks, infers.
// SPDX-License-Identifier: Apache-2.0
#include "BackwardBuilder.h"
#include "AttrBridge.h"
#include "Locations.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace opc {

user_op::ArgBinding bindTensor(const std::string &arg, const std::string &tensor) { return {arg, {tensor}}; }

BackwardBuilder::BackwardBuilder(ModuleOp module, const Registry &registry)
    : module_(module), registry_(registry), builder_(module.getContext()) {
  refresh();
}

void BackwardBuilder::refresh() {
  Block &block = (*module_.getOps<func::FuncOp>().begin()).getBody().front();
  builder_.setInsertionPoint(block.getTerminator());
  for (Operation &op : block)
    if (!op.hasTrait<OpTrait::IsTerminator>()) {
      names_.insert(ir::opName(&op));
      know(&op);
    }
}

void BackwardBuilder::know(Operation *op) {
  for (Value v : op->getResults()) tensors_[ir::tensorName(v)] = v;
}

std::string BackwardBuilder::uniqueName(const std::string &name) {
  std::string candidate = name;
  for (int n = 2; !names_.insert(candidate).second; ++n) candidate = name + "_" + std::to_string(n);
  return candidate;
}

Value BackwardBuilder::findTensor(const std::string &tensor) const {
  auto it = tensors_.find(tensor);
  return it == tensors_.end() ? Value() : it->second;
}

std::string BackwardBuilder::nameOf(Value v) const { return ir::tensorName(v); }

Location BackwardBuilder::location(const std::string &name, Operation *origin) const {
  ir::OpLocation l;
  if (origin) l = ir::readLocation(origin->getLoc());
  l.name = name;
  l.tensors.clear();
  l.conf = operatorConf;
  return ir::makeLocation(module_.getContext(), l);
}

Status BackwardBuilder::addOp(user_op::OpConf *conf, Operation *origin, ir::UserOp *made) {
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
  SmallVector<Attribute> inNames, outNames;
  SmallVector<int32_t> inSizes, outSizes;
  SmallVector<NamedAttribute> attrs;
  size_t results = 0;
  for (const auto &b : conf->inputs) {
    inNames.push_back(builder_.getStringAttr(b.name));
    inSizes.push_back(static_cast<int32_t>(b.tensors.size()));
    for (const std::string &t : b.tensors) {
      Value v = findTensor(t);
      if (!v)
        return Status(StatusCode::kInvalidGraph, "OPC0107",
                      "op " + conf->name + " (" + conf->type + "): no op makes the tensor '" + t + "'");
      operands.push_back(v);
    }
  }
  for (const auto &b : conf->outputs) {
    outNames.push_back(builder_.getStringAttr(b.name));
    outSizes.push_back(static_cast<int32_t>(b.tensors.size()));
    results += b.tensors.size();
  }
  OpInstance instance(*def, *conf);
  if (instance.inputDescs().size() != operands.size())
    return Status(StatusCode::kInternal, "OPC0901", def->name + ": operands and definition disagree");
  for (auto [i, v] : llvm::enumerate(operands)) ir::describe(v.getType(), &instance.inputDescs()[i]);
  if (Status s = instance.infer(); !s.isOk()) {
    std::string operandsText;
    for (auto [i, v] : llvm::enumerate(operands))
      operandsText += (i ? ", " : "") + ir::tensorName(v) + " " + instance.inputDescs()[i].toString();
    return Status(s.code(), s.id(),
                  "op " + conf->name + " (" + conf->type + ") on " + operandsText + ": " + s.message())
        .withHelp(s.help());
  }
  for (const auto &[name, value] : conf->attrs)
    attrs.push_back(builder_.getNamedAttr(name, ir::toMlir(module_.getContext(), value)));
  SmallVector<Type> types;
  for (size_t i = 0; i < results; ++i) types.push_back(ir::tensorType(module_.getContext(), instance.outputDescs()[i]));
  auto op = ir::UserOp::create(builder_, location(conf->name, origin), types, operands, conf->type,
                               builder_.getArrayAttr(inNames), builder_.getDenseI32ArrayAttr(inSizes),
                               builder_.getArrayAttr(outNames), builder_.getDenseI32ArrayAttr(outSizes),
                               builder_.getDictionaryAttr(attrs));
  know(op);
  if (made) *made = op;
  return Status::ok();
}

Result<Value> BackwardBuilder::add(user_op::OpConf conf, Operation *origin) {
  ir::UserOp op;
  OPC_RETURN_IF_ERROR(addOp(&conf, origin, &op));
  return Value(op.getOuts()[0]);
}

Value BackwardBuilder::addVariable(const std::string &name, const user_op::TensorDesc &desc, const std::string &conf) {
  const std::string unique = uniqueName(name);
  ir::OpLocation l;
  l.name = unique;
  auto op = ir::VariableOp::create(builder_, ir::makeLocation(module_.getContext(), l),
                                   ir::tensorType(module_.getContext(), desc), unique, conf);
  know(op);
  return op.getOut();
}

Value BackwardBuilder::addInput(const std::string &name, Type type) {
  const std::string unique = uniqueName(name);
  ir::OpLocation l;
  l.name = unique;
  auto op = ir::InputOp::create(builder_, ir::makeLocation(module_.getContext(), l), type, unique, "");
  know(op);
  return op.getOut();
}

std::string BackwardBuilder::addOutput(const std::string &name, Value v) {
  const std::string unique = uniqueName(name);
  ir::OpLocation l;
  l.name = unique;
  ir::OutputOp::create(builder_, ir::makeLocation(module_.getContext(), l), v, unique, "");
  return unique;
}

} // namespace opc
