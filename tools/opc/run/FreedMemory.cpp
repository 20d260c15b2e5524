// What starting and compiling took goes back before a run takes its own.
// SPDX-License-Identifier: Apache-2.0
#include "FreedMemory.h"

#include <cstdint>
#include <link.h>
#include <malloc.h>
#include <sys/mman.h>

/// jemalloc's, where opc is linked with it (third_party/Dependencies.cmake).
extern "C" int mallctl(const char *name, void *old, size_t *oldSize, void *fresh, size_t freshSize)
    __attribute__((weak));

namespace opc::cli {

namespace {

constexpr uintptr_t kPage = 4096;

/// Whether its loader writes into parts that are marked as never written.
bool isPatched(const dl_phdr_info &object) {
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    if (object.dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
    const auto *entry = reinterpret_cast<const ElfW(Dyn) *>(object.dlpi_addr + object.dlpi_phdr[i].p_vaddr);
    for (; entry->d_tag != DT_NULL; ++entry)
      if (entry->d_tag == DT_TEXTREL || (entry->d_tag == DT_FLAGS && (entry->d_un.d_val & DF_TEXTREL))) return true;
  }
  return false;
}

/// Of the parts that nobody writes the file has all: code, and constants that need no relocation.
int letGoOfFile(dl_phdr_info *object, size_t, void *) {
  if (isPatched(*object)) return 0;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr) &part = object->dlpi_phdr[i];
    if (part.p_type != PT_LOAD || (part.p_flags & PF_W)) continue;
    const uintptr_t begin = object->dlpi_addr + part.p_vaddr, first = (begin + kPage - 1) & ~(kPage - 1),
                    end = (begin + part.p_memsz) & ~(kPage - 1);
    if (first < end) ::madvise(reinterpret_cast<void *>(first), end - first, MADV_DONTNEED);
  }
  return 0;
}

} // namespace

void giveBackFreed() {
  if (mallctl)
    mallctl("arena.4096.purge", nullptr, nullptr, nullptr, 0); // 4096 stands for all of them
  else
    ::malloc_trim(0);
  giveBackCode();
}

void giveBackCode() { ::dl_iterate_phdr(letGoOfFile, nullptr); }

} // namespace opc::cli
