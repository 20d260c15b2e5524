// Scalar functions become vector functions.
// SPDX-License-Identifier: Apache-2.0
#include "LeafLibrary.h"
#include "ScalarLeaves.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/PostOrderIterator.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/IntrinsicsX86.h"
#include "llvm/IR/PatternMatch.h"
#include "llvm/Linker/Linker.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"

namespace opc::codegen {

using llvm::cast;
using llvm::dyn_cast;
using llvm::isa;

namespace {

/// Intrinsics that a vector has one instruction for, or a few, with the same results.
bool isExact(llvm::Intrinsic::ID id) {
  switch (id) {
  case llvm::Intrinsic::fma:
  case llvm::Intrinsic::fabs:
  case llvm::Intrinsic::sqrt:
  case llvm::Intrinsic::floor:
  case llvm::Intrinsic::ceil:
  case llvm::Intrinsic::trunc:
  case llvm::Intrinsic::rint:
  case llvm::Intrinsic::copysign:
  case llvm::Intrinsic::abs:
  case llvm::Intrinsic::smax:
  case llvm::Intrinsic::smin:
  case llvm::Intrinsic::umax:
  case llvm::Intrinsic::umin:
  case llvm::Intrinsic::scmp:
  case llvm::Intrinsic::ucmp:
  case llvm::Intrinsic::is_fpclass: return true;
  default: return false;
  }
}

/// Whether an instruction may run for numbers that do not need it, and on vectors. Division of integers may not.
bool isExact(const llvm::Instruction &i) {
  switch (i.getOpcode()) {
  case llvm::Instruction::SDiv:
  case llvm::Instruction::UDiv:
  case llvm::Instruction::SRem:
  case llvm::Instruction::URem:
  case llvm::Instruction::FRem: return false;
  case llvm::Instruction::FNeg:
  case llvm::Instruction::ICmp:
  case llvm::Instruction::FCmp:
  case llvm::Instruction::Select:
  case llvm::Instruction::Freeze:
  case llvm::Instruction::PHI:
  case llvm::Instruction::Ret: return true;
  case llvm::Instruction::Br: return true;
  case llvm::Instruction::Call: {
    const auto *call = dyn_cast<llvm::IntrinsicInst>(&i);
    return call && isExact(call->getIntrinsicID());
  }
  default: return isa<llvm::BinaryOperator>(i) || isa<llvm::CastInst>(i);
  }
}

/// One function on vectors. Where it branches both sides are computed and the value is selected where they meet.
class Widening {
public:
  Widening(llvm::IRBuilderBase &b, VectorKind vectors) : b_(b), lanes_(vectors.lanes), isV4_(vectors.isV4) {}

  llvm::Value *run(const llvm::Function &leaf, llvm::ArrayRef<llvm::Value *> args) {
    for (unsigned i = 0; i < args.size(); ++i) values_[leaf.getArg(i)] = args[i];
    llvm::ReversePostOrderTraversal<const llvm::Function *> order(&leaf);
    for (const llvm::BasicBlock *block : order) {
      masks_[block] = maskOf(block);
      for (const llvm::Instruction &i : *block) {
        if (const auto *ret = dyn_cast<llvm::ReturnInst>(&i)) return value(ret->getReturnValue());
        if (!i.isTerminator()) values_[&i] = widen(i);
      }
    }
    return nullptr; // no leaf is without a return
  }

private:
  llvm::Type *vectorOf(llvm::Type *t) const { return llvm::FixedVectorType::get(t, lanes_); }
  llvm::Value *value(llvm::Value *v) {
    if (auto *c = dyn_cast<llvm::Constant>(v))
      return llvm::ConstantVector::getSplat(llvm::ElementCount::getFixed(lanes_), c);
    return values_.at(v);
  }

  /// For which numbers a block is reached; null for all.
  llvm::Value *maskOf(const llvm::BasicBlock *block) {
    llvm::Value *mask = nullptr;
    for (const llvm::BasicBlock *from : llvm::predecessors(block)) {
      llvm::Value *edge = edgeMask(from, block);
      if (!edge) return nullptr;
      mask = mask ? b_.CreateOr(mask, edge) : edge;
    }
    return mask;
  }
  llvm::Value *edgeMask(const llvm::BasicBlock *from, const llvm::BasicBlock *to) {
    llvm::Value *mask = masks_.at(from);
    const auto *branch = cast<llvm::BranchInst>(from->getTerminator());
    if (branch->isUnconditional()) return mask;
    llvm::Value *condition = value(branch->getCondition());
    if (branch->getSuccessor(0) != to) condition = b_.CreateNot(condition);
    return mask ? b_.CreateLogicalAnd(mask, condition) : condition; // false where not reached, whatever it would be
  }

  llvm::Value *phi(const llvm::PHINode &p) {
    llvm::Value *result = value(p.getIncomingValue(0));
    for (unsigned k = 1; k < p.getNumIncomingValues(); ++k) {
      llvm::Value *edge = edgeMask(p.getIncomingBlock(k), p.getParent());
      llvm::Value *other = value(p.getIncomingValue(k));
      result = edge ? b_.CreateSelect(edge, other, result) : other;
    }
    return result;
  }

  llvm::Value *widen(const llvm::Instruction &i) {
    if (const auto *p = dyn_cast<llvm::PHINode>(&i)) return phi(*p);
    if (const auto *call = dyn_cast<llvm::IntrinsicInst>(&i)) return intrinsic(*call);
    auto at = [&](unsigned k) { return value(i.getOperand(k)); };
    if (const auto *op = dyn_cast<llvm::BinaryOperator>(&i)) {
      if (llvm::Value *scaled = isV4_ ? scaledAtOnce(*op) : nullptr) return scaled;
      llvm::Value *made = b_.CreateBinOp(op->getOpcode(), at(0), at(1));
      if (auto *same = dyn_cast<llvm::Instruction>(made)) same->copyIRFlags(op);
      return made;
    }
    if (const auto *op = dyn_cast<llvm::CastInst>(&i))
      return b_.CreateCast(op->getOpcode(), at(0), vectorOf(op->getType()));
    if (const auto *op = dyn_cast<llvm::CmpInst>(&i)) return b_.CreateCmp(op->getPredicate(), at(0), at(1));
    if (isa<llvm::SelectInst>(i)) return b_.CreateSelect(at(0), at(1), at(2));
    if (isa<llvm::FreezeInst>(i)) return b_.CreateFreeze(at(0));
    return b_.CreateFNeg(at(0));
  }

  /// v * 2^half * 2^(n - half), the last step of the SDK's exponentials (scale() in ScalarFloat.h), where AVX-512 has
  /// one instruction for v * 2^n: v is about 1 and n what an exponential has, so the first product is exact, and both
  /// ways round once. n is there as a number, before it was made an integer. Null for other products.
  llvm::Value *scaledAtOnce(const llvm::BinaryOperator &product) {
    using namespace llvm::PatternMatch;
    constexpr uint64_t kOne = 0x3f800000, kMinusRound = 0xb4c00000; // the bits of 1, minus those of 1.5 * 2^23
    llvm::Value *v = nullptr, *half = nullptr, *rest = nullptr, *bits = nullptr, *shifted = nullptr;
    const auto power = [](auto n) { return m_BitCast(m_Add(m_Shl(n, m_SpecificInt(23)), m_SpecificInt(kOne))); };
    if (!match(&product, m_FMul(m_FMul(m_Value(v), power(m_Value(half))), power(m_Value(rest)))) ||
        !match(rest, m_Sub(m_Value(bits), m_Specific(half))) || !match(bits, m_BitCast(m_Value(shifted))) ||
        !match(half, m_AShr(m_Add(m_Specific(bits), m_SpecificInt(kMinusRound)), m_One())) ||
        !v->getType()->isFloatTy() || !shifted->getType()->isFloatTy() || lanes_ != 64)
      return nullptr;
    llvm::Value *const round = llvm::ConstantFP::get(vectorOf(b_.getFloatTy()), -12582912.0);
    llvm::Value *const n = b_.CreateFAdd(value(shifted), round);
    llvm::Value *parts[4];
    for (unsigned k = 0; k < 4; ++k) parts[k] = scaled(part(value(v), 16 * k), part(n, 16 * k));
    return joined(joined(parts[0], parts[1]), joined(parts[2], parts[3]));
  }
  llvm::Value *scaled(llvm::Value *v, llvm::Value *n) {
    constexpr int kRoundAsSet = 4; // _MM_FROUND_CUR_DIRECTION
    return b_.CreateIntrinsic(
        llvm::Intrinsic::x86_avx512_mask_scalef_ps_512, {},
        {v, n, llvm::Constant::getNullValue(v->getType()), b_.getInt16(0xffff), b_.getInt32(kRoundAsSet)});
  }
  /// 16 lanes of a vector; two vectors side by side.
  llvm::Value *part(llvm::Value *v, unsigned first) {
    llvm::SmallVector<int, 16> lanes;
    for (unsigned k = 0; k < 16; ++k) lanes.push_back(static_cast<int>(first + k));
    return b_.CreateShuffleVector(v, lanes);
  }
  llvm::Value *joined(llvm::Value *a, llvm::Value *b) {
    llvm::SmallVector<int, 64> lanes;
    const unsigned each = cast<llvm::FixedVectorType>(a->getType())->getNumElements();
    for (unsigned k = 0; k < 2 * each; ++k) lanes.push_back(static_cast<int>(k));
    return b_.CreateShuffleVector(a, b, lanes);
  }

  llvm::Value *intrinsic(const llvm::IntrinsicInst &call) {
    llvm::SmallVector<llvm::Value *, 3> args;
    llvm::SmallVector<llvm::Type *, 2> overloads{vectorOf(call.getType())};
    for (unsigned k = 0; k < call.arg_size(); ++k) {
      const bool isNumber = call.paramHasAttr(k, llvm::Attribute::ImmArg);
      args.push_back(isNumber ? call.getArgOperand(k) : value(call.getArgOperand(k)));
    }
    switch (call.getIntrinsicID()) {
    case llvm::Intrinsic::scmp:
    case llvm::Intrinsic::ucmp: overloads.push_back(args[0]->getType()); break;
    case llvm::Intrinsic::is_fpclass: overloads = {args[0]->getType()}; break;
    default: break;
    }
    return b_.CreateIntrinsic(call.getIntrinsicID(), overloads, args);
  }

  llvm::IRBuilderBase &b_;
  const unsigned lanes_;
  const bool isV4_;
  llvm::DenseMap<const llvm::Value *, llvm::Value *> values_;
  llvm::DenseMap<const llvm::BasicBlock *, llvm::Value *> masks_;
};

/// The compiled function, called for each number.
llvm::Value *callEach(llvm::IRBuilderBase &b, const llvm::Function &leaf, llvm::ArrayRef<llvm::Value *> args,
                      unsigned lanes) {
  llvm::FunctionType *type = leaf.getFunctionType();
  const llvm::FunctionCallee callee = b.GetInsertBlock()->getModule()->getOrInsertFunction(leaf.getName(), type);
  llvm::Value *result = llvm::PoisonValue::get(llvm::FixedVectorType::get(type->getReturnType(), lanes));
  for (unsigned lane = 0; lane < lanes; ++lane) {
    llvm::SmallVector<llvm::Value *, 3> numbers;
    for (llvm::Value *v : args) numbers.push_back(b.CreateExtractElement(v, lane));
    llvm::CallInst *call = b.CreateCall(callee, numbers);
    call->setAttributes(leaf.getAttributes().removeFnAttributes(b.getContext())); // zeroext, signext
    call->setDoesNotThrow();
    result = b.CreateInsertElement(result, call, lane);
  }
  return result;
}

} // namespace

LeafLibrary::LeafLibrary(llvm::LLVMContext &context) : context_(context) {
  const std::string_view bytes = scalarLeavesBitcode();
  auto module = llvm::getLazyBitcodeModule(
      llvm::MemoryBufferRef(llvm::StringRef(bytes.data(), bytes.size()), "scalar functions"), context_);
  if (module)
    module_ = std::move(*module);
  else
    llvm::consumeError(module.takeError()); // nothing is found, so nothing is generated
}
LeafLibrary::~LeafLibrary() = default;

const llvm::Function *LeafLibrary::find(const std::string &name) {
  llvm::Function *f = module_ ? module_->getFunction("opc_leaf_" + name) : nullptr;
  if (f && f->isMaterializable())
    if (llvm::Error e = f->materialize()) {
      llvm::consumeError(std::move(e));
      return nullptr;
    }
  return f;
}

bool LeafLibrary::isVectorizable(const llvm::Function &leaf) {
  auto [it, isNew] = vectorizable_.emplace(&leaf, true);
  if (!isNew) return it->second;
  unsigned returns = 0;
  llvm::SmallPtrSet<const llvm::BasicBlock *, 16> seen;
  llvm::ReversePostOrderTraversal<const llvm::Function *> order(&leaf);
  for (const llvm::BasicBlock *block : order) {
    for (const llvm::BasicBlock *from : llvm::predecessors(block))
      if (!seen.contains(from)) it->second = false; // a loop
    seen.insert(block);
    for (const llvm::Instruction &i : *block) {
      it->second &= isExact(i);
      returns += isa<llvm::ReturnInst>(i);
    }
  }
  return it->second &= returns == 1;
}

llvm::Value *LeafLibrary::emit(llvm::IRBuilderBase &b, const llvm::Function &leaf, llvm::ArrayRef<llvm::Value *> args,
                               VectorKind vectors) {
  if (isVectorizable(leaf)) return Widening(b, vectors).run(leaf, args);
  const auto it = scalarLeafAddresses().find(std::string_view(leaf.getName().data(), leaf.getName().size()));
  return it == scalarLeafAddresses().end() ? nullptr : callEach(b, leaf, args, vectors.lanes);
}

bool LeafLibrary::close(llvm::Module *module, llvm::StringRef entry, std::string *reason) {
  bool calls = false;
  for (const llvm::Function &f : *module) calls |= f.isDeclaration() && !f.isIntrinsic();
  if (!calls) return true;
  const std::string_view bytes = scalarLeavesBitcode();
  auto leaves = llvm::getLazyBitcodeModule(
      llvm::MemoryBufferRef(llvm::StringRef(bytes.data(), bytes.size()), "scalar functions"), module->getContext());
  if (!leaves) {
    *reason = llvm::toString(leaves.takeError());
    return false;
  }
  if (llvm::Linker::linkModules(*module, std::move(*leaves), llvm::Linker::LinkOnlyNeeded)) {
    *reason = "its functions do not fit together";
    return false;
  }
  for (llvm::GlobalValue &value : module->global_values()) {
    if (value.isDeclaration() || value.getName() == entry) continue;
    if (auto *object = dyn_cast<llvm::GlobalObject>(&value)) object->setComdat(nullptr);
    value.setLinkage(llvm::GlobalValue::InternalLinkage);
  }
  return true;
}

} // namespace opc::codegen
