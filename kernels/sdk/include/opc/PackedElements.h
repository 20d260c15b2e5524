// Elements of fewer bits than a byte as files have them: packed, the first in the lowest bits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Dispatch.h"

#include <string>
#include <string_view>

namespace opc {

/// Whether files have less than a byte for an element.
inline bool isPackedInFiles(DataType type) { return elementType(type).bits > 0 && elementType(type).bits < 8; }

/// Integers of 2 and 4 bits.
inline bool isNarrowIntegerType(DataType type) { return isPackedInFiles(type) && type != kFloat4E2M1; }

/// Floats, those that are only stored among them.
inline bool holdsFractions(DataType type) {
  return IsFloatingDataType(type) || (contains<types::Storage>(type) && !isNarrowIntegerType(type));
}

/// Bytes of `count` elements in a file of ONNX or safetensors, the last one filled up.
inline size_t packedBytes(DataType type, size_t count) {
  if (!isPackedInFiles(type)) return count * GetSizeOfDataType(type);
  const auto each = static_cast<size_t>(8 / elementType(type).bits);
  return count / each + (count % each != 0);
}

/// From a byte each; of a type that isPackedInFiles().
inline std::string packElements(DataType type, std::string_view elements) {
  const auto bits = static_cast<unsigned>(elementType(type).bits), each = 8 / bits;
  std::string packed(packedBytes(type, elements.size()), '\0');
  for (size_t k = 0; k < elements.size(); ++k) {
    const unsigned low = static_cast<unsigned char>(elements[k]) & ((1U << bits) - 1);
    packed[k / each] = static_cast<char>(static_cast<unsigned char>(packed[k / each]) | low << (k % each * bits));
  }
  return packed;
}

/// Makes every byte one that an element may be: 0 or 1 for bool, the low bits with their sign for types under a byte.
inline void normalizeElements(DataType type, char *elements, size_t count) {
  if (type != kBool && !isPackedInFiles(type)) return;
  visit<Join<types::Bool, types::Storage>>(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (size_t k = 0; k < count; ++k) {
      if constexpr (isNarrowInteger<T>)
        elements[k] = static_cast<char>(static_cast<typename T::Value>(T(elements[k])));
      else
        elements[k] = static_cast<char>(std::is_same_v<T, bool> ? elements[k] != 0 : elements[k] & 0x0f);
    }
  });
}

/// A byte each, `count` of them; `packed` has packedBytes().
inline void unpackElements(DataType type, std::string_view packed, char *elements, size_t count) {
  const auto bits = static_cast<unsigned>(elementType(type).bits), each = 8 / bits;
  for (size_t k = 0; k < count; ++k)
    elements[k] =
        static_cast<char>(static_cast<unsigned char>(packed[k / each]) >> (k % each * bits) & ((1U << bits) - 1));
  normalizeElements(type, elements, count);
}

} // namespace opc
