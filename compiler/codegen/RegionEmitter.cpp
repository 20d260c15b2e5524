// One loop over vectors: loads, the steps' scalar functions, stores.
// SPDX-License-Identifier: Apache-2.0
#include "RegionEmitter.h"
#include "RegionSteps.h"

namespace opc::codegen {
namespace {

class RegionEmitter {
public:
  RegionEmitter(const Region &region, LeafLibrary &leaves, llvm::LLVMContext &context, unsigned lanes)
      : r_(region), context_(context), lanes_(lanes), module_(std::make_unique<llvm::Module>("region", context)),
        s_(region, leaves, *module_, {lanes, lanes == lanesOf(CodeLevel::kV4)}) {}

  std::unique_ptr<llvm::Module> run(std::string *reason) {
    if (frame() && s_.steps()) {
      store();
      return std::move(module_);
    }
    *reason = s_.reason();
    return nullptr;
  }

private:
  /// The function and its loop. Elements of the inputs are loaded before anything is stored: an output may lie where an
  /// input does.
  bool frame() {
    auto *pointer = llvm::PointerType::get(context_, 0);
    auto *type = llvm::FunctionType::get(s_.body.getVoidTy(), {pointer, pointer, s_.body.getInt64Ty()}, false);
    function_ = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, kEntryName, *module_);
    function_->setDoesNotThrow();
    function_->addFnAttr("min-legal-vector-width", "512");
    function_->addFnAttr("prefer-vector-width", "512");
    auto *entry = llvm::BasicBlock::Create(context_, "entry", function_);
    loop_ = llvm::BasicBlock::Create(context_, "loop", function_);
    auto *exit = llvm::BasicBlock::Create(context_, "exit", function_);
    llvm::IRBuilder<>(exit).CreateRetVoid();
    s_.entry.SetInsertPoint(entry);
    auto *isEmpty = s_.entry.CreateICmpSLE(function_->getArg(2), s_.entry.getInt64(0));
    s_.entry.SetInsertPoint(s_.entry.CreateCondBr(isEmpty, exit, loop_));
    s_.body.SetInsertPoint(loop_);
    index_ = s_.body.CreatePHI(s_.body.getInt64Ty(), 2);
    index_->addIncoming(s_.entry.getInt64(0), entry);
    exit_ = exit;
    for (size_t i = 0; i < r_.inputs.size(); ++i)
      if (!load(i)) return false;
    return true;
  }
  llvm::Value *pointerOf(unsigned array, size_t index) {
    auto *pointer = llvm::PointerType::get(context_, 0);
    return s_.entry.CreateLoad(pointer, s_.entry.CreateConstGEP1_64(pointer, function_->getArg(array), index));
  }
  bool load(size_t input) {
    const user_op::TensorDesc &desc = r_.inputs[input];
    if (!s_.mayRead(desc.data_type())) return false;
    llvm::Type *type = s_.storedType(desc.data_type());
    const llvm::Align align(GetSizeOfDataType(desc.data_type()));
    llvm::Value *at = pointerOf(0, input);
    const bool isSingle = desc.shape().elem_cnt() == 1 && r_.shape.elem_cnt() != 1;
    if (isSingle)
      s_.addInput({s_.entry.CreateVectorSplat(lanes_, s_.entry.CreateAlignedLoad(type, at, align)), true});
    else
      s_.addInput({s_.body.CreateAlignedLoad(s_.vectorOf(type), s_.body.CreateGEP(type, at, index_), align), false});
    return true;
  }
  void store() {
    for (size_t o = 0; o < r_.outputs.size(); ++o) {
      const DataType type = r_.descOf(r_.outputs[o]).data_type();
      llvm::Value *to = s_.body.CreateGEP(s_.storedType(type), pointerOf(1, o), index_);
      s_.body.CreateAlignedStore(s_.valueOf(r_.outputs[o]), to, llvm::Align(GetSizeOfDataType(type)));
    }
    auto *next = s_.body.CreateAdd(index_, s_.body.getInt64(lanes_));
    index_->addIncoming(next, loop_);
    s_.body.CreateCondBr(s_.body.CreateICmpSLT(next, function_->getArg(2)), loop_, exit_);
  }

  const Region &r_;
  llvm::LLVMContext &context_;
  const unsigned lanes_;
  std::unique_ptr<llvm::Module> module_;
  RegionSteps s_;
  llvm::Function *function_ = nullptr;
  llvm::BasicBlock *loop_ = nullptr, *exit_ = nullptr;
  llvm::PHINode *index_ = nullptr;
};

} // namespace

std::unique_ptr<llvm::Module> emitRegion(const Region &region, LeafLibrary &leaves, llvm::LLVMContext &context,
                                         unsigned lanes, std::string *reason) {
  return RegionEmitter(region, leaves, context, lanes).run(reason);
}

} // namespace opc::codegen
