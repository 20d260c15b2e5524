// Elements as bytes, for kernels that move them whatever they are.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Tensor.h"
#include "support/ConvertElements.h"

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

/// The bytes of an element with this value, in the lowest ones.
template <class From> uint64_t elementBits(DataType type, From value) {
  uint64_t bits = 0;
  converter(GetDataType<From>::value, type)(&value, &bits, 1);
  return bits;
}
/// Of `floating` for floating types, else of `integral`.
inline uint64_t elementBits(DataType type, double floating, int64_t integral) {
  return IsFloatingDataType(type) ? elementBits(type, floating) : elementBits(type, integral);
}

} // namespace opc::ops
