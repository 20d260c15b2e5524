// A warp a row: parts of the row in registers, what steps read, what lanes give each other.
// SPDX-License-Identifier: Apache-2.0
#include "RowEmitter.h"
#include "DeviceCode.h"
#include "DeviceRows.h"

#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/IntrinsicsNVPTX.h"

#include <algorithm>

namespace opc::codegen {
namespace {

constexpr unsigned kGlobal = 1; // the address space of the device's memory
constexpr unsigned kWarp = kDeviceWarp, kAllLanes = 0xffffffffu;
constexpr unsigned kMostKept = 32, kWidth = 4; // chunks
constexpr unsigned kMostWords = 128;           // registers of 32 bits for the values of a row that is kept
// Kinds of what a part knows.
constexpr int kElement = 0, kBroadcast = 1, kOnce = 2, kIndex = 3;

} // namespace

RowEmitter::RowEmitter(const Region &region, const RowAccess &access, LeafLibrary &leaves, llvm::LLVMContext &context,
                       const std::string &name)
    : r_(region), access_(access), context_(context), module_(std::make_unique<llvm::Module>("region", context)),
      s_(region, leaves, *module_, {1}) {
  frame(name);
}

std::unique_ptr<llvm::Module> RowEmitter::run(std::string *reason) {
  if (plan()) {
    beginRow();
    for (size_t i = 0; i < r_.steps.size() && reason_.empty(); ++i) {
      const RegionStep &step = r_.steps[i];
      if (step.rows) {
        if (!emitRowFunction(*this, step, i)) fail(step.op.def().name + ": no code for GPUs");
      } else if (access_.isOne[step.made - r_.inputs.size()]) {
        RegionSteps::Values args;
        for (size_t k = 0; k < step.args.size(); ++k) args.push_back(oneOperand(i, k));
        Value made;
        if (reason_.empty() && !s_.step(step, args, &made)) fail(s_.reason());
        ones_[step.made] = made;
      }
    }
    if (reason_.empty()) store();
  }
  if (reason_.empty()) return std::move(module_);
  *reason = reason_;
  return nullptr;
}

bool RowEmitter::fail(const std::string &reason) {
  if (reason_.empty()) reason_ = reason;
  return false;
}

/// Whether a row is kept: where the values that a lane has of it fit into its registers.
bool RowEmitter::plan() {
  for (uint32_t v = 0; v < r_.values(); ++v)
    if (!s_.mayRead(r_.descOf(v).data_type())) return fail(s_.reason());
  const unsigned chunks = static_cast<unsigned>((r_.rowSize + kWarp - 1) / kWarp);
  unsigned words = 2; // what is on its way
  for (uint32_t v = 0; v < r_.values(); ++v)
    if (r_.descOf(v).shape().elem_cnt() == r_.shape.elem_cnt())
      words += r_.descOf(v).data_type() == kDouble || r_.descOf(v).data_type() == kInt64 ? 2 : 1;
  const bool isKept = chunks <= kMostKept && chunks * words <= kMostWords;
  width_ = isKept ? chunks : kWidth;
  if (!isKept) return true;
  kept_.start = b().getInt32(0);
  kept_.chunks = chunks;
  kept_.cut = static_cast<unsigned>(r_.rowSize % kWarp);
  return true;
}

/// The kernel, its lanes, and the loop over the rows of a warp.
void RowEmitter::frame(const std::string &name) {
  const unsigned tensors = static_cast<unsigned>(r_.inputs.size() + r_.outputs.size());
  std::vector<llvm::Type *> types(tensors, llvm::PointerType::get(context_, kGlobal));
  types.push_back(b().getInt64Ty());
  for (const RegionStep &step : r_.steps)
    if (checkedIndices(step)) types.push_back(llvm::PointerType::get(context_, kGlobal));
  auto *type = llvm::FunctionType::get(b().getVoidTy(), types, false);
  function_ = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, name, *module_);
  function_->setCallingConv(llvm::CallingConv::PTX_Kernel);
  function_->setDoesNotThrow();
  function_->addFnAttr("nvvm.maxntid", std::to_string(kDeviceBlock));
  llvm::BasicBlock *entry = block("entry"), *row = block("row");
  exit_ = block("exit");
  llvm::IRBuilder<llvm::NoFolder> first(entry);
  const auto special = [&](llvm::Intrinsic::ID id) { return first.CreateIntrinsic(first.getInt32Ty(), id, {}); };
  llvm::Value *thread = special(llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x);
  lane_ = first.CreateAnd(thread, first.getInt32(kWarp - 1));
  constexpr unsigned kWarps = kDeviceBlock / kWarp;
  const auto warpsOf = [&](llvm::Intrinsic::ID id) {
    return first.CreateMul(first.CreateZExt(special(id), first.getInt64Ty()), first.getInt64(kWarps));
  };
  llvm::Value *warp = first.CreateZExt(first.CreateLShr(thread, first.getInt32(5)), first.getInt64Ty());
  warp = first.CreateAdd(warpsOf(llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x), warp);
  warps_ = warpsOf(llvm::Intrinsic::nvvm_read_ptx_sreg_nctaid_x);
  rows_ = function_->getArg(tensors);
  s_.entry.SetInsertPoint(first.CreateCondBr(first.CreateICmpSLT(warp, rows_), row, exit_));
  s_.body.SetInsertPoint(row);
  rowPhi_ = s_.body.CreatePHI(b().getInt64Ty(), 2);
  rowPhi_->addIncoming(warp, entry);
  row_ = rowPhi_;
  llvm::IRBuilder<>(exit_).CreateRetVoid();
}

/// Where the row is in every tensor, and what it has one element of: read before anything is written.
void RowEmitter::beginRow() {
  const auto size = b().getInt64(static_cast<uint64_t>(r_.rowSize));
  const auto beginOf = [&](uint32_t value, unsigned argument, bool isOne) {
    llvm::Value *at = isOne ? row_ : b().CreateMul(row_, size);
    return b().CreateGEP(typeOf(value), function_->getArg(argument), at);
  };
  for (uint32_t v = 0; v < r_.inputs.size(); ++v) begins_.push_back(beginOf(v, v, false));
  for (size_t o = 0; o < r_.outputs.size(); ++o)
    begins_.push_back(beginOf(r_.outputs[o], static_cast<unsigned>(r_.inputs.size() + o),
                              access_.isOne[r_.outputs[o] - r_.inputs.size()]));
  for (size_t i = 0; i < r_.steps.size(); ++i)
    for (size_t k = 0; k < r_.steps[i].args.size(); ++k) {
      const uint32_t v = r_.steps[i].args[k];
      if (v >= r_.inputs.size() || ones_.count(v)) continue;
      const RowRead read = access_.reads[i][k];
      if (read == RowRead::kOnes || (read == RowRead::kBroadcast && isOneForEachRow(v)))
        ones_[v] = load(v, beginOf(v, v, true), b());
    }
}

void RowEmitter::repeat(llvm::MutableArrayRef<llvm::Value *> carried, int64_t count,
                        llvm::function_ref<void(llvm::Value *)> f) {
  llvm::BasicBlock *before = b().GetInsertBlock(), *loop = block("pass"), *after = block("passed");
  b().CreateBr(loop);
  b().SetInsertPoint(loop);
  llvm::PHINode *turn = b().CreatePHI(b().getInt32Ty(), 2);
  turn->addIncoming(b().getInt32(0), before);
  std::vector<llvm::PHINode *> phis;
  for (llvm::Value *&v : carried) {
    phis.push_back(b().CreatePHI(v->getType(), 2));
    phis.back()->addIncoming(v, before);
    v = phis.back();
  }
  f(turn);
  llvm::Value *next = b().CreateAdd(turn, b().getInt32(1));
  llvm::BasicBlock *last = b().GetInsertBlock();
  turn->addIncoming(next, last);
  for (size_t i = 0; i < phis.size(); ++i) phis[i]->addIncoming(carried[i], last);
  b().CreateCondBr(b().CreateICmpULT(next, b().getInt32(static_cast<uint32_t>(count))), loop, after);
  b().SetInsertPoint(after);
}

void RowEmitter::pass(llvm::MutableArrayRef<llvm::Value *> carried, llvm::Value *first, int64_t count,
                      llvm::function_ref<void(RowPart &)> f) {
  if (kept_.chunks > 0) return f(kept_);
  const int64_t wide = int64_t{kWarp} * width_, turns = count / wide, rest = count % wide;
  const auto placeOf = [&](llvm::Value *turn) {
    return b().CreateAdd(first, b().CreateMul(turn, b().getInt32(static_cast<uint32_t>(wide))));
  };
  if (turns > 0)
    repeat(carried, turns, [&](llvm::Value *turn) {
      RowPart part;
      part.start = placeOf(turn);
      part.chunks = width_;
      f(part);
    });
  if (rest == 0) return;
  RowPart part;
  part.start = placeOf(b().getInt32(static_cast<uint32_t>(turns)));
  part.chunks = static_cast<unsigned>((rest + kWarp - 1) / kWarp);
  part.cut = static_cast<unsigned>(rest % kWarp);
  f(part);
}

llvm::Value *RowEmitter::place(RowPart &part, unsigned chunk) {
  llvm::Value *&known = part.known[{kIndex, 0, 0, chunk}];
  if (known) return known;
  llvm::Value *in = part.isCut(chunk) ? b().CreateSelect(isBelow(part.cut), lane_, b().getInt32(part.cut - 1)) : lane_;
  return known = b().CreateAdd(b().CreateAdd(part.start, in), b().getInt32(chunk * kWarp));
}

RowEmitter::Value RowEmitter::load(uint32_t value, llvm::Value *at, llvm::IRBuilderBase &b) {
  llvm::Type *type = typeOf(value);
  const llvm::Align align(GetSizeOfDataType(r_.descOf(value).data_type()));
  return {b.CreateAlignedLoad(s_.vectorOf(type), at, align), false};
}

// ---- What steps read.

RowEmitter::Value RowEmitter::single(uint32_t value) {
  auto [it, isNew] = singles_.emplace(value, Value());
  if (isNew) it->second = {load(value, function_->getArg(value), s_.entry).v, true};
  return it->second;
}

/// An element of a value that the row has elements of.
RowEmitter::Value RowEmitter::element(RowPart &part, uint32_t value, unsigned chunk) {
  const auto key = std::tuple(kElement, size_t{value}, size_t{0}, chunk);
  if (const auto it = part.known.find(key); it != part.known.end()) return {it->second, false};
  Value made;
  if (value < r_.inputs.size()) {
    made = load(value, b().CreateGEP(typeOf(value), begins_[value], place(part, chunk)), b());
  } else if (const auto f = functions_.find(value); f != functions_.end()) {
    made = asStored(r_.descOf(value).data_type(), f->second(part, chunk));
  } else {
    const size_t step = r_.makerOf(value);
    RegionSteps::Values args;
    for (size_t k = 0; k < r_.steps[step].args.size(); ++k) args.push_back(operandOf(part, step, k, chunk));
    if (!s_.step(r_.steps[step], args, &made)) {
      fail(s_.reason());
      made = {llvm::PoisonValue::get(s_.vectorOf(typeOf(value))), false};
    }
  }
  part.known[key] = made.v;
  return {made.v, false};
}

RowEmitter::Value RowEmitter::operandOf(RowPart &part, size_t step, size_t k, unsigned chunk) {
  const uint32_t v = r_.steps[step].args[k];
  switch (access_.reads[step][k]) {
  case RowRead::kRows: return element(part, v, chunk);
  case RowRead::kSingle: return single(v);
  case RowRead::kBroadcast: return isOneForEachRow(v) ? ones_.at(v) : broadcastOf(part, v, chunk);
  default: return oneOperand(step, k);
  }
}

RowEmitter::Value RowEmitter::oneOperand(size_t step, size_t k) {
  const uint32_t v = r_.steps[step].args[k];
  if (access_.reads[step][k] == RowRead::kSingle) return single(v);
  return ones_.at(v);
}

/// An element of an input that is broadcast to the loop: its place in the row's dimensions, and in those of rows.
RowEmitter::Value RowEmitter::broadcastOf(RowPart &part, uint32_t value, unsigned chunk) {
  const auto key = std::tuple(kBroadcast, size_t{value}, size_t{0}, chunk);
  if (const auto it = part.known.find(key); it != part.known.end()) return {it->second, false};
  struct Dim {
    int64_t size, stride;
  };
  std::vector<Dim> inner, outer; // innermost first
  const Shape &shape = r_.inputs[value].shape();
  const int64_t rank = r_.shape.NumAxes();
  int64_t step = 1, inRow = 1;
  for (int64_t axis = rank; axis-- > 0;) {
    const int64_t own = axis - (rank - shape.NumAxes()), size = own >= 0 ? shape.At(own) : 1;
    const bool isInside = inRow < r_.rowSize;
    if (isInside) inRow *= r_.shape.At(axis);
    if (r_.shape.At(axis) == 1) continue;
    std::vector<Dim> &dims = isInside ? inner : outer;
    const Dim d{r_.shape.At(axis), size == 1 ? 0 : step};
    step *= size;
    if (!dims.empty() && d.stride == dims.back().stride * dims.back().size)
      dims.back().size *= d.size;
    else
      dims.push_back(d);
  }
  const auto offset = [&](llvm::Value *index, const std::vector<Dim> &dims) -> llvm::Value * {
    llvm::Type *type = index->getType();
    const auto constant = [&](int64_t n) { return llvm::ConstantInt::get(type, static_cast<uint64_t>(n)); };
    llvm::Value *sum = constant(0);
    for (size_t d = 0; d < dims.size(); ++d) {
      const bool isLast = d + 1 == dims.size();
      if (dims[d].stride) {
        llvm::Value *at = isLast ? index : b().CreateURem(index, constant(dims[d].size));
        sum = b().CreateAdd(sum, b().CreateMul(at, constant(dims[d].stride)));
      }
      if (!isLast) index = b().CreateUDiv(index, constant(dims[d].size));
    }
    return sum;
  };
  llvm::Value *at = b().CreateZExt(offset(place(part, chunk), inner), b().getInt64Ty());
  at = b().CreateAdd(offset(row_, outer), at);
  const Value made = load(value, b().CreateGEP(typeOf(value), function_->getArg(value), at), b());
  part.known[key] = made.v;
  return made;
}

// ---- For functions on rows.

llvm::Value *RowEmitter::asNumber(DataType type, Value v) {
  return b().CreateExtractElement(s_.widen(type, v).v, uint64_t{0});
}
RowEmitter::Value RowEmitter::asStored(DataType type, llvm::Value *number) {
  Value v{b().CreateInsertElement(llvm::PoisonValue::get(s_.vectorOf(number->getType())), number, uint64_t{0}), false};
  if (!s_.narrow(type, &v)) fail(s_.reason());
  return v;
}
RowEmitter::Elements RowEmitter::operand(size_t step, int k) {
  const DataType type = r_.steps[step].op.inputDescs()[static_cast<size_t>(k)].data_type();
  return once([this, step, k, type](RowPart &part, unsigned chunk) {
    return asNumber(type, operandOf(part, step, static_cast<size_t>(k), chunk));
  });
}
llvm::Value *RowEmitter::oneOf(size_t step, int k) {
  const DataType type = r_.steps[step].op.inputDescs()[static_cast<size_t>(k)].data_type();
  return asNumber(type, oneOperand(step, static_cast<size_t>(k)));
}
RowEmitter::Elements RowEmitter::parameter(size_t step, int k, int64_t period) {
  const uint32_t v = r_.steps[step].args[static_cast<size_t>(k)];
  return once([this, v, period](RowPart &part, unsigned chunk) {
    llvm::Value *at = place(part, chunk);
    if (period < r_.rowSize) at = b().CreateURem(at, b().getInt32(static_cast<uint32_t>(period)));
    return asNumber(r_.inputs[v].data_type(), load(v, b().CreateGEP(typeOf(v), function_->getArg(v), at), b()));
  });
}
/// One lane notes it: the words of an IndexFault, the row above and half of the number below.
llvm::Value *RowEmitter::placeOf(size_t step, int k) {
  const Value stored = oneOperand(step, static_cast<size_t>(k));
  llvm::Value *number = b().CreateSExt(b().CreateExtractElement(stored.v, uint64_t{0}), b().getInt64Ty());
  llvm::Value *isIn = b().CreateICmpULT(number, b().getInt64(static_cast<uint64_t>(r_.rowSize)));
  llvm::BasicBlock *fault = block("fault"), *after = block("known");
  b().CreateCondBr(b().CreateOr(isIn, b().CreateNot(isBelow(1))), after, fault);
  b().SetInsertPoint(fault);
  llvm::Value *words = function_->getArg(static_cast<unsigned>(r_.inputs.size() + r_.outputs.size()) + 1 + watched_++);
  llvm::Value *last = b().getInt64(0xfffffffe);
  llvm::Value *row = b().CreateShl(b().CreateSelect(b().CreateICmpULT(row_, last), row_, last), b().getInt64(32));
  auto *type = llvm::FunctionType::get(b().getInt64Ty(), {words->getType(), b().getInt64Ty()}, false);
  auto *least = llvm::InlineAsm::get(type, "atom.global.min.u64 $0, [$1], $2;", "=l,l,l", true);
  const auto note = [&](uint64_t word, llvm::Value *half) {
    b().CreateCall(type, least, {b().CreateConstGEP1_64(b().getInt64Ty(), words, word), b().CreateOr(row, half)});
  };
  note(0, b().CreateAnd(number, b().getInt64(0xffffffff)));
  note(1, b().CreateLShr(number, b().getInt64(32)));
  b().CreateBr(after);
  b().SetInsertPoint(after);
  return b().CreateSelect(isIn, b().CreateTrunc(number, b().getInt32Ty()), b().getInt32(~0u));
}
RowEmitter::Elements RowEmitter::once(Elements f) {
  return [this, f = std::move(f), memo = ++memos_](RowPart &part, unsigned chunk) {
    const auto key = std::tuple(kOnce, memo, size_t{0}, chunk);
    if (const auto it = part.known.find(key); it != part.known.end()) return it->second;
    llvm::Value *made = f(part, chunk);
    part.known[key] = made;
    return made;
  };
}
void RowEmitter::give(size_t step, int output, Elements f) {
  functions_[r_.steps[step].made + static_cast<uint32_t>(output)] = std::move(f);
}
void RowEmitter::giveOne(size_t step, int output, llvm::Value *number) {
  const uint32_t v = r_.steps[step].made + static_cast<uint32_t>(output);
  ones_[v] = asStored(r_.descOf(v).data_type(), number);
}
llvm::Value *RowEmitter::call(const char *name, llvm::Value *x) {
  Value made;
  if (s_.call(name, {asStored(kFloat, x)}, &made)) return b().CreateExtractElement(made.v, uint64_t{0});
  fail(s_.reason());
  return x;
}

// ---- Between lanes.

llvm::Value *RowEmitter::shuffled(unsigned intrinsic, llvm::Value *v, llvm::Value *lane) {
  llvm::Type *type = v->getType();
  const auto move = [&](llvm::Value *word) {
    return b().CreateIntrinsic(b().getInt32Ty(), intrinsic,
                               {b().getInt32(kAllLanes), word, lane, b().getInt32(kWarp - 1)});
  };
  if (type->getPrimitiveSizeInBits() == 32)
    return b().CreateBitCast(move(b().CreateBitCast(v, b().getInt32Ty())), type);
  llvm::Value *bits = b().CreateBitCast(v, b().getInt64Ty());
  llvm::Value *low = move(b().CreateTrunc(bits, b().getInt32Ty()));
  llvm::Value *high = move(b().CreateTrunc(b().CreateLShr(bits, b().getInt64(32)), b().getInt32Ty()));
  llvm::Value *both = b().CreateShl(b().CreateZExt(high, b().getInt64Ty()), b().getInt64(32));
  return b().CreateBitCast(b().CreateOr(both, b().CreateZExt(low, b().getInt64Ty())), type);
}
llvm::Value *RowEmitter::across(llvm::Value *v, unsigned mask) {
  return shuffled(llvm::Intrinsic::nvvm_shfl_sync_bfly_i32, v, b().getInt32(mask));
}
llvm::Value *RowEmitter::fromLane(llvm::Value *v, llvm::Value *from) {
  return shuffled(llvm::Intrinsic::nvvm_shfl_sync_idx_i32, v, from);
}

// ---- What is written, in the end: an output may lie where an input does.

void RowEmitter::store() {
  const auto sync = [&] {
    b().CreateIntrinsic(b().getVoidTy(), llvm::Intrinsic::nvvm_bar_warp_sync, {b().getInt32(kAllLanes)});
  };
  sync();
  pass({}, [&](RowPart &part) { storePart(part); });
  sync();
  storeOnes();
  llvm::Value *next = b().CreateAdd(row_, warps_);
  rowPhi_->addIncoming(next, b().GetInsertBlock());
  b().CreateCondBr(b().CreateICmpSLT(next, rows_), rowPhi_->getParent(), exit_);
}

void RowEmitter::storePart(RowPart &part) {
  struct Store {
    llvm::Value *v, *at;
    llvm::Align align;
  };
  std::vector<std::vector<Store>> stores(part.chunks);
  for (unsigned c = 0; c < part.chunks; ++c)
    for (size_t o = 0; o < r_.outputs.size(); ++o) {
      const uint32_t v = r_.outputs[o];
      if (access_.isOne[v - r_.inputs.size()]) continue;
      llvm::Value *at = b().CreateGEP(typeOf(v), begins_[r_.inputs.size() + o], place(part, c));
      stores[c].push_back({element(part, v, c).v, at, llvm::Align(GetSizeOfDataType(r_.descOf(v).data_type()))});
    }
  for (unsigned c = 0; c < part.chunks; ++c) {
    if (stores[c].empty()) return;
    llvm::BasicBlock *after = nullptr;
    if (part.isCut(c)) {
      // The lanes that have no element have read the last one.
      b().CreateIntrinsic(b().getVoidTy(), llvm::Intrinsic::nvvm_bar_warp_sync, {b().getInt32(kAllLanes)});
      llvm::BasicBlock *inside = block("last");
      after = block("written");
      b().CreateCondBr(isBelow(part.cut), inside, after);
      b().SetInsertPoint(inside);
    }
    for (const Store &s : stores[c]) b().CreateAlignedStore(s.v, s.at, s.align);
    if (!after) continue;
    b().CreateBr(after);
    b().SetInsertPoint(after);
  }
}

void RowEmitter::storeOnes() {
  std::vector<size_t> ones;
  for (size_t o = 0; o < r_.outputs.size(); ++o)
    if (access_.isOne[r_.outputs[o] - r_.inputs.size()]) ones.push_back(o);
  if (ones.empty()) return;
  llvm::BasicBlock *inside = block("ones"), *after = block("done");
  b().CreateCondBr(isBelow(1), inside, after);
  b().SetInsertPoint(inside);
  for (size_t o : ones) {
    const uint32_t v = r_.outputs[o];
    b().CreateAlignedStore(ones_.at(v).v, begins_[r_.inputs.size() + o],
                           llvm::Align(GetSizeOfDataType(r_.descOf(v).data_type())));
  }
  b().CreateBr(after);
  b().SetInsertPoint(after);
}

} // namespace opc::codegen
