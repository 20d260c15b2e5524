// Telling the host of an index that is out of its range, without ending the kernel.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "IndexFault.h"

namespace opc::cuda {

/// Index `position` of a tensor has this value, which is none that it may have.
__device__ inline void reportIndex(IndexFault *fault, int64_t position, int64_t value) {
  using Word = unsigned long long;
  const Word at = static_cast<Word>(position < kLastPosition ? position : kLastPosition) << 32;
  atomicMin(reinterpret_cast<Word *>(&fault->low), at | (static_cast<Word>(value) & 0xffffffffu));
  atomicMin(reinterpret_cast<Word *>(&fault->high), at | static_cast<Word>(value) >> 32);
}

/// Indices are i32 or i64.
__device__ inline int64_t indexAt(const void *indices, int32_t isWide, int64_t i) {
  return isWide ? static_cast<const int64_t *>(indices)[i] : static_cast<const int32_t *>(indices)[i];
}

} // namespace opc::cuda
