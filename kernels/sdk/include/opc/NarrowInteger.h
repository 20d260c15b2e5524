// Integers of 2 and 4 bits, a byte each in memory; nothing computes in them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

namespace opc {

/// The value, sign included, is the byte; where one comes from outside, its upper bits are not looked at.
template <int kBits, bool kSigned> struct NarrowInteger {
  using Value = std::conditional_t<kSigned, int8_t, uint8_t>;
  static constexpr int kLowest = kSigned ? -(1 << (kBits - 1)) : 0, kHighest = kLowest + (1 << kBits) - 1;
  Value value = 0;
  NarrowInteger() = default;
  /// The low bits.
  constexpr explicit NarrowInteger(int v) : value(lowBits(v)) {}
  constexpr explicit operator Value() const { return lowBits(value); }

private:
  static constexpr Value lowBits(int v) {
    const int low = v & ((1 << kBits) - 1);
    return static_cast<Value>(low > kHighest ? low - (1 << kBits) : low);
  }
};
using narrow_i4 = NarrowInteger<4, true>;
using narrow_u4 = NarrowInteger<4, false>;
using narrow_i2 = NarrowInteger<2, true>;
using narrow_u2 = NarrowInteger<2, false>;

template <class T> constexpr bool isNarrowInteger = false;
template <int kBits, bool kSigned> constexpr bool isNarrowInteger<NarrowInteger<kBits, kSigned>> = true;

} // namespace opc
