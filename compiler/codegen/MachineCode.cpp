// LLVM's code generator and its loader of objects.
// SPDX-License-Identifier: Apache-2.0
#include "MachineCode.h"
#include "Region.h"
#include "ScalarLeaves.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/ExecutionEngine/RTDyldMemoryManager.h"
#include "llvm/ExecutionEngine/RuntimeDyld.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Target/TargetOptions.h"
#include "llvm/TargetParser/Triple.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <link.h>
#include <sys/mman.h>
#include <vector>

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

void *mapBlock(size_t bytes) {
  return mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/// Memory for one object, in one block: code reaches its constants by 32 bits, and two mappings may be further apart.
/// Code, constants and variables begin at pages of their own; code is made executable when it is written no more.
class CodeMemory final : public llvm::RTDyldMemoryManager {
public:
  explicit CodeMemory(void *(*map)(size_t bytes)) : map_(map ? map : mapBlock) {}
  ~CodeMemory() override {
    if (block_) munmap(block_, size_);
  }

  bool needsToReserveAllocationSpace() override { return true; }
  void reserveAllocationSpace(uintptr_t code, llvm::Align, uintptr_t constants, llvm::Align, uintptr_t variables,
                              llvm::Align) override {
    variables += kMaxRegionSteps * 2 * sizeof(void *); // the addresses of functions, which are not counted
    size_ = pages(code) + pages(constants) + pages(variables);
    void *block = size_ ? map_(size_) : MAP_FAILED;
    if (block == MAP_FAILED) return;
    block_ = static_cast<uint8_t *>(block);
    parts_[0] = {block_, block_, block_ + pages(code)};
    parts_[1] = {parts_[0].end, parts_[0].end, parts_[0].end + pages(constants)};
    parts_[2] = {parts_[1].end, parts_[1].end, parts_[1].end + pages(variables)};
  }
  uint8_t *allocateCodeSection(uintptr_t size, unsigned align, unsigned, llvm::StringRef) override {
    bytes += size;
    return take(parts_[0], size, align);
  }
  uint8_t *allocateDataSection(uintptr_t size, unsigned align, unsigned, llvm::StringRef, bool isConstant) override {
    return take(parts_[isConstant ? 1 : 2], size, align);
  }
  bool finalizeMemory(std::string *reason) override {
    const auto protect = [](const Part &p, int mode) {
      return p.begin == p.end || mprotect(p.begin, static_cast<size_t>(p.end - p.begin), mode) == 0;
    };
    if (!isShort_ && protect(parts_[0], PROT_READ | PROT_EXEC) && protect(parts_[1], PROT_READ)) return false;
    if (reason) *reason = isShort_ ? "an object that is larger than it says" : std::strerror(errno);
    return true;
  }

  /// Code calls functions of the program through a jump beside it: they may be far away.
  uint64_t getSymbolAddress(const std::string &name) override {
    const auto leaf = scalarLeafAddresses().find(name);
    return leaf == scalarLeafAddresses().end() ? 0 : reinterpret_cast<uintptr_t>(leaf->second);
  }
  // Generated code throws nothing and is in no back trace.
  void registerEHFrames(uint8_t *, uint64_t, size_t) override {}
  void deregisterEHFrames() override {}
  bool isShort() const { return isShort_; }
  size_t bytes = 0;

private:
  struct Part {
    uint8_t *begin = nullptr, *next = nullptr, *end = nullptr;
  };
  /// Whole ones, with room for what sections are aligned to.
  static size_t pages(uintptr_t bytes) {
    constexpr size_t kPage = 4096;
    return bytes ? (bytes + kPage - 1) / kPage * kPage + kPage : 0;
  }
  /// What does not fit gets memory in which nothing runs.
  uint8_t *take(Part &part, uintptr_t size, unsigned align) {
    const uintptr_t step = std::max(align, 16U);
    const uintptr_t at = (reinterpret_cast<uintptr_t>(part.next) + step - 1) / step * step;
    if (!part.begin || at + size > reinterpret_cast<uintptr_t>(part.end)) {
      isShort_ = true;
      spare_.push_back(std::make_unique<uint8_t[]>(size + step));
      return spare_.back().get();
    }
    part.next = reinterpret_cast<uint8_t *>(at + size);
    return reinterpret_cast<uint8_t *>(at);
  }

  void *(*const map_)(size_t bytes);
  uint8_t *block_ = nullptr;
  size_t size_ = 0;
  Part parts_[3]; // code, constants, variables
  bool isShort_ = false;
  std::vector<std::unique_ptr<uint8_t[]>> spare_;
};

class LoadedCode final : public MachineCode {
public:
  explicit LoadedCode(void *(*map)(size_t)) : memory_(map) {}
  bool load(const llvm::object::ObjectFile &object, const std::string &entry, std::string *reason) {
    loader_.loadObject(object);
    if (!loader_.hasError() && !memory_.isShort()) loader_.resolveRelocations();
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

std::string compileToObject(std::unique_ptr<llvm::Module> module, CodeLevel level, std::string *reason) {
  if (level == CodeLevel::kNone || !target()) {
    *reason = "no code for this processor";
    return "";
  }
  const std::unique_ptr<llvm::TargetMachine> machine = machineFor(level);
  module->setTargetTriple(llvm::Triple(kTriple));
  module->setDataLayout(machine->createDataLayout());
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  if (machine->addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::ObjectFile)) {
    *reason = "LLVM makes no object files here";
    return "";
  }
  passes.run(*module);
  return std::string(bytes.data(), bytes.size());
}

std::unique_ptr<MachineCode> loadCode(std::string_view bytes, const std::string &entry, std::string *reason,
                                      void *(*map)(size_t bytes)) {
  auto object = llvm::object::ObjectFile::createObjectFile(
      llvm::MemoryBufferRef(llvm::StringRef(bytes.data(), bytes.size()), "region"));
  if (!object) {
    *reason = llvm::toString(object.takeError());
    return nullptr;
  }
  auto code = std::make_unique<LoadedCode>(map);
  if (!code->load(**object, entry, reason)) return nullptr;
  return code;
}

namespace {

/// Of a segment of notes.
std::string buildIdIn(const char *notes, size_t bytes) {
  for (size_t at = 0; at + sizeof(ElfW(Nhdr)) <= bytes;) {
    ElfW(Nhdr) note;
    std::memcpy(&note, notes + at, sizeof note);
    const char *name = notes + at + sizeof note, *data = name + (note.n_namesz + 3) / 4 * 4;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0)
      return llvm::toHex(llvm::StringRef(data, note.n_descsz), /*LowerCase=*/true);
    at += sizeof note + (note.n_namesz + 3) / 4 * 4 + (note.n_descsz + 3) / 4 * 4;
  }
  return "";
}

/// The build id that the linker has given to what this code is in: a digest of all of it. Empty where there is none.
std::string buildId() {
  static const std::string found = [] {
    std::string id;
    dl_iterate_phdr(
        [](dl_phdr_info *info, size_t, void *to) {
          const auto here = reinterpret_cast<uintptr_t>(&buildId);
          bool isHere = false;
          for (int i = 0; i < info->dlpi_phnum; ++i) {
            const auto &p = info->dlpi_phdr[i];
            const uintptr_t begin = info->dlpi_addr + p.p_vaddr;
            isHere |= p.p_type == PT_LOAD && here >= begin && here < begin + p.p_memsz;
          }
          for (int i = 0; isHere && i < info->dlpi_phnum; ++i)
            if (info->dlpi_phdr[i].p_type == PT_NOTE)
              *static_cast<std::string *>(to) +=
                  buildIdIn(reinterpret_cast<const char *>(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr),
                            info->dlpi_phdr[i].p_memsz);
          return isHere ? 1 : 0;
        },
        &id);
    return id;
  }();
  return found;
}

} // namespace

std::string codeVersion() {
  const std::string id = buildId();
  return id.empty() ? "" : id + " LLVM " LLVM_VERSION_STRING;
}

} // namespace opc::codegen
