// What the functions of gates compute, with their slopes: on the CPU and in device code.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/ScalarMath.h"

#include <cstdint>
#include <type_traits>

namespace opc::ops {

enum class GateKind : int32_t {
  kSigmoid,         // 1 / (1 + e^-x)
  kTanh,            // tanh x
  kRelu,            // max(0, x)
  kAffine,          // alpha x + beta
  kLeakyRelu,       // x below 0: alpha x
  kThresholdedRelu, // x from alpha on, else 0
  kScaledTanh,      // alpha tanh(beta x)
  kHardSigmoid,     // alpha x + beta, held in [0, 1]
  kElu,             // x below 0: alpha (e^x - 1)
  kSoftsign,        // x / (1 + |x|)
  kSoftplus,        // log(1 + e^x)
};

struct GateFunction {
  GateKind kind = GateKind::kSigmoid;
  double alpha = 0, beta = 0;
};

template <class T> struct GatePoint {
  T value, slope;
};

/// The function of this kind and its slope at x.
template <GateKind kind, class T> OPC_HOST_DEVICE OPC_SCALAR_INLINE GatePoint<T> gatePoint(T a, T b, T x) {
  using S = scalar::Functions;
  if constexpr (kind == GateKind::kSigmoid) {
    const T y = S::sigmoid(x);
    return {y, y * (T(1) - y)};
  } else if constexpr (kind == GateKind::kTanh) {
    const T y = S::tanh(x);
    return {y, T(1) - y * y};
  } else if constexpr (kind == GateKind::kRelu) {
    return {x < T(0) ? T(0) : x, x > T(0) ? T(1) : T(0)};
  } else if constexpr (kind == GateKind::kAffine) {
    return {a * x + b, a};
  } else if constexpr (kind == GateKind::kLeakyRelu) {
    return {x < T(0) ? a * x : x, x < T(0) ? a : T(1)};
  } else if constexpr (kind == GateKind::kThresholdedRelu) {
    return {x < a ? T(0) : x, x < a ? T(0) : T(1)};
  } else if constexpr (kind == GateKind::kScaledTanh) {
    const T y = S::tanh(b * x);
    return {a * y, a * b * (T(1) - y * y)};
  } else if constexpr (kind == GateKind::kHardSigmoid) {
    const T y = a * x + b;
    return {y < T(0) ? T(0) : y > T(1) ? T(1) : y, y > T(0) && y < T(1) ? a : T(0)};
  } else if constexpr (kind == GateKind::kElu) {
    return {x < T(0) ? a * S::expm1(x) : x, x < T(0) ? a * S::exp(x) : T(1)};
  } else if constexpr (kind == GateKind::kSoftsign) {
    const T y = T(1) / (T(1) + S::abs(x));
    return {x * y, y * y};
  } else {
    return {S::softplus(x), S::sigmoid(x)};
  }
}

/// What the function gets of v; comparisons in this order let NaN through.
template <class T> OPC_HOST_DEVICE OPC_SCALAR_INLINE T heldIn(T v, T limit) {
  const T below = v > limit ? limit : v;
  return below < -limit ? -limit : below;
}

template <GateKind kind> using GateKindTag = std::integral_constant<GateKind, kind>;
/// f(tag of the kind).
template <class F> OPC_HOST_DEVICE OPC_SCALAR_INLINE void withGateKind(GateKind kind, F f) {
  switch (kind) {
  case GateKind::kSigmoid: return f(GateKindTag<GateKind::kSigmoid>());
  case GateKind::kTanh: return f(GateKindTag<GateKind::kTanh>());
  case GateKind::kRelu: return f(GateKindTag<GateKind::kRelu>());
  case GateKind::kAffine: return f(GateKindTag<GateKind::kAffine>());
  case GateKind::kLeakyRelu: return f(GateKindTag<GateKind::kLeakyRelu>());
  case GateKind::kThresholdedRelu: return f(GateKindTag<GateKind::kThresholdedRelu>());
  case GateKind::kScaledTanh: return f(GateKindTag<GateKind::kScaledTanh>());
  case GateKind::kHardSigmoid: return f(GateKindTag<GateKind::kHardSigmoid>());
  case GateKind::kElu: return f(GateKindTag<GateKind::kElu>());
  case GateKind::kSoftsign: return f(GateKindTag<GateKind::kSoftsign>());
  case GateKind::kSoftplus: return f(GateKindTag<GateKind::kSoftplus>());
  }
}

} // namespace opc::ops
