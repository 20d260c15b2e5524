// Addends put together in a fixed order, so that the same addends always give the same bits.
// SPDX-License-Identifier: Apache-2.0
#include "OrderedSum.h"

#include <algorithm>
#include <limits>
#include <type_traits>

namespace opc::runtime {
namespace {

/// Elements that are accumulated at a time: an accumulator of f32 that stays in the first cache.
constexpr int64_t kBlock = 2048;

/// The type that addends of T are accumulated in.
template <class T> struct Accumulator {
  using type = T;
};
template <> struct Accumulator<float16> {
  using type = float;
};
template <> struct Accumulator<bfloat16> {
  using type = float;
};

/// Integers wrap around, so they are added as unsigned.
struct Add {
  template <class A> A operator()(A a, A b) const {
    if constexpr (std::is_integral_v<A>) {
      using U = std::make_unsigned_t<A>;
      return static_cast<A>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
    } else {
      return a + b;
    }
  }
};
struct Larger {
  template <class A> A operator()(A a, A b) const {
    if constexpr (std::is_integral_v<A>) return a < b ? b : a;
    // NaN wins, whichever side it is on.
    else
      return a >= b || a != a ? a : b;
  }
};

template <class T, class Op>
void combine(T *target, const void *const *sources, size_t count, int64_t elements, Op op) {
  using A = typename Accumulator<T>::type;
  A accumulator[kBlock];
  for (int64_t begin = 0; begin < elements; begin += kBlock) {
    const int64_t n = std::min(kBlock, elements - begin);
    const T *first = static_cast<const T *>(sources[0]) + begin;
    T *out = target + begin;
    size_t next = 1;
    if (count > 1) {
      const T *second = static_cast<const T *>(sources[next++]) + begin;
      for (int64_t i = 0; i < n; ++i) accumulator[i] = op(static_cast<A>(first[i]), static_cast<A>(second[i]));
    } else {
      for (int64_t i = 0; i < n; ++i) accumulator[i] = static_cast<A>(first[i]);
    }
    for (; next < count; ++next) {
      const T *addend = static_cast<const T *>(sources[next]) + begin;
      for (int64_t i = 0; i < n; ++i) accumulator[i] = op(accumulator[i], static_cast<A>(addend[i]));
    }
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(accumulator[i]);
  }
}

template <class T>
bool combine(void *target, const void *const *sources, size_t count, int64_t elements, BoxingReduction reduction) {
  if (reduction == BoxingReduction::kSum)
    combine(static_cast<T *>(target), sources, count, elements, Add());
  else
    combine(static_cast<T *>(target), sources, count, elements, Larger());
  return true;
}

template <class T> T leastOf() {
  if constexpr (std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>)
    return T(-std::numeric_limits<float>::infinity());
  else if constexpr (std::is_floating_point_v<T>)
    return -std::numeric_limits<T>::infinity();
  else
    return std::numeric_limits<T>::min();
}

template <class T> void fill(void *target, int64_t elements, BoxingReduction reduction) {
  std::fill_n(static_cast<T *>(target), elements, reduction == BoxingReduction::kSum ? T() : leastOf<T>());
}

/// Calls f with a value of the C++ type; `otherwise` for types that are no numbers.
template <class R, class F> R dispatch(DataType type, R otherwise, F &&f) {
  switch (type) {
  case kFloat: return f(float());
  case kDouble: return f(double());
  case kFloat16: return f(float16());
  case kBFloat16: return f(bfloat16());
  case kInt8: return f(int8_t());
  case kInt16: return f(int16_t());
  case kInt32: return f(int32_t());
  case kInt64: return f(int64_t());
  case kUInt8: return f(uint8_t());
  case kUInt16: return f(uint16_t());
  case kUInt32: return f(uint32_t());
  case kUInt64: return f(uint64_t());
  default: return otherwise;
  }
}

} // namespace

bool combineInOrder(void *target, const void *const *sources, size_t count, int64_t elements, DataType type,
                    BoxingReduction reduction) {
  if (count == 0) return false;
  return dispatch(type, false,
                  [&](auto zero) { return combine<decltype(zero)>(target, sources, count, elements, reduction); });
}

void fillNeutral(void *target, int64_t elements, DataType type, BoxingReduction reduction) {
  dispatch(type, false, [&](auto zero) {
    fill<decltype(zero)>(target, elements, reduction);
    return true;
  });
}

bool isOrderFree(DataType type, BoxingReduction reduction, size_t addends) {
  if (IsIntegralDataType(type)) return true;
  // Maxima of floats are left out: which of 0 and -0 is larger is the library's own choice.
  return IsFloatingDataType(type) && reduction == BoxingReduction::kSum && addends <= 2;
}

} // namespace opc::runtime
