// The table of element conversions.
// SPDX-License-Identifier: Apache-2.0
#include "support/ConvertElements.h"

#include "opc/Convert.h"
#include "opc/Dispatch.h"
#include "opc/HalfConversion.h"

#include <algorithm>
#include <cstring>

namespace opc::ops {
namespace {

template <class T> constexpr bool isHalf = std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>;
constexpr int64_t kBlock = 1024; // of f32, for conversions through it

template <class From, class To, bool saturate = true> void convert(const void *fromV, void *toV, int64_t n) {
  const From *from = static_cast<const From *>(fromV);
  To *to = static_cast<To *>(toV);
  if constexpr (std::is_same_v<From, To>) {
    if (fromV != toV) std::memcpy(toV, fromV, static_cast<size_t>(n) * sizeof(To));
  } else if constexpr (isHalf<From> && std::is_same_v<To, float>) {
    cpu::widen(from, to, n);
  } else if constexpr (isHalf<To> && std::is_same_v<From, float>) {
    cpu::narrow(from, to, n);
  } else if constexpr (isHalf<From>) {
    float block[kBlock];
    for (int64_t i = 0; i < n; i += kBlock) {
      const int64_t m = std::min(kBlock, n - i);
      cpu::widen(from + i, block, m);
      convert<float, To, saturate>(block, to + i, m);
    }
  } else if constexpr (isHalf<To>) {
    float block[kBlock];
    for (int64_t i = 0; i < n; i += kBlock) {
      const int64_t m = std::min(kBlock, n - i);
      for (int64_t k = 0; k < m; ++k) block[k] = detail::beforeRounding(numberOf(from[i + k]));
      cpu::narrow(block, to + i, m);
    }
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = convertElement<To>(from[i], saturate);
  }
}

} // namespace

ConvertFn converter(DataType from, DataType to, bool saturate) {
  return visit(from, [&](auto source) {
    return visit(to, [&](auto target) -> ConvertFn {
      using From = typename decltype(source)::type;
      using To = typename decltype(target)::type;
      if constexpr (contains<types::Storage>(GetDataType<To>::value))
        if (!saturate) return convert<From, To, false>;
      return convert<From, To>;
    });
  });
}

} // namespace opc::ops
