// The scalar functions of a region's steps, on vectors.
// SPDX-License-Identifier: Apache-2.0
#include "RegionSteps.h"
#include "BuiltIn.h"
#include "RowLoops.h"

#include "opc/Scalar.h"

#include "llvm/IR/Constants.h"

#include <cmath>

namespace opc::codegen {
namespace {

using scalar::ScalarOp;

/// How elements of a type are kept, and what is computed with: short floats in f32, bool in u8, as in the kernels.
struct ElementKind {
  unsigned bits = 0;         // in memory
  const char *name = "";     // what is computed with, in the names of functions
  const char *castName = ""; // in those of conversions
  bool isFloat = false;      // computes in f32 or f64
};
std::optional<ElementKind> kindOf(DataType type) {
  const ElementType &element = elementType(type);
  const auto bits = static_cast<unsigned>(element.bits);
  const char *computed = bits == 64 ? "f64" : "f32"; // of floats
  switch (element.kind) {
  case ElementClass::kFloating: return ElementKind{bits, computed, computed, true};
  case ElementClass::kInteger: return ElementKind{bits, element.name, element.name, false};
  case ElementClass::kBool: return ElementKind{bits, "u8", element.name, false};
  default: return std::nullopt;
  }
}
bool isHalf(DataType type) { return type == kFloat16 || type == kBFloat16; }

std::string leafName(ScalarOp op) {
  switch (op) {
  case ScalarOp::kAdd: return "add";
  case ScalarOp::kSub: return "subtract";
  case ScalarOp::kMul: return "multiply";
  case ScalarOp::kDiv: return "divide";
  case ScalarOp::kNegate: return "negate";
  case ScalarOp::kLess: return "less";
  case ScalarOp::kLessEqual: return "lessEqual";
  case ScalarOp::kGreater: return "greater";
  case ScalarOp::kGreaterEqual: return "greaterEqual";
  case ScalarOp::kEqual: return "equal";
  case ScalarOp::kNotEqual: return "notEqual";
  case ScalarOp::kSelect: return "select";
  default: return scalar::scalarOpName(op);
  }
}

/// A number in the type that is computed in.
llvm::Constant *constantOf(llvm::LLVMContext &context, const scalar::ScalarValue &v, DataType type) {
  auto integer = [&](unsigned bits, uint64_t value) {
    return llvm::ConstantInt::get(llvm::Type::getIntNTy(context, bits), value);
  };
  switch (type) {
  case kDouble: return llvm::ConstantFP::get(context, llvm::APFloat(v.as<double>()));
  case kInt8: return integer(8, static_cast<uint8_t>(v.as<int8_t>()));
  case kUInt8:
  case kBool: return integer(8, v.as<uint8_t>());
  case kInt16: return integer(16, static_cast<uint16_t>(v.as<int16_t>()));
  case kUInt16: return integer(16, v.as<uint16_t>());
  case kInt32: return integer(32, static_cast<uint32_t>(v.as<int32_t>()));
  case kUInt32: return integer(32, v.as<uint32_t>());
  case kInt64: return integer(64, static_cast<uint64_t>(v.as<int64_t>()));
  case kUInt64: return integer(64, v.as<uint64_t>());
  default: return llvm::ConstantFP::get(context, llvm::APFloat(v.as<float>()));
  }
}
/// A constant of an expression, as Number's constructor converts it: whole numbers of integers wrap around.
llvm::Constant *constantOf(llvm::LLVMContext &context, double value, DataType type) {
  const bool isWhole = value == std::trunc(value) && std::abs(value) < 0x1p62;
  if (isWhole && !kindOf(type)->isFloat)
    return constantOf(context, scalar::ScalarValue(static_cast<int64_t>(value)), type);
  return constantOf(context, scalar::ScalarValue(value), type);
}

std::string typeReason(DataType type) { return std::string("no code for elements of ") + dataTypeName(type); }

} // namespace

RegionSteps::RegionSteps(const Region &region, LeafLibrary &leaves, llvm::Module &module, VectorKind vectors)
    : entry(module.getContext()), body(module.getContext()), r_(region), leaves_(leaves), module_(module),
      context_(module.getContext()), vectors_(vectors), lanes_(vectors.lanes) {}

bool RegionSteps::refuse(const std::string &reason) {
  reason_ = reason;
  return false;
}
llvm::Type *RegionSteps::bitsOf(DataType type) { return body.getIntNTy(kindOf(type)->bits); }
llvm::Type *RegionSteps::storedType(DataType type) {
  return type == kFloat ? body.getFloatTy() : type == kDouble ? body.getDoubleTy() : bitsOf(type);
}
bool RegionSteps::mayRead(DataType type) { return kindOf(type) || refuse(typeReason(type)); }

bool RegionSteps::steps() {
  for (const RegionStep &step : r_.steps) {
    Value made;
    Values args;
    for (uint32_t v : step.args) args.push_back(values_[v]);
    if (!this->step(step, args, &made)) return false;
    values_.push_back(made);
  }
  return true;
}

bool RegionSteps::step(const RegionStep &step, const Values &args, Value *made) {
  for (const user_op::TensorDesc &d : step.op.inputDescs())
    if (!kindOf(d.data_type())) return refuse(typeReason(d.data_type()));
  const DataType out = step.op.outputDescs()[0].data_type();
  if (!kindOf(out)) return refuse(typeReason(out));
  const std::string &type = step.op.def().name;
  const bool isBuiltIn = opc::isBuiltIn(step.kernel->origin);
  if (isBuiltIn && type == "cast") return convert(step.op, args[0], made);
  if (isBuiltIn && type == "where") return choose(step.op.inputDescs()[0].data_type(), args[0], args[1], args[2], made);
  if (isBuiltIn && type == "masked_fill") return fill(step, args, made);
  if (isBuiltIn && type == "dropout_grad") return keep(step.op, args, made);
  if (isBuiltIn && type == "bias_add") {
    const DataType in = step.op.inputDescs()[0].data_type();
    return call("add_" + std::string(kindOf(in)->name), {widen(in, args[0]), widen(in, args[1])}, made) &&
           narrow(in, made);
  }
  if (isBuiltIn && type == "bitwise_not" && out == kBool) { // its expression is that of integers
    const Value isSet = isNonZero(args[0]);
    *made = asByte({builder(isSet.isUniform).CreateNot(isSet.v), isSet.isUniform});
    return true;
  }
  if (!step.op.def().scalar) return refuse(type + " has no expression");
  return expression(step.op, args, made);
}

// ---- Between how elements are kept and what is computed with.

RegionSteps::Value RegionSteps::widen(DataType type, Value x) {
  if (!isHalf(type)) return x;
  llvm::IRBuilderBase &b = builder(x.isUniform);
  if (type == kFloat16)
    return {b.CreateFPExt(b.CreateBitCast(x.v, vectorOf(b.getHalfTy())), vectorOf(b.getFloatTy())), x.isUniform};
  Value made;
  call("widen_bf16", {x}, &made);
  return made;
}
bool RegionSteps::narrow(DataType type, Value *x) {
  if (!isHalf(type)) return true;
  llvm::IRBuilderBase &b = builder(x->isUniform);
  if (type == kBFloat16) return call("narrow_bf16", {*x}, x);
  x->v = b.CreateBitCast(b.CreateFPTrunc(x->v, vectorOf(b.getHalfTy())), vectorOf(b.getInt16Ty()));
  return true;
}
RegionSteps::Value RegionSteps::isNonZero(Value x) {
  llvm::IRBuilderBase &b = builder(x.isUniform);
  return {b.CreateICmpNE(x.v, llvm::Constant::getNullValue(x.v->getType())), x.isUniform};
}
RegionSteps::Value RegionSteps::asByte(Value mask) {
  llvm::IRBuilderBase &b = builder(mask.isUniform);
  return {b.CreateZExt(mask.v, vectorOf(b.getInt8Ty())), mask.isUniform};
}

// ---- Functions.

/// One function; with the same operands it is computed once.
bool RegionSteps::call(const std::string &name, const Values &args, Value *made) {
  const llvm::Function *leaf = leaves_.find(name);
  if (!leaf || leaf->arg_size() != args.size()) return refuse("no code for " + name);
  std::vector<llvm::Value *> numbers;
  bool isUniform = true;
  for (const Value &a : args) {
    if (!a.v || a.v->getType() != vectorOf(leaf->getArg(numbers.size())->getType()))
      return refuse("no code for " + name + " of these types");
    numbers.push_back(a.v);
    isUniform &= a.isUniform;
  }
  auto [it, isNew] = known_.emplace(std::pair(leaf, numbers), nullptr);
  if (isNew) it->second = leaves_.emit(builder(isUniform), *leaf, numbers, vectors_);
  *made = {it->second, isUniform};
  return made->v || refuse("no code for " + name);
}

bool RegionSteps::choose(DataType conditionType, Value condition, Value a, Value b, Value *made) {
  if (kindOf(conditionType)->isFloat) return refuse("a condition of floats");
  condition = isNonZero(condition);
  const bool isUniform = condition.isUniform && a.isUniform && b.isUniform;
  *made = {builder(isUniform).CreateSelect(condition.v, a.v, b.v), isUniform};
  return true;
}

/// The number of masked_fill: what its own loop writes.
bool RegionSteps::fill(const RegionStep &step, const Values &args, Value *made) {
  auto loop = rowLoopOf(step.op, *step.kernel);
  if (!loop || !*loop) return refuse("masked_fill has no loop");
  const uint64_t x = 0, mask = ~uint64_t{0};
  uint64_t bits = 0;
  const void *const in[] = {&x, &mask};
  (*loop)->Run(in, 0, &bits, 1);
  const DataType type = step.op.outputDescs()[0].data_type();
  llvm::Value *number = llvm::ConstantInt::get(bitsOf(type), bits);
  number = entry.CreateBitCast(number, storedType(type));
  return choose(step.op.inputDescs()[1].data_type(), args[1], {entry.CreateVectorSplat(lanes_, number), true}, args[0],
                made);
}

/// dropout_grad: the scaled number where the mask holds, and 0.
bool RegionSteps::keep(const OpInstance &op, const Values &args, Value *made) {
  const DataType type = op.outputDescs()[0].data_type();
  Value scaled = attribute(scalar::ScalarValue(op.wrapper().attr<float>("scale")), type);
  if (!call("multiply_" + std::string(kindOf(type)->name), {widen(type, args[0]), scaled}, &scaled)) return false;
  const Value zero = {llvm::Constant::getNullValue(scaled.v->getType()), true};
  return choose(kBool, args[1], scaled, zero, made) && narrow(type, made);
}

/// Casts, as in ConvertElements.cpp. Between half types and others by way of f32.
bool RegionSteps::convert(const OpInstance &op, Value x, Value *made) {
  const DataType from = op.inputDescs()[0].data_type(), to = op.outputDescs()[0].data_type();
  *made = x;
  if (from == to) return true;
  const std::string source = kindOf(from)->castName;
  x = widen(from, x);
  if (isHalf(to)) {
    if (source == "bool") {
      if (!call("cast_bool_f32", {isNonZero(x)}, &x)) return false;
    } else if (source != "f32" && !call("beforeHalf_" + source, {x}, &x)) {
      return false;
    }
    *made = x;
    return narrow(to, made);
  }
  if (source == "bool") x = isNonZero(x);
  if (source == kindOf(to)->castName)
    *made = x;
  else if (!call("cast_" + source + "_" + kindOf(to)->castName, {x}, made))
    return false;
  if (to == kBool) *made = asByte(*made);
  return true;
}

// ---- Expressions.

bool RegionSteps::expression(const OpInstance &op, const Values &args, Value *made) {
  const scalar::ScalarProgram &program = *op.def().scalar;
  const DataType type = op.inputDescs()[0].data_type(), out = op.outputDescs()[0].data_type();
  Values parameters;
  for (size_t k = 0; k < args.size(); ++k) {
    if (op.inputDescs()[k].data_type() != type) return refuse(op.def().name + " has inputs of several types");
    parameters.push_back(widen(type, args[k]));
  }
  if (program.attributes)
    for (const scalar::ScalarValue &v : program.attributes(op.wrapper(), type))
      parameters.push_back(attribute(v, type));
  std::vector<Value> nodes;
  for (const scalar::ScalarProgram::Node &n : program.nodes()) {
    Value v;
    if (!node(n, nodes, parameters, type, &v)) return false;
    nodes.push_back(v);
  }
  *made = nodes.back();
  const bool isMask = made->v->getType()->getScalarType()->isIntegerTy(1);
  if (out == kBool && type != kBool)
    *made = asByte(isMask ? *made : isNonZero(*made));
  else if (isMask)
    *made = asNumber(*made, type);
  return out == kBool || narrow(out, made);
}
/// A truth value as 0 or 1 of the type that is computed in.
RegionSteps::Value RegionSteps::asNumber(Value mask, DataType type) {
  llvm::IRBuilderBase &b = builder(mask.isUniform);
  if (!kindOf(type)->isFloat) return {b.CreateZExt(mask.v, vectorOf(bitsOf(type))), mask.isUniform};
  llvm::Type *computed = type == kDouble ? b.getDoubleTy() : b.getFloatTy();
  return {b.CreateUIToFP(mask.v, vectorOf(computed)), mask.isUniform};
}

/// In memory, so that nothing is computed from it when this is compiled: the processor's NaN has another sign.
RegionSteps::Value RegionSteps::attribute(const scalar::ScalarValue &v, DataType type) {
  llvm::Constant *c = constantOf(context_, v, type);
  auto *global = new llvm::GlobalVariable(module_, c->getType(), false, llvm::GlobalValue::InternalLinkage, c);
  return {entry.CreateVectorSplat(lanes_, entry.CreateLoad(c->getType(), global)), true};
}

bool RegionSteps::node(const scalar::ScalarProgram::Node &n, const std::vector<Value> &nodes, const Values &parameters,
                       DataType type, Value *made) {
  if (n.op == ScalarOp::kConstant) {
    *made = {llvm::ConstantVector::getSplat(llvm::ElementCount::getFixed(lanes_), constantOf(context_, n.value, type)),
             true};
    return true;
  }
  if (n.op == ScalarOp::kParameter) {
    if (static_cast<size_t>(n.parameter) >= parameters.size()) return refuse("a parameter that is not there");
    *made = parameters[static_cast<size_t>(n.parameter)];
    return true;
  }
  Values args;
  bool isUniform = true;
  for (int k = 0; k < scalar::scalarOpArity(n.op); ++k) {
    args.push_back(nodes[static_cast<size_t>(n.args[k])]);
    isUniform &= args.back().isUniform;
  }
  llvm::IRBuilderBase &b = builder(isUniform);
  switch (n.op) {
  case ScalarOp::kAnd: *made = {b.CreateAnd(args[0].v, args[1].v), isUniform}; return true;
  case ScalarOp::kOr: *made = {b.CreateOr(args[0].v, args[1].v), isUniform}; return true;
  case ScalarOp::kXor: *made = {b.CreateXor(args[0].v, args[1].v), isUniform}; return true;
  case ScalarOp::kNot: *made = {b.CreateNot(args[0].v), isUniform}; return true;
  default: return call(leafName(n.op) + "_" + kindOf(type)->name, args, made);
  }
}

} // namespace opc::codegen
