// Addends put together in a fixed order, so that the same addends always give the same bits.
// SPDX-License-Identifier: Apache-2.0
#include "OrderedSum.h"

#include "opc/Convert.h"
#include "opc/Dispatch.h"

#include <algorithm>
#include <limits>
#include <type_traits>

namespace opc::runtime {
namespace {

/// Elements that are accumulated at a time: an accumulator of f32 that stays in the first cache.
constexpr int64_t kBlock = 2048;

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
  using A = decltype(numberOf(T())); // what addends are accumulated in
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
  if constexpr (std::is_integral_v<T>)
    return std::numeric_limits<T>::min();
  else
    return T(-std::numeric_limits<float>::infinity());
}

template <class T> void fill(void *target, int64_t elements, BoxingReduction reduction) {
  std::fill_n(static_cast<T *>(target), elements, reduction == BoxingReduction::kSum ? T() : leastOf<T>());
}

} // namespace

bool combineInOrder(void *target, const void *const *sources, size_t count, int64_t elements, DataType type,
                    BoxingReduction reduction) {
  if (count == 0) return false;
  return visit<types::Numbers>(type, [&](auto tag) {
    return combine<typename decltype(tag)::type>(target, sources, count, elements, reduction);
  });
}

void fillNeutral(void *target, int64_t elements, DataType type, BoxingReduction reduction) {
  visit<types::Numbers>(type, [&](auto tag) { fill<typename decltype(tag)::type>(target, elements, reduction); });
}

bool isOrderFree(DataType type, BoxingReduction reduction, size_t addends) {
  if (IsIntegralDataType(type)) return true;
  // Maxima of floats are left out: which of 0 and -0 is larger is the library's own choice.
  return IsFloatingDataType(type) && reduction == BoxingReduction::kSum && addends <= 2;
}

} // namespace opc::runtime
