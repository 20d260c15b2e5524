// Adds ops to the end of a graph by configuration: completes, names, checks, infers.
// SPDX-License-Identifier: Apache-2.0
#include "GraphBuilder.h"
#include "AttrBridge.h"
#include "Graph.h"
#include "Locations.h"
#include "UserOpBuilder.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace opc {
namespace {

// Of an OperatorConf in protobuf's text form.
constexpr StringRef kTag = "pass_tag: \"gradient_of:";
constexpr unsigned kOctal = 3; // digits of an escaped byte

std::string escaped(StringRef name) {
  std::string text;
  for (const char c : name) {
    if (llvm::isPrint(c) && c != '"' && c != '\\') {
      text += c;
      continue;
    }
    text += '\\';
    for (unsigned digit = kOctal; digit-- > 0;)
      text += static_cast<char>('0' + (static_cast<unsigned char>(c) >> (3 * digit) & 7U));
  }
  return text;
}

/// Up to the quotation mark that ends it.
std::string unescaped(StringRef text) {
  std::string name;
  while (!text.empty() && text[0] != '"') {
    if (unsigned byte = 0; text.consume_front("\\")) {
      const size_t digits = std::min<size_t>(text.find_first_not_of("01234567"), kOctal);
      if (!text.take_front(digits).getAsInteger(8, byte)) {
        name += static_cast<char>(byte);
        text = text.drop_front(digits);
        continue;
      }
      static constexpr StringRef kLetters = "ntr", kMeant = "\n\t\r";
      const size_t letter = text.empty() ? StringRef::npos : kLetters.find(text[0]);
      name += letter == StringRef::npos ? text.take_front(1) : kMeant.substr(letter, 1);
    } else {
      name += text[0];
    }
    text = text.drop_front(1);
  }
  return name;
}

/// The place of an op that is made for another one, which a backward op names.
Location placeFor(Operation *origin, const std::string &name, ir::Role role) {
  const Location place = ir::renamed(origin->getLoc(), name);
  if (role != ir::Role::kBackward || !isa<ir::UserOp>(origin)) return place;
  ir::OpLocation parts = ir::readLocation(place);
  parts.conf = (kTag + escaped(ir::opName(origin)) + "\"").str();
  return ir::makeLocation(origin->getContext(), parts);
}

} // namespace

std::string gradientOrigin(Operation *op) {
  const std::string conf = ir::readLocation(op->getLoc()).conf;
  const size_t at = StringRef(conf).find(kTag);
  return at == StringRef::npos ? "" : unescaped(StringRef(conf).drop_front(at + kTag.size()));
}

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
                      .make(origin ? placeFor(origin, conf->name, role) : named(conf->name));
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
