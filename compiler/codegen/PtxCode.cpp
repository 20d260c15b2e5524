// LLVM's code generator for NVIDIA's GPUs.
// SPDX-License-Identifier: Apache-2.0
#include "DeviceEmitter.h"

#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Target/TargetOptions.h"
#include "llvm/TargetParser/Triple.h"
#include "llvm/Transforms/Utils/Cloning.h"

namespace opc::codegen {
namespace {

constexpr char kTriple[] = "nvptx64-nvidia-cuda";

/// Nothing is fused: LLVM writes roundings then, which the driver's compiler keeps.
std::unique_ptr<llvm::TargetMachine> makeMachine() {
  static const llvm::Target *const target = [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    std::string error;
    return llvm::TargetRegistry::lookupTarget(llvm::Triple(kTriple), error);
  }();
  if (!target) return nullptr;
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  options.NoTrappingFPMath = true;
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(
      llvm::Triple(kTriple), kDeviceLevel, "", options, std::nullopt, std::nullopt, llvm::CodeGenOptLevel::Default));
}

/// What a GPU has no instruction for: the C library's functions, and the remainder of floats.
bool isOfLibrary(const llvm::Instruction &i) {
  if (i.getOpcode() == llvm::Instruction::FRem) return true;
  const auto *call = llvm::dyn_cast<llvm::CallBase>(&i);
  if (!call || call->isInlineAsm()) return false;
  switch (call->getIntrinsicID()) {
  case llvm::Intrinsic::not_intrinsic: return true; // what is defined here is gone
  case llvm::Intrinsic::exp:
  case llvm::Intrinsic::exp2:
  case llvm::Intrinsic::log:
  case llvm::Intrinsic::log2:
  case llvm::Intrinsic::log10:
  case llvm::Intrinsic::pow:
  case llvm::Intrinsic::sin:
  case llvm::Intrinsic::cos:
  case llvm::Intrinsic::tan:
  case llvm::Intrinsic::asin:
  case llvm::Intrinsic::acos:
  case llvm::Intrinsic::atan:
  case llvm::Intrinsic::atan2:
  case llvm::Intrinsic::sinh:
  case llvm::Intrinsic::cosh:
  case llvm::Intrinsic::tanh: return true;
  default: return false;
  }
}

/// Puts the functions that are called where they are called, and takes their definitions away.
void inlineAll(llvm::Module &module, llvm::Function &kernel) {
  for (bool isNew = true; isNew;) {
    isNew = false;
    llvm::SmallVector<llvm::CallBase *, 16> calls;
    for (llvm::Instruction &i : llvm::instructions(kernel))
      if (auto *call = llvm::dyn_cast<llvm::CallBase>(&i))
        if (call->getCalledFunction() && !call->getCalledFunction()->isDeclaration()) calls.push_back(call);
    for (llvm::CallBase *call : calls) {
      llvm::InlineFunctionInfo info;
      isNew |= llvm::InlineFunction(*call, info).isSuccess();
    }
  }
  for (bool isGone = true; isGone;) {
    isGone = false;
    for (llvm::Function &f : llvm::make_early_inc_range(module))
      if (&f != &kernel && f.use_empty()) {
        f.eraseFromParent();
        isGone = true;
      }
  }
}

} // namespace

std::string compileToPtx(std::unique_ptr<llvm::Module> module, std::string *reason) {
  const std::unique_ptr<llvm::TargetMachine> machine = makeMachine();
  if (!machine) {
    *reason = "LLVM has no code generator for GPUs here";
    return "";
  }
  llvm::Function *kernel = nullptr;
  for (llvm::Function &f : *module)
    if (f.getCallingConv() == llvm::CallingConv::PTX_Kernel) kernel = &f;
  if (!kernel || !LeafLibrary::close(module.get(), kernel->getName(), reason)) return "";
  // The functions were compiled for the host: what they say of its processor is not the GPU's.
  for (llvm::Function &f : *module)
    for (const char *name : {"target-cpu", "target-features", "tune-cpu"}) f.removeFnAttr(name);
  inlineAll(*module, *kernel);
  for (const llvm::Instruction &i : llvm::instructions(*kernel))
    if (isOfLibrary(i)) {
      *reason = "a function of the C library";
      return "";
    }
  module->setTargetTriple(llvm::Triple(kTriple));
  module->setDataLayout(machine->createDataLayout());
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  if (machine->addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::AssemblyFile)) {
    *reason = "LLVM writes no PTX here";
    return "";
  }
  passes.run(*module);
  return std::string(bytes.data(), bytes.size());
}

} // namespace opc::codegen
