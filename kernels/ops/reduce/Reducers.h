// The reducers: how sums, products, extremes and truth values accumulate for each element type.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reduce/RunReduce.h"

#include <limits>

namespace opc::ops::reduce {

/// The type in which elements of T are handled.
template <class T> using LoadOf = std::conditional_t<isHalf<T>, float, T>;
/// Sums and products: floats accumulate as described in RunReduce.h; integers modulo 2^64, which truncates to any
/// narrower type without loss.
template <class T> using SumLane = std::conditional_t<std::is_integral_v<LoadOf<T>>, uint64_t, LoadOf<T>>;
template <class T> using SumAcc = std::conditional_t<std::is_integral_v<LoadOf<T>>, uint64_t, double>;

/// A sum of elements, or of what a step that hides this one takes of them.
template <class T, class L, class A> struct SumIn {
  using Load = LoadOf<T>;
  using Lane = L;
  using Acc = A;
  Lane lane0() const { return 0; }
  Acc acc0() const { return 0; }
  Lane step(Lane a, Load x, double) const { return a + static_cast<Lane>(x); }
  Lane join(Lane a, Lane b) const { return a + b; }
  Acc merge(Acc a, Lane b) const { return a + static_cast<Acc>(b); }
  Acc combine(Acc a, Acc b) const { return a + b; }
};
template <class T> struct SumReducer : SumIn<T, SumLane<T>, SumAcc<T>> {};

template <class T> struct ProdReducer {
  using Load = LoadOf<T>;
  // f64 throughout: the product of a block may leave the range of f32 though the whole does not.
  using Lane = SumAcc<T>;
  using Acc = SumAcc<T>;
  Lane lane0() const { return 1; }
  Acc acc0() const { return 1; }
  Lane step(Lane a, Load x, double) const { return a * static_cast<Lane>(x); }
  Lane join(Lane a, Lane b) const { return a * b; }
  Acc merge(Acc a, Lane b) const { return a * b; }
  Acc combine(Acc a, Acc b) const { return a * b; }
};

/// kMax: the largest element, else the smallest; NaN wins over everything.
template <class T, bool kMax> struct ExtremeReducer {
  using Load = LoadOf<T>;
  using Lane = Load;
  using Acc = Load;
  static constexpr Load identity() {
    using L = std::numeric_limits<Load>;
    if constexpr (L::has_infinity)
      return kMax ? -L::infinity() : L::infinity();
    else
      return kMax ? L::lowest() : L::max();
  }
  Lane lane0() const { return identity(); }
  Acc acc0() const { return identity(); }
  static Lane pick(Lane a, Load x) {
    Lane r = (kMax ? x > a : x < a) ? x : a; // keeps a NaN in a
    if constexpr (std::is_floating_point_v<Load>) r = x != x ? x : r;
    return r;
  }
  Lane step(Lane a, Load x, double) const { return pick(a, x); }
  Lane join(Lane a, Lane b) const { return pick(a, b); }
  Acc merge(Acc a, Lane b) const { return pick(a, b); }
  Acc combine(Acc a, Acc b) const { return pick(a, b); }
};
template <class T> using MaxReducer = ExtremeReducer<T, true>;
template <class T> using MinReducer = ExtremeReducer<T, false>;

/// kAll: are all elements non-zero, else: is any. NaN is non-zero.
template <class T, bool kAll> struct TruthReducer {
  using Load = T;
  using Lane = uint8_t;
  using Acc = uint8_t;
  Lane lane0() const { return kAll; }
  Acc acc0() const { return kAll; }
  static Lane both(Lane a, Lane b) { return kAll ? (a & b) : (a | b); }
  Lane step(Lane a, Load x, double) const { return both(a, x != Load(0)); }
  Lane join(Lane a, Lane b) const { return both(a, b); }
  Acc merge(Acc a, Lane b) const { return both(a, b); }
  Acc combine(Acc a, Acc b) const { return both(a, b); }
};

/// Acc to the output's element type.
template <class Out, class Acc> Out finish(Acc a) {
  if constexpr (isHalf<Out>)
    return Out(static_cast<float>(a));
  else
    return static_cast<Out>(a);
}

} // namespace opc::ops::reduce
