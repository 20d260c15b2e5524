// The host's side of kernels for the types that are only stored.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Dispatch.h"
#include "type/StoredFormat.h"

namespace opc::ops {

inline bool isStored(DataType type) { return contains<types::Storage>(type); }

/// What device code is told of a type that isStored().
inline StoredFormat storedFormat(DataType type, bool saturates = true) {
  return visit<types::Storage>(type, [&](auto tag) -> StoredFormat {
    using T = typename decltype(tag)::type;
    StoredFormat f{};
    f.saturates = saturates;
    if constexpr (isNarrowInteger<T>) {
      f.bits = elementType(type).bits;
      f.isSigned = elementType(type).isSigned;
    } else {
      f.format = T::format();
    }
    return f;
  });
}

} // namespace opc::ops
