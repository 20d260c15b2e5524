// A tensor in memory that others own.
// SPDX-License-Identifier: Apache-2.0
#include "StoredTensor.h"

#include <cstdint>
#include <sys/mman.h>

namespace opc {

void letGo(const StoredTensor &tensor) {
  if (!tensor.isMapped || tensor.bytes.empty()) return;
  constexpr uintptr_t kPage = 4096;
  const uintptr_t begin = reinterpret_cast<uintptr_t>(tensor.bytes.data()) & ~(kPage - 1),
                  end = reinterpret_cast<uintptr_t>(tensor.bytes.data()) + tensor.bytes.size();
  ::madvise(reinterpret_cast<void *>(begin), end - begin, MADV_DONTNEED);
}

} // namespace opc
