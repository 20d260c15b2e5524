// The table of element conversions.
// SPDX-License-Identifier: Apache-2.0
#include "support/ConvertElements.h"

#include "opc/HalfConversion.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace opc::ops {
namespace {

template <class T> constexpr bool isHalf = std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>;
constexpr int64_t kBlock = 1024; // of f32, for conversions through it

/// f64 to f32 such that rounding the result to f16 or bf16 equals rounding once: inexact results get an odd last bit.
float roundToOdd(double d) {
  float f = static_cast<float>(d);
  if (static_cast<double>(f) == d || std::isnan(d)) return f;
  uint32_t bits = detail::floatToBits(f);
  if (std::abs(static_cast<double>(f)) > std::abs(d)) --bits; // toward zero first
  return detail::bitsToFloat(bits | 1u);
}

template <class F, class I> I saturate(F x) {
  // The first float beyond the range: 2^bits for unsigned, 2^(bits-1) for signed.
  constexpr F above = static_cast<F>(std::numeric_limits<I>::max() / 2 + 1) * 2;
  constexpr F lowest = static_cast<F>(std::numeric_limits<I>::lowest());
  if (!(x > lowest)) return x <= lowest ? std::numeric_limits<I>::lowest() : I{0};
  return x >= above ? std::numeric_limits<I>::max() : static_cast<I>(x);
}

template <class From, class To> To convertOne(From x) {
  if constexpr (std::is_same_v<To, bool>)
    return x != From(0);
  else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>)
    return saturate<From, To>(x);
  else
    return static_cast<To>(x);
}

template <class From, class To> void convert(const void *fromV, void *toV, int64_t n) {
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
      convert<float, To>(block, to + i, m);
    }
  } else if constexpr (isHalf<To>) {
    float block[kBlock];
    for (int64_t i = 0; i < n; i += kBlock) {
      const int64_t m = std::min(kBlock, n - i);
      for (int64_t k = 0; k < m; ++k) {
        if constexpr (std::is_same_v<From, double> || (std::is_integral_v<From> && sizeof(From) >= 4))
          block[k] = roundToOdd(static_cast<double>(from[i + k]));
        else
          block[k] = static_cast<float>(from[i + k]);
      }
      cpu::narrow(block, to + i, m);
    }
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = convertOne<From, To>(from[i]);
  }
}

template <class From> ConvertFn converterFrom(DataType to) {
  switch (to) {
  case kFloat: return convert<From, float>;
  case kDouble: return convert<From, double>;
  case kFloat16: return convert<From, float16>;
  case kBFloat16: return convert<From, bfloat16>;
  case kInt8: return convert<From, int8_t>;
  case kInt16: return convert<From, int16_t>;
  case kInt32: return convert<From, int32_t>;
  case kInt64: return convert<From, int64_t>;
  case kUInt8: return convert<From, uint8_t>;
  case kUInt16: return convert<From, uint16_t>;
  case kUInt32: return convert<From, uint32_t>;
  case kUInt64: return convert<From, uint64_t>;
  case kBool: return convert<From, bool>;
  default: return nullptr;
  }
}

} // namespace

ConvertFn converter(DataType from, DataType to) {
  switch (from) {
  case kFloat: return converterFrom<float>(to);
  case kDouble: return converterFrom<double>(to);
  case kFloat16: return converterFrom<float16>(to);
  case kBFloat16: return converterFrom<bfloat16>(to);
  case kInt8: return converterFrom<int8_t>(to);
  case kInt16: return converterFrom<int16_t>(to);
  case kInt32: return converterFrom<int32_t>(to);
  case kInt64: return converterFrom<int64_t>(to);
  case kUInt8: return converterFrom<uint8_t>(to);
  case kUInt16: return converterFrom<uint16_t>(to);
  case kUInt32: return converterFrom<uint32_t>(to);
  case kUInt64: return converterFrom<uint64_t>(to);
  case kBool: return converterFrom<bool>(to);
  default: return nullptr;
  }
}

} // namespace opc::ops
