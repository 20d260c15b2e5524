// Places, lengths and gates of a recurrent layer in device code.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "DeviceTypes.cuh"
#include "IndexFault.cuh"
#include "recurrent/RecurrentArguments.h"

namespace opc::cuda {

using ops::RecurrentLayer;

/// A number of the state of a sequence in a direction: item `at` of [directions, batch, hidden].
struct RecurrentItem {
  const RecurrentLayer &r;
  int64_t at, i, b, d, length;

  __device__ RecurrentItem(const RecurrentLayer &layer, int64_t item)
      : r(layer), at(item), i(item % layer.hidden), b(item / layer.hidden % layer.batch),
        d(item / layer.hidden / layer.batch), length(layer.steps) {
    if (!r.lengths) return;
    const int64_t given = indexAt(r.lengths, r.wideLengths, b);
    length = given < 0 || given > r.steps ? 0 : given; // reportLength() says so
  }
  __device__ bool has(int64_t s) const { return s < length; }
  __device__ bool isBack() const { return r.reversed || d == 1; }
  /// Step s reads time s, or counts back from the sequence's own end.
  __device__ int64_t time(int64_t s) const { return isBack() ? length - 1 - s : s; }
  /// The row of time t among those of all directions.
  __device__ int64_t row(int64_t t) const { return d * r.rows() + (r.batchFirst ? b * r.steps + t : t * r.batch + b); }
  /// Element i of y's row of time t, and of a state in a tensor.
  __device__ int64_t output(int64_t t) const {
    return (r.batchFirst ? (b * r.steps + t) * r.directions + d : (t * r.directions + d) * r.batch + b) * r.hidden + i;
  }
  __device__ int64_t state() const { return (r.batchFirst ? b * r.directions + d : d * r.batch + b) * r.hidden + i; }
  /// Element i of gate 0 in a row of all gates; the next gate is r.hidden further.
  __device__ int64_t gates(int64_t t) const { return row(t) * r.columns + i; }
  __device__ int64_t stepGates() const { return (d * r.batch + b) * r.columns + i; }
  __device__ int64_t numbers(int64_t t) const { return row(t) * r.hidden + i; }
};

/// Reports the item's length where it is not in [0, steps]; its sequence then has no steps.
__device__ inline void reportLength(const RecurrentItem &e) {
  if (!e.r.lengths || e.i != 0 || e.d != 0) return;
  const int64_t given = indexAt(e.r.lengths, e.r.wideLengths, e.b);
  if (given < 0 || given > e.r.steps) reportIndex(e.r.fault, e.b, given);
}

/// f(item) for each number of the state.
template <class F> __device__ void forStates(const RecurrentLayer &r, F f) {
  const int64_t items = r.directions * r.batch * r.hidden;
#pragma unroll 1
  for (int64_t at = firstItem(); at < items; at += itemStep()) f(RecurrentItem(r, at));
}
/// f(item, t) for each number of the state at each time.
template <class F> __device__ void forTimes(const RecurrentLayer &r, F f) {
  const int64_t states = r.directions * r.batch * r.hidden, items = states * r.steps;
#pragma unroll 1
  for (int64_t at = firstItem(); at < items; at += itemStep()) f(RecurrentItem(r, at % states), at / states);
}

/// An element of a tensor of T, or zero where there is none.
template <class T> __device__ inline Compute<T> optional(const void *from, int64_t at) {
  return from ? load(static_cast<const T *>(from)[at]) : Compute<T>(0);
}
/// The bias of gate g: of x, and of the state.
template <class T> __device__ inline Compute<T> biasOfX(const RecurrentItem &e, int64_t g) {
  return optional<T>(e.r.bias, e.d * 2 * e.r.columns + g * e.r.hidden + e.i);
}
template <class T> __device__ inline Compute<T> biasOfState(const RecurrentItem &e, int64_t g) {
  return optional<T>(e.r.bias, (e.d * 2 + 1) * e.r.columns + g * e.r.hidden + e.i);
}
/// v times the weight with which the cell goes into a gate: nothing where there are no weights.
template <class T> __device__ inline Compute<T> byWeight(const RecurrentItem &e, int64_t k, Compute<T> v) {
  return e.r.peephole ? optional<T>(e.r.peephole, (e.d * 3 + k) * e.r.hidden + e.i) * v : Compute<T>(0);
}

/// One function for all gates, since each place would have all kinds.
template <class C>
__device__ __noinline__ ops::GatePoint<C> gatePointOf(ops::GateKind kind, C alpha, C beta, C limit, C v) {
  const C x = ops::heldIn(v, limit);
  ops::GatePoint<C> p{};
  ops::withGateKind(kind, [&](auto tag) { p = ops::gatePoint<decltype(tag)::value>(alpha, beta, x); });
  if (v > limit || v < -limit) p.slope = C(0);
  return p;
}
/// Function k of the item's direction at v, and its slope, which is 0 beyond the clip.
template <class C> __device__ inline ops::GatePoint<C> gate(const RecurrentItem &e, int k, C v) {
  const ops::GateFunction &f = e.r.functions[e.d][k];
  return gatePointOf(f.kind, static_cast<C>(f.alpha), static_cast<C>(f.beta), static_cast<C>(e.r.clip), v);
}

/// A kernel of the including file's Arguments: function<T> on them and the step, or on them alone. Either is launched
/// with a step.
#define OPC_RECURRENT_STEP(kernel, function, name, T)                                                                  \
  extern "C" __global__ void __launch_bounds__(256, 1)                                                                 \
      kernel##_##name(const __grid_constant__ Arguments a, int64_t s) {                                                \
    function<T>(a, s);                                                                                                 \
  }
#define OPC_RECURRENT_ONCE(kernel, function, name, T)                                                                  \
  extern "C" __global__ void __launch_bounds__(256, 1) kernel##_##name(const __grid_constant__ Arguments a, int64_t) { \
    function<T>(a);                                                                                                    \
  }

} // namespace opc::cuda
