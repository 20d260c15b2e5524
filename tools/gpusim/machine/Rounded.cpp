// Arithmetic in the processor's other rounding modes; compiled so that nothing is moved across a change of mode.
// SPDX-License-Identifier: Apache-2.0
#include "Rounded.h"
#include "Lanes.h"
#include "SmallFloats.h"

#include <cfenv>
#include <cmath>
#include <limits>

namespace opc::gpusim {

namespace {

class Mode {
public:
  explicit Mode(Rounding r) : before_(std::fegetround()) {
    std::fesetround(r == Rounding::kZero ? FE_TOWARDZERO : r == Rounding::kDown ? FE_DOWNWARD : FE_UPWARD);
  }
  ~Mode() { std::fesetround(before_); }

private:
  int before_;
};

template <class T, RoundedOp Op> T compute(T a, T b, T c) {
  volatile T u = a, v = b, w = c; // evaluated now, in the mode that holds now
  T r;
  if constexpr (Op == RoundedOp::kAdd)
    r = u + v;
  else if constexpr (Op == RoundedOp::kSub)
    r = u - v;
  else if constexpr (Op == RoundedOp::kMul)
    r = u * v;
  else if constexpr (Op == RoundedOp::kDiv)
    r = u / v;
  else if constexpr (Op == RoundedOp::kFma)
    r = std::fma(T(u), T(v), T(w));
  else if constexpr (Op == RoundedOp::kRcp)
    r = T(1) / u;
  else
    r = std::sqrt(T(u));
  volatile T result = r;
  return result;
}

template <class T, RoundedOp Op> Step rounded(Lanes &x, const Code &c) {
  const uint64_t *a = x.source(c.a), *b = x.source(c.b), *e = x.source(c.c);
  uint64_t *d = x.destination(c.dst);
  auto flush = [&](T v) {
    return (c.flags & 1) && sizeof(T) == 4 && std::fabs(v) < std::numeric_limits<T>::min() ? std::copysign(T(0), v) : v;
  };
  Mode mode(Rounding(c.detail));
  each(x.active, [&](int l) {
    T r = flush(compute<T, Op>(flush(get<T>(a[l])), flush(get<T>(b[l])), flush(get<T>(e[l]))));
    if (c.flags & 2) r = r > T(0) ? (r < T(1) ? r : T(1)) : T(0);
    if (r != r)
      d[l] = sizeof(T) == 4 ? 0x7fffffff : 0xfff8000000000000;
    else
      d[l] = put<T>(r);
  });
  return Step::kNext;
}

template <RoundedOp Op> Handler typed(bool isDouble) { return isDouble ? rounded<double, Op> : rounded<float, Op>; }

} // namespace

Handler roundedHandler(RoundedOp op, bool isDouble) {
  switch (op) {
  case RoundedOp::kAdd: return typed<RoundedOp::kAdd>(isDouble);
  case RoundedOp::kSub: return typed<RoundedOp::kSub>(isDouble);
  case RoundedOp::kMul: return typed<RoundedOp::kMul>(isDouble);
  case RoundedOp::kDiv: return typed<RoundedOp::kDiv>(isDouble);
  case RoundedOp::kFma: return typed<RoundedOp::kFma>(isDouble);
  case RoundedOp::kRcp: return typed<RoundedOp::kRcp>(isDouble);
  case RoundedOp::kSqrt: return typed<RoundedOp::kSqrt>(isDouble);
  }
  return nullptr;
}

} // namespace opc::gpusim
