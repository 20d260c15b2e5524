// LLVM's code generator and its loader of objects.
// SPDX-License-Identifier: Apache-2.0
#include "MachineCode.h"

#include "llvm/ExecutionEngine/RuntimeDyld.h"
#include "llvm/ExecutionEngine/SectionMemoryManager.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Target/TargetOptions.h"
#include "llvm/TargetParser/Triple.h"

#include <mutex>

extern "C" {
void LLVMInitializeX86TargetInfo();
void LLVMInitializeX86Target();
void LLVMInitializeX86TargetMC();
void LLVMInitializeX86AsmPrinter();
}

namespace opc::codegen {
namespace {

constexpr char kTriple[] = "x86_64-unknown-linux-gnu";

const llvm::Target *target() {
  static const llvm::Target *const found = [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    std::string error;
    return llvm::TargetRegistry::lookupTarget(llvm::Triple(kTriple), error);
  }();
  return found;
}

/// Nothing is fused and nothing assumed: the same bits as the kernels'.
std::unique_ptr<llvm::TargetMachine> machineFor(CodeLevel level) {
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  options.NoTrappingFPMath = true;
  return std::unique_ptr<llvm::TargetMachine>(target()->createTargetMachine(
      llvm::Triple(kTriple), level == CodeLevel::kV4 ? "x86-64-v4" : "x86-64-v3", "", options, llvm::Reloc::PIC_,
      llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default));
}

/// Section memory that counts; it is made executable when it is written no more. All of an object lies in one block:
/// code reaches its constants by 32 bits, and two mappings may be further apart.
class CodeMemory final : public llvm::SectionMemoryManager {
public:
  CodeMemory() : SectionMemoryManager(nullptr, /*ReserveAlloc=*/true) {}
  uint8_t *allocateCodeSection(uintptr_t size, unsigned align, unsigned id, llvm::StringRef name) override {
    bytes += size;
    return SectionMemoryManager::allocateCodeSection(size, align, id, name);
  }
  // Generated code throws nothing and is in no back trace.
  void registerEHFrames(uint8_t *, uint64_t, size_t) override {}
  void deregisterEHFrames() override {}
  size_t bytes = 0;
};

class LoadedCode final : public MachineCode {
public:
  bool load(const llvm::object::ObjectFile &object, const std::string &entry, std::string *reason) {
    loader_.loadObject(object);
    loader_.resolveRelocations();
    entry_ = reinterpret_cast<void *>(static_cast<uintptr_t>(loader_.getSymbol(entry).getAddress()));
    if (loader_.hasError() || memory_.finalizeMemory(reason) || !entry_) {
      if (loader_.hasError()) *reason = loader_.getErrorString().str();
      return false;
    }
    return true;
  }
  void *entry() const override { return entry_; }
  size_t bytes() const override { return memory_.bytes; }

private:
  CodeMemory memory_;
  llvm::RuntimeDyld loader_{memory_, memory_};
  void *entry_ = nullptr;
};

} // namespace

std::unique_ptr<MachineCode> compileModule(std::unique_ptr<llvm::Module> module, CodeLevel level,
                                           const std::string &entry, std::string *reason) {
  if (level == CodeLevel::kNone || !target()) {
    *reason = "no code for this processor";
    return nullptr;
  }
  const std::unique_ptr<llvm::TargetMachine> machine = machineFor(level);
  module->setTargetTriple(llvm::Triple(kTriple));
  module->setDataLayout(machine->createDataLayout());
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  if (machine->addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::ObjectFile)) {
    *reason = "LLVM makes no object files here";
    return nullptr;
  }
  passes.run(*module);
  auto object = llvm::object::ObjectFile::createObjectFile(
      llvm::MemoryBufferRef(llvm::StringRef(bytes.data(), bytes.size()), "region"));
  if (!object) {
    *reason = llvm::toString(object.takeError());
    return nullptr;
  }
  auto code = std::make_unique<LoadedCode>();
  if (!code->load(**object, entry, reason)) return nullptr;
  return code;
}

} // namespace opc::codegen
