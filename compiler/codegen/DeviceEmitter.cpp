// A kernel that walks the elements of a region with all of its threads: packs by accesses of up to 16 bytes, then the
// rest one by one.
// SPDX-License-Identifier: Apache-2.0
#include "DeviceEmitter.h"
#include "RegionSteps.h"
#include "RowEmitter.h"

#include "llvm/IR/IntrinsicsNVPTX.h"

#include <limits>

namespace opc::codegen {
namespace {

constexpr unsigned kGlobal = 1; // the address space of the device's memory

class DeviceEmitter {
public:
  DeviceEmitter(const Region &region, const DeviceLoop &loop, LeafLibrary &leaves, llvm::LLVMContext &context,
                const std::string &name)
      : r_(region), loop_(loop), leaves_(leaves), context_(context),
        module_(std::make_unique<llvm::Module>("region", context)), start_(context) {
    frame(name);
  }

  std::unique_ptr<llvm::Module> run(std::string *reason) {
    llvm::BasicBlock *rest = block("rest");
    llvm::Value *packs = function_->getArg(tensors() + 1), *elements = function_->getArg(tensors());
    if (loop_.lanes > 1) {
      if (!walk(start_.GetInsertBlock(), thread_, packs, loop_.lanes, rest, reason)) return nullptr;
    } else {
      start_.CreateBr(rest);
    }
    start_.SetInsertPoint(rest);
    llvm::Value *done = start_.CreateMul(packs, start_.getInt64(loop_.lanes));
    llvm::BasicBlock *exit = block("exit");
    if (!walk(rest, start_.CreateAdd(done, thread_), elements, 1, exit, reason)) return nullptr;
    start_.SetInsertPoint(exit);
    start_.CreateRetVoid();
    return std::move(module_);
  }

private:
  unsigned tensors() const { return static_cast<unsigned>(r_.inputs.size() + r_.outputs.size()); }
  llvm::BasicBlock *block(const char *name) { return llvm::BasicBlock::Create(context_, name, function_); }

  /// The kernel, the number of this thread and of all of them.
  void frame(const std::string &name) {
    std::vector<llvm::Type *> types(tensors(), llvm::PointerType::get(context_, kGlobal));
    types.insert(types.end(), 2, start_.getInt64Ty());
    auto *type = llvm::FunctionType::get(start_.getVoidTy(), types, false);
    function_ = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, name, *module_);
    function_->setCallingConv(llvm::CallingConv::PTX_Kernel);
    function_->setDoesNotThrow();
    function_->addFnAttr("nvvm.maxntid", std::to_string(kDeviceBlock));
    start_.SetInsertPoint(block("entry"));
    const auto special = [&](llvm::Intrinsic::ID id) {
      return start_.CreateZExt(start_.CreateIntrinsic(start_.getInt32Ty(), id, {}), start_.getInt64Ty());
    };
    llvm::Value *size = special(llvm::Intrinsic::nvvm_read_ptx_sreg_ntid_x);
    thread_ = start_.CreateAdd(start_.CreateMul(special(llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x), size),
                               special(llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x));
    threads_ = start_.CreateMul(special(llvm::Intrinsic::nvvm_read_ptx_sreg_nctaid_x), size);
  }

  /// Turns first, first + threads, ... below `end`, of `lanes` elements each, and then `next`. Turns of several
  /// elements are numbered by packs.
  bool walk(llvm::BasicBlock *before, llvm::Value *first, llvm::Value *end, unsigned lanes, llvm::BasicBlock *next,
            std::string *reason) {
    RegionSteps s(r_, leaves_, *module_, {lanes});
    llvm::BasicBlock *turn = block(lanes > 1 ? "packs" : "elements");
    start_.SetInsertPoint(before);
    s.entry.SetInsertPoint(start_.CreateCondBr(start_.CreateICmpSLT(first, end), turn, next));
    s.body.SetInsertPoint(turn);
    auto *i = s.body.CreatePHI(s.body.getInt64Ty(), 2);
    i->addIncoming(first, before);
    const bool isRead = load(s, s.body.CreateMul(i, s.body.getInt64(lanes)), lanes);
    if (!isRead || !s.steps()) {
      *reason = s.reason();
      return false;
    }
    llvm::Value *element = s.body.CreateMul(i, s.body.getInt64(lanes));
    for (unsigned o = 0; o < r_.outputs.size(); ++o) {
      const DataType type = r_.descOf(r_.outputs[o]).data_type();
      const unsigned argument = static_cast<unsigned>(r_.inputs.size()) + o;
      llvm::Value *to = s.body.CreateGEP(s.storedType(type), function_->getArg(argument), element);
      s.body.CreateAlignedStore(s.valueOf(r_.outputs[o]), to, alignOf(type, lanes));
    }
    llvm::Value *following = s.body.CreateAdd(i, threads_);
    i->addIncoming(following, turn);
    s.body.CreateCondBr(s.body.CreateICmpSLT(following, end), turn, next);
    return true;
  }

  static llvm::Align alignOf(DataType type, unsigned lanes) { return llvm::Align(GetSizeOfDataType(type) * lanes); }

  /// The inputs' elements from `element` on. All are read before anything is written: an output may lie where an input
  /// does.
  bool load(RegionSteps &s, llvm::Value *element, unsigned lanes) {
    const std::vector<llvm::Value *> index = indexOf(s, element);
    for (unsigned k = 0; k < r_.inputs.size(); ++k) {
      const DataType type = r_.inputs[k].data_type();
      if (!s.mayRead(type)) return false;
      const DeviceLoop::Input &in = loop_.inputs[k];
      llvm::Type *stored = s.storedType(type);
      llvm::Value *from = function_->getArg(k);
      const auto splat = [&](llvm::IRBuilderBase &b, llvm::Value *at) {
        return b.CreateVectorSplat(lanes, b.CreateAlignedLoad(stored, at, alignOf(type, 1)));
      };
      if (in.read == DeviceLoop::Read::kSingle) {
        s.addInput({splat(s.entry, from), true});
        continue;
      }
      const bool isWhole = in.read == DeviceLoop::Read::kWhole;
      llvm::Value *at = s.body.CreateGEP(stored, from, isWhole ? element : offsetOf(s, in, index));
      if (isWhole || in.strides.back() != 0)
        s.addInput({s.body.CreateAlignedLoad(s.vectorOf(stored), at, alignOf(type, lanes)), false});
      else
        s.addInput({splat(s.body, at), false}); // one element for all of the last dimension
    }
    return true;
  }

  /// An element's index in each dimension that inputs are broadcast in.
  std::vector<llvm::Value *> indexOf(RegionSteps &s, llvm::Value *element) {
    std::vector<llvm::Value *> index(loop_.dims.size());
    // Divisions of 32 bits by a constant take a few instructions.
    const bool isSmall = r_.shape.elem_cnt() <= std::numeric_limits<int32_t>::max();
    llvm::Type *type = isSmall ? s.body.getInt32Ty() : s.body.getInt64Ty();
    llvm::Value *rest = isSmall && !index.empty() ? s.body.CreateTrunc(element, type) : element;
    for (size_t d = index.size(); d-- > 0;) {
      auto *size = llvm::ConstantInt::get(type, static_cast<uint64_t>(loop_.dims[d]));
      index[d] = d == 0 ? rest : s.body.CreateURem(rest, size);
      if (d > 0) rest = s.body.CreateUDiv(rest, size);
    }
    return index;
  }
  llvm::Value *offsetOf(RegionSteps &s, const DeviceLoop::Input &in, const std::vector<llvm::Value *> &index) {
    llvm::Value *offset = nullptr;
    for (size_t d = 0; d < index.size(); ++d) {
      if (in.strides[d] == 0) continue;
      auto *stride = llvm::ConstantInt::get(index[d]->getType(), static_cast<uint64_t>(in.strides[d]));
      llvm::Value *part = in.strides[d] == 1 ? index[d] : s.body.CreateMul(index[d], stride);
      offset = offset ? s.body.CreateAdd(offset, part) : part;
    }
    return s.body.CreateZExtOrTrunc(offset, s.body.getInt64Ty());
  }

  const Region &r_;
  const DeviceLoop &loop_;
  LeafLibrary &leaves_;
  llvm::LLVMContext &context_;
  std::unique_ptr<llvm::Module> module_;
  llvm::IRBuilder<llvm::NoFolder> start_;
  llvm::Function *function_ = nullptr;
  llvm::Value *thread_ = nullptr, *threads_ = nullptr;
};

} // namespace

std::unique_ptr<llvm::Module> emitDeviceRegion(const Region &region, const DeviceLoop &loop, LeafLibrary &leaves,
                                               llvm::LLVMContext &context, const std::string &name,
                                               std::string *reason) {
  if (region.hasMoves()) {
    *reason = "code for GPUs moves no elements";
    return nullptr;
  }
  if (region.rowSize > 0) {
    RowAccess access;
    if (!findRowAccess(outlineOf(region), &access, reason)) return nullptr;
    return RowEmitter(region, access, leaves, context, name).run(reason);
  }
  return DeviceEmitter(region, loop, leaves, context, name).run(reason);
}

} // namespace opc::codegen
