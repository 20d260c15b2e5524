// Values of variables that lie elsewhere than in a plan's message.
// SPDX-License-Identifier: Apache-2.0
#include "OutsideValues.h"

#include <cstdint>
#include <sys/mman.h>

namespace opc {

void ValuePages::letGo() {
  inMemory_ = 0;
  if (mapped_.empty()) return;
  constexpr uintptr_t kPage = 4096;
  const size_t before = reinterpret_cast<uintptr_t>(mapped_.data()) & (kPage - 1); // of the first page
  ::madvise(const_cast<char *>(mapped_.data() - before), mapped_.size() + before, MADV_DONTNEED);
}

std::string_view dataOf(const plan::Interface::Variable &variable, const OutsideValues &outside) {
  const auto found = outside.find(&variable);
  return found == outside.end() ? std::string_view(variable.data()) : found->second.bytes;
}

} // namespace opc
