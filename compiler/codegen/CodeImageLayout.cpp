// Sections of an object file side by side, and what refers from one to another.
// SPDX-License-Identifier: Apache-2.0
#include "CodeImageLayout.h"
#include "RegionEmitter.h"

#include "llvm/BinaryFormat/ELF.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MathExtras.h"

#include <map>

namespace opc::codegen {
namespace {

namespace ELF = llvm::ELF;
using llvm::object::ELFObjectFileBase;
using llvm::object::ELFSectionRef;
using llvm::object::SectionRef;

class Layout {
public:
  Layout(const ELFObjectFileBase &object, std::string *reason) : object_(object), reason_(*reason) {}

  bool run(RegionImager::Made *made) {
    place(true);
    const uint64_t code = llvm::alignTo(bytes_.size(), kImagePage);
    bytes_.resize(code, '\xcc'); // int3: nothing falls through
    place(false);
    for (const SectionRef &section : object_.sections())
      if (!refer(section)) return false;
    const auto entry = addressOf(kEntryName);
    if (!entry) return refuse("an object without the region's function");
    made->image.entry = static_cast<uint32_t>(*entry);
    made->image.code = static_cast<uint32_t>(code);
    made->bytes = std::move(bytes_);
    return true;
  }

private:
  bool refuse(const std::string &why) {
    reason_ = why;
    return false;
  }
  bool refuse(llvm::Error error) { return refuse(llvm::toString(std::move(error))); }

  /// Sections that are in memory when code runs, but for those that back traces need.
  static bool isLoaded(const SectionRef &section) {
    const ELFSectionRef elf(section);
    return (elf.getFlags() & ELF::SHF_ALLOC) != 0 && elf.getType() != ELF::SHT_X86_64_UNWIND;
  }

  void place(bool executable) {
    for (const SectionRef &section : object_.sections()) {
      const bool isCode = (ELFSectionRef(section).getFlags() & ELF::SHF_EXECINSTR) != 0;
      if (isCode != executable || section.getSize() == 0 || !isLoaded(section)) continue;
      bytes_.resize(llvm::alignTo(bytes_.size(), section.getAlignment()), executable ? '\xcc' : '\0');
      places_[section.getIndex()] = bytes_.size();
      llvm::Expected<llvm::StringRef> contents = section.isBSS() ? llvm::StringRef() : section.getContents();
      if (contents)
        bytes_.append(contents->data(), contents->size());
      else
        llvm::consumeError(contents.takeError()); // compileToObject() has just written it
      bytes_.resize(places_[section.getIndex()] + section.getSize());
    }
  }

  std::optional<uint64_t> addressOf(llvm::StringRef wanted) {
    for (const llvm::object::ELFSymbolRef symbol : object_.symbols()) {
      llvm::Expected<llvm::StringRef> name = symbol.getName();
      if (name && *name == wanted) return addressOf(symbol);
      if (!name) llvm::consumeError(name.takeError());
    }
    return std::nullopt;
  }
  /// In the image; nothing for what is outside.
  std::optional<uint64_t> addressOf(const llvm::object::ELFSymbolRef &symbol) {
    llvm::Expected<llvm::object::section_iterator> section = symbol.getSection();
    llvm::Expected<uint64_t> value = symbol.getValue();
    if (section && value && *section != object_.section_end()) {
      const auto place = places_.find((*section)->getIndex());
      if (place != places_.end()) return place->second + *value;
    }
    if (!section) llvm::consumeError(section.takeError());
    if (!value) llvm::consumeError(value.takeError());
    return std::nullopt;
  }

  bool refer(const SectionRef &relocations) {
    llvm::Expected<llvm::object::section_iterator> section = relocations.getRelocatedSection();
    if (!section) return refuse(section.takeError());
    if (*section == object_.section_end()) return true;
    const auto place = places_.find((*section)->getIndex());
    if (place == places_.end()) return true;
    for (const llvm::object::ELFRelocationRef relocation : relocations.relocations())
      if (!refer(relocation, place->second)) return false;
    return true;
  }
  bool refer(const llvm::object::ELFRelocationRef &relocation, uint64_t section) {
    const auto symbol = relocation.getSymbol();
    if (symbol == object_.symbol_end()) return refuse("a reference to nothing");
    const std::optional<uint64_t> target = addressOf(llvm::object::ELFSymbolRef(*symbol));
    if (!target) {
      llvm::Expected<llvm::StringRef> name = symbol->getName();
      return name ? refuse("it calls " + name->str() + " of another library") : refuse(name.takeError());
    }
    llvm::Expected<int64_t> addend = relocation.getAddend();
    if (!addend) return refuse(addend.takeError());
    const uint64_t at = section + relocation.getOffset();
    const auto distance = static_cast<int64_t>(*target + static_cast<uint64_t>(*addend) - at);
    const uint64_t type = relocation.getType();
    const bool isWide = type == ELF::R_X86_64_PC64;
    if (!isWide && type != ELF::R_X86_64_PC32 && type != ELF::R_X86_64_PLT32)
      return refuse("a reference by an address (relocation " + std::to_string(type) + ")");
    if (at + (isWide ? 8 : 4) > bytes_.size() || (!isWide && !llvm::isInt<32>(distance)))
      return refuse("a reference that leads too far");
    if (isWide)
      llvm::support::endian::write64le(bytes_.data() + at, static_cast<uint64_t>(distance));
    else
      llvm::support::endian::write32le(bytes_.data() + at, static_cast<uint32_t>(distance));
    return true;
  }

  const ELFObjectFileBase &object_;
  std::string &reason_;
  std::string bytes_;
  std::map<uint64_t, uint64_t> places_; // in the image, by index of a section
};

} // namespace

std::optional<RegionImager::Made> layOutImage(std::string_view bytes, CodeLevel level, unsigned lanes,
                                              std::string *reason) {
  auto object = llvm::object::ObjectFile::createObjectFile(
      llvm::MemoryBufferRef(llvm::StringRef(bytes.data(), bytes.size()), "region"));
  if (!object) {
    *reason = llvm::toString(object.takeError());
    return std::nullopt;
  }
  RegionImager::Made made;
  const auto *elf = llvm::dyn_cast<ELFObjectFileBase>(object->get());
  if (!elf || !Layout(*elf, reason).run(&made)) return std::nullopt;
  made.image.level = level;
  made.image.lanes = lanes;
  return made;
}

} // namespace opc::codegen
