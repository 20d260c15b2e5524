// Dispatch on the size of elements, for kernels that move them whatever they are.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Tensor.h"

#include <cstdint>
#include <string>

namespace opc::ops {

/// Calls f with a value of an unsigned type of `bytes` bytes: dispatch on the element size.
template <class F> auto withElementSize(size_t bytes, F &&f) {
  switch (bytes) {
  case 1: return f(uint8_t{});
  case 2: return f(uint16_t{});
  case 4: return f(uint32_t{});
  case 8: return f(uint64_t{});
  default: throw ContractError("elements of " + std::to_string(bytes) + " bytes cannot be moved");
  }
}

inline size_t elementSize(const user_op::Tensor &tensor) { return GetSizeOfDataType(tensor.data_type()); }

} // namespace opc::ops
