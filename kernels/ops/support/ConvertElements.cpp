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

/// Are they all in [-2^24, 2^24), where every integer is an f32?
template <class From> bool areExactInFloat(const From *from, int64_t n) {
  using Bits = std::make_unsigned_t<From>;
  constexpr Bits shift = std::is_signed_v<From> ? Bits{1} << 24 : Bits{0};
  Bits seen = 0;
  for (int64_t k = 0; k < n; ++k) seen |= static_cast<Bits>(from[k]) + shift;
  return seen >> (std::is_signed_v<From> ? 25 : 24) == 0;
}

/// f32 that may be rounded once more, to a half type.
template <class From> void toFloats(const From *from, float *to, int64_t n) {
  if constexpr (std::is_integral_v<From> && sizeof(From) >= 4)
    if (areExactInFloat(from, n)) { // the usual case, and the only one that vector instructions know
      for (int64_t k = 0; k < n; ++k) to[k] = static_cast<float>(static_cast<int32_t>(from[k]));
      return;
    }
  for (int64_t k = 0; k < n; ++k) to[k] = detail::beforeRounding(numberOf(from[k]));
}

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
      toFloats(from + i, block, m);
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
