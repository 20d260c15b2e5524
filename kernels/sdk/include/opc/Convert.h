// The conversion of one element to another type: the op cast, --cast, fills and constants all convert with it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/DataType.h"
#include "opc/ScalarFloat.h"

#include <cmath>
#include <limits>

namespace opc {

/// f16, bf16 and floats of a byte or less: what C++ has no arithmetic for.
template <class T> constexpr bool isShortFloat = !std::is_arithmetic_v<T> && !isNarrowInteger<T>;

/// The number that an element is, in a type that computes and holds it exactly: f32 for the short floats, i8 or u8 for
/// the narrow integers.
template <class T> OPC_HOST_DEVICE auto numberOf(T v) {
  if constexpr (isShortFloat<T>)
    return static_cast<float>(v);
  else if constexpr (isNarrowInteger<T>)
    return static_cast<typename T::Value>(v);
  else
    return v;
}

/// f64 to f32 such that rounding the result to a short float equals rounding once: inexact results get an odd last bit.
OPC_HOST_DEVICE inline float roundToOdd(double d) {
  float f = static_cast<float>(d);
  if (static_cast<double>(f) == d || std::isnan(d)) return f;
  uint32_t bits = detail::floatToBits(f);
  if (std::abs(static_cast<double>(f)) > std::abs(d)) --bits; // toward zero first
  return detail::bitsToFloat(bits | 1u);
}

namespace detail {
/// A number as an f32 that may be rounded to a short float.
template <class From> OPC_HOST_DEVICE float beforeRounding(From x) {
  if constexpr (std::is_same_v<From, float> || (std::is_integral_v<From> && sizeof(From) <= 2)) {
    return static_cast<float>(x);
  } else if constexpr (std::is_integral_v<From> && sizeof(From) == 8) {
    using U = std::make_unsigned_t<From>;
    const bool negative = x < From(0);
    U magnitude = negative ? U(0) - static_cast<U>(x) : static_cast<U>(x);
    // Of more than 53 bits the last 11 become one that says whether any was set: to odd here, too.
    if (magnitude >> 53) magnitude = (magnitude >> 11 | U((magnitude & 0x7ffu) != 0)) << 11;
    const double d = static_cast<double>(magnitude);
    return roundToOdd(negative ? -d : d);
  } else {
    return roundToOdd(static_cast<double>(x));
  }
}

template <class I, class F> OPC_HOST_DEVICE I saturate(F x) {
  // The first float beyond the range: 2^bits for unsigned, 2^(bits-1) for signed.
  constexpr F above = static_cast<F>(std::numeric_limits<I>::max() / 2 + 1) * 2;
  constexpr F lowest = static_cast<F>(std::numeric_limits<I>::lowest());
  if (!(x > lowest)) return x <= lowest ? std::numeric_limits<I>::lowest() : I{0};
  return x >= above ? std::numeric_limits<I>::max() : static_cast<I>(x);
}

template <class To, class From> constexpr bool inRange(From x) {
  constexpr To lowest = std::numeric_limits<To>::lowest(), highest = std::numeric_limits<To>::max();
  if constexpr (std::is_signed_v<From> == std::is_signed_v<To>)
    return x >= lowest && x <= highest;
  else if constexpr (std::is_signed_v<From>)
    return x >= 0 && static_cast<std::make_unsigned_t<From>>(x) <= highest;
  else
    return x <= static_cast<std::make_unsigned_t<To>>(highest);
}
} // namespace detail

/// To a narrower float: rounds once, to nearest, ties to even. Float to integer: truncates toward zero, saturates at
/// the integer's range, NaN gives 0. Integer to narrower integer: keeps the low bits. To bool: `x != 0`, so that NaN is
/// true; bool gives 0 or 1. To floats of a byte or less: as byteOf.
template <class To, class From> OPC_HOST_DEVICE To convertElement(From x, [[maybe_unused]] bool saturate = true) {
  if constexpr (std::is_same_v<To, From>)
    return x;
  else if constexpr (isShortFloat<From> || isNarrowInteger<From>)
    return convertElement<To>(numberOf(x), saturate);
  else if constexpr (std::is_same_v<To, bool>)
    return x != From(0);
  else if constexpr (isNarrowInteger<To> && std::is_floating_point_v<From>)
    return To(x > From(To::kHighest)  ? To::kHighest
              : x > From(To::kLowest) ? static_cast<int>(x)
              : x != x                ? 0
                                      : To::kLowest);
  else if constexpr (isNarrowInteger<To>)
    return To(static_cast<int>(x));
  else if constexpr (isShortFloat<To> && sizeof(To) == 1)
    return To::fromFloat(detail::beforeRounding(x), saturate);
  else if constexpr (isShortFloat<To>)
    return To(detail::beforeRounding(x));
  else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>)
    return detail::saturate<To>(x);
  else
    return static_cast<To>(x);
}

/// True when the conversion only rounds or truncates: no finite number, and no infinity, becomes another kind of value
/// or leaves an integer's range. NaN fits bool and every float that has one.
template <class To, class From> bool fitsElement(From x) {
  if constexpr (isShortFloat<From> || isNarrowInteger<From>) {
    return fitsElement<To>(numberOf(x));
  } else if constexpr (std::is_same_v<To, bool> || std::is_same_v<To, From>) {
    return true;
  } else if constexpr (isNarrowInteger<To>) {
    using Value = typename To::Value;
    return fitsElement<Value>(x) && convertElement<Value>(x) >= To::kLowest && convertElement<Value>(x) <= To::kHighest;
  } else if constexpr (std::is_same_v<To, float4_e2m1>) { // which has no code for what is too large
    constexpr uint8_t tooLarge = 0xff;
    ByteFormat format = To::format();
    format.tooLarge = format.nan = tooLarge;
    return byteOf(format, detail::beforeRounding(x), false) != tooLarge;
  } else if constexpr (!std::is_integral_v<To>) {
    const auto result = numberOf(convertElement<To>(x, false));
    if constexpr (std::is_floating_point_v<From>)
      if (!std::isfinite(x)) return std::isnan(x) ? std::isnan(result) : std::isinf(result);
    return std::isfinite(result);
  } else if constexpr (std::is_floating_point_v<From>) {
    const double whole = std::trunc(static_cast<double>(x));
    // 2^63 and 2^64 are doubles, the largest i64 and u64 are not: compare with the first value that is too large.
    const double above = std::ldexp(1.0, std::numeric_limits<To>::digits);
    return whole < above && whole >= static_cast<double>(std::numeric_limits<To>::lowest());
  } else {
    return detail::inRange<To>(x);
  }
}

} // namespace opc
