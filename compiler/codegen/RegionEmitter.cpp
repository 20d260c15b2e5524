// One loop over vectors: loads, the steps' scalar functions, stores.
// SPDX-License-Identifier: Apache-2.0
#include "RegionEmitter.h"
#include "RowLoops.h"

#include "opc/Scalar.h"

#include "llvm/IR/Constants.h"
#include "llvm/IR/NoFolder.h"

#include <cmath>
#include <map>

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
  switch (type) {
  case kFloat: return ElementKind{32, "f32", "f32", true};
  case kDouble: return ElementKind{64, "f64", "f64", true};
  case kFloat16:
  case kBFloat16: return ElementKind{16, "f32", "f32", true};
  case kInt8: return ElementKind{8, "i8", "i8", false};
  case kUInt8: return ElementKind{8, "u8", "u8", false};
  case kBool: return ElementKind{8, "u8", "bool", false};
  case kInt32: return ElementKind{32, "i32", "i32", false};
  case kInt64: return ElementKind{64, "i64", "i64", false};
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
  case kInt32: return integer(32, static_cast<uint32_t>(v.as<int32_t>()));
  case kInt64: return integer(64, static_cast<uint64_t>(v.as<int64_t>()));
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

class RegionEmitter {
public:
  RegionEmitter(const Region &region, LeafLibrary &leaves, llvm::LLVMContext &context, unsigned lanes)
      : r_(region), leaves_(leaves), context_(context), lanes_(lanes), entry_(context), body_(context) {}

  std::unique_ptr<llvm::Module> run(std::string *reason) {
    module_ = std::make_unique<llvm::Module>("region", context_);
    if (frame() && steps()) {
      store();
      return std::move(module_);
    }
    *reason = reason_;
    return nullptr;
  }

private:
  /// A vector of a region's value. What is the same for all elements is computed before the loop.
  struct Value {
    llvm::Value *v = nullptr;
    bool isUniform = false;
  };
  using Values = llvm::SmallVector<Value, 4>;

  bool refuse(const std::string &reason) {
    reason_ = reason;
    return false;
  }
  llvm::Type *vectorOf(llvm::Type *t) const { return llvm::FixedVectorType::get(t, lanes_); }
  llvm::Type *bitsOf(DataType type) { return body_.getIntNTy(kindOf(type)->bits); }
  llvm::Type *storedType(DataType type) {
    return type == kFloat ? body_.getFloatTy() : type == kDouble ? body_.getDoubleTy() : bitsOf(type);
  }
  llvm::IRBuilderBase &builder(bool isUniform) { return isUniform ? entry_ : body_; }

  /// The function and its loop. Elements of the inputs are loaded before anything is stored: an output may lie where an
  /// input does.
  bool frame() {
    auto *pointer = llvm::PointerType::get(context_, 0);
    auto *type = llvm::FunctionType::get(body_.getVoidTy(), {pointer, pointer, body_.getInt64Ty()}, false);
    function_ = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, kEntryName, *module_);
    function_->setDoesNotThrow();
    function_->addFnAttr("min-legal-vector-width", "512");
    function_->addFnAttr("prefer-vector-width", "512");
    auto *entry = llvm::BasicBlock::Create(context_, "entry", function_);
    loop_ = llvm::BasicBlock::Create(context_, "loop", function_);
    auto *exit = llvm::BasicBlock::Create(context_, "exit", function_);
    llvm::IRBuilder<>(exit).CreateRetVoid();
    entry_.SetInsertPoint(entry);
    auto *isEmpty = entry_.CreateICmpSLE(function_->getArg(2), entry_.getInt64(0));
    entry_.SetInsertPoint(entry_.CreateCondBr(isEmpty, exit, loop_));
    body_.SetInsertPoint(loop_);
    index_ = body_.CreatePHI(body_.getInt64Ty(), 2);
    index_->addIncoming(entry_.getInt64(0), entry);
    exit_ = exit;
    for (size_t i = 0; i < r_.inputs.size(); ++i)
      if (!load(i)) return false;
    return true;
  }
  llvm::Value *pointerOf(unsigned array, size_t index) {
    auto *pointer = llvm::PointerType::get(context_, 0);
    return entry_.CreateLoad(pointer, entry_.CreateConstGEP1_64(pointer, function_->getArg(array), index));
  }
  bool load(size_t input) {
    const user_op::TensorDesc &desc = r_.inputs[input];
    if (!kindOf(desc.data_type())) return refuse(typeReason(desc.data_type()));
    llvm::Type *type = storedType(desc.data_type());
    const llvm::Align align(GetSizeOfDataType(desc.data_type()));
    llvm::Value *at = pointerOf(0, input);
    const bool isSingle = desc.shape().elem_cnt() == 1 && r_.shape.elem_cnt() != 1;
    if (isSingle)
      values_.push_back({entry_.CreateVectorSplat(lanes_, entry_.CreateAlignedLoad(type, at, align)), true});
    else
      values_.push_back({body_.CreateAlignedLoad(vectorOf(type), body_.CreateGEP(type, at, index_), align), false});
    return true;
  }
  void store() {
    for (size_t o = 0; o < r_.outputs.size(); ++o) {
      const DataType type = r_.descOf(r_.outputs[o]).data_type();
      llvm::Value *to = body_.CreateGEP(storedType(type), pointerOf(1, o), index_);
      body_.CreateAlignedStore(values_[r_.outputs[o]].v, to, llvm::Align(GetSizeOfDataType(type)));
    }
    auto *next = body_.CreateAdd(index_, body_.getInt64(lanes_));
    index_->addIncoming(next, loop_);
    body_.CreateCondBr(body_.CreateICmpSLT(next, function_->getArg(2)), loop_, exit_);
  }

  bool steps() {
    for (const RegionStep &step : r_.steps) {
      Value made;
      if (!this->step(step, &made)) return false;
      values_.push_back(made);
    }
    return true;
  }

  bool step(const RegionStep &step, Value *made) {
    for (const user_op::TensorDesc &d : step.op.inputDescs())
      if (!kindOf(d.data_type())) return refuse(typeReason(d.data_type()));
    const DataType out = step.op.outputDescs()[0].data_type();
    if (!kindOf(out)) return refuse(typeReason(out));
    const std::string &type = step.op.def().name;
    Values args;
    for (uint32_t v : step.args) args.push_back(values_[v]);
    const bool isBuiltIn = step.kernel->origin.library == "built-in";
    if (isBuiltIn && type == "cast") return convert(step.op, args[0], made);
    if (isBuiltIn && type == "where")
      return choose(step.op.inputDescs()[0].data_type(), args[0], args[1], args[2], made);
    if (isBuiltIn && type == "masked_fill") return fill(step, args, made);
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

  Value widen(DataType type, Value x) {
    if (!isHalf(type)) return x;
    llvm::IRBuilderBase &b = builder(x.isUniform);
    if (type == kFloat16)
      return {b.CreateFPExt(b.CreateBitCast(x.v, vectorOf(b.getHalfTy())), vectorOf(b.getFloatTy())), x.isUniform};
    Value made;
    call("widen_bf16", {x}, &made);
    return made;
  }
  bool narrow(DataType type, Value *x) {
    if (!isHalf(type)) return true;
    llvm::IRBuilderBase &b = builder(x->isUniform);
    if (type == kBFloat16) return call("narrow_bf16", {*x}, x);
    x->v = b.CreateBitCast(b.CreateFPTrunc(x->v, vectorOf(b.getHalfTy())), vectorOf(b.getInt16Ty()));
    return true;
  }
  Value isNonZero(Value x) {
    llvm::IRBuilderBase &b = builder(x.isUniform);
    return {b.CreateICmpNE(x.v, llvm::Constant::getNullValue(x.v->getType())), x.isUniform};
  }
  Value asByte(Value mask) {
    llvm::IRBuilderBase &b = builder(mask.isUniform);
    return {b.CreateZExt(mask.v, vectorOf(b.getInt8Ty())), mask.isUniform};
  }

  // ---- Functions.

  /// One function; with the same operands it is computed once.
  bool call(const std::string &name, const Values &args, Value *made) {
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
    if (isNew) it->second = leaves_.emit(builder(isUniform), *leaf, numbers, lanes_);
    *made = {it->second, isUniform};
    return made->v || refuse("no code for " + name);
  }

  bool choose(DataType conditionType, Value condition, Value a, Value b, Value *made) {
    if (kindOf(conditionType)->isFloat) return refuse("a condition of floats");
    condition = isNonZero(condition);
    const bool isUniform = condition.isUniform && a.isUniform && b.isUniform;
    *made = {builder(isUniform).CreateSelect(condition.v, a.v, b.v), isUniform};
    return true;
  }

  /// The number of masked_fill: what its own loop writes.
  bool fill(const RegionStep &step, const Values &args, Value *made) {
    auto loop = rowLoopOf(step.op, *step.kernel);
    if (!loop || !*loop) return refuse("masked_fill has no loop");
    const uint64_t x = 0, mask = ~uint64_t{0};
    uint64_t bits = 0;
    const void *const in[] = {&x, &mask};
    (*loop)->Run(in, 0, &bits, 1);
    const DataType type = step.op.outputDescs()[0].data_type();
    llvm::Value *number = llvm::ConstantInt::get(bitsOf(type), bits);
    number = entry_.CreateBitCast(number, storedType(type));
    return choose(step.op.inputDescs()[1].data_type(), args[1], {entry_.CreateVectorSplat(lanes_, number), true},
                  args[0], made);
  }

  /// Casts, as in ConvertElements.cpp. Between half types and others by way of f32.
  bool convert(const OpInstance &op, Value x, Value *made) {
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

  bool expression(const OpInstance &op, const Values &args, Value *made) {
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
  Value asNumber(Value mask, DataType type) {
    llvm::IRBuilderBase &b = builder(mask.isUniform);
    if (!kindOf(type)->isFloat) return {b.CreateZExt(mask.v, vectorOf(bitsOf(type))), mask.isUniform};
    llvm::Type *computed = type == kDouble ? b.getDoubleTy() : b.getFloatTy();
    return {b.CreateUIToFP(mask.v, vectorOf(computed)), mask.isUniform};
  }

  /// In memory, so that nothing is computed from it when this is compiled: the processor's NaN has another sign.
  Value attribute(const scalar::ScalarValue &v, DataType type) {
    llvm::Constant *c = constantOf(context_, v, type);
    auto *global = new llvm::GlobalVariable(*module_, c->getType(), false, llvm::GlobalValue::InternalLinkage, c);
    return {entry_.CreateVectorSplat(lanes_, entry_.CreateLoad(c->getType(), global)), true};
  }

  bool node(const scalar::ScalarProgram::Node &n, const std::vector<Value> &nodes, const Values &parameters,
            DataType type, Value *made) {
    if (n.op == ScalarOp::kConstant) {
      *made = {
          llvm::ConstantVector::getSplat(llvm::ElementCount::getFixed(lanes_), constantOf(context_, n.value, type)),
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
  const Region &r_;
  LeafLibrary &leaves_;
  llvm::LLVMContext &context_;
  const unsigned lanes_;
  std::unique_ptr<llvm::Module> module_;
  llvm::Function *function_ = nullptr;
  llvm::BasicBlock *loop_ = nullptr, *exit_ = nullptr;
  llvm::PHINode *index_ = nullptr;
  llvm::IRBuilder<llvm::NoFolder> entry_, body_;
  std::vector<Value> values_; // of the region
  std::map<std::pair<const llvm::Function *, std::vector<llvm::Value *>>, llvm::Value *> known_;
  std::string reason_;
};

} // namespace

std::unique_ptr<llvm::Module> emitRegion(const Region &region, LeafLibrary &leaves, llvm::LLVMContext &context,
                                         unsigned lanes, std::string *reason) {
  return RegionEmitter(region, leaves, context, lanes).run(reason);
}

} // namespace opc::codegen
