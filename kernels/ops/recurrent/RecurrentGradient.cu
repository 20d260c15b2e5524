// The gradients of recurrent layers but for their products: back through the steps with a thread for each number of the
// state.
// SPDX-License-Identifier: Apache-2.0
#include "recurrent/RecurrentDevice.cuh"

namespace opc::cuda {
namespace {

using Arguments = ops::RecurrentBackwardArguments;

/// Temporary memory at `at`.
template <class T> __device__ inline Compute<T> &own(void *memory, int64_t at) {
  return static_cast<Compute<T> *>(memory)[at];
}

/// The gradients of the last states. Reports lengths that are not in [0, steps].
template <class T> __device__ void start(const Arguments &a) {
  forStates(a.layer, [&](const RecurrentItem &e) {
    own<T>(a.dh, e.at) = optional<T>(a.dyH, e.state());
    own<T>(a.dc, e.at) = optional<T>(a.dyC, e.state());
    reportLength(e);
  });
}
template <class T> __device__ void end(const Arguments &a) {
  forStates(a.layer, [&](const RecurrentItem &e) {
    if (a.dinitialH) static_cast<T *>(a.dinitialH)[e.state()] = stored<T>(own<T>(a.dh, e.at));
    if (a.dinitialC) static_cast<T *>(a.dinitialC)[e.state()] = stored<T>(own<T>(a.dc, e.at));
  });
}

/// The state before each step, and zeros behind the ends.
template <class T> __device__ void before(const Arguments &a) {
  using C = Compute<T>;
  forTimes(a.layer, [&](const RecurrentItem &e, int64_t t) {
    C state = C(0);
    if (e.has(t)) {
      const int64_t s = e.time(t); // turning time and step into each other is the same
      state = s == 0 ? optional<T>(a.initialH, e.state()) : load(static_cast<const T *>(a.y)[e.output(e.time(s - 1))]);
    }
    own<T>(a.before, e.numbers(t)) = state;
  });
}

/// Behind the ends nothing was computed: zeros for the products over all rows.
template <class T> __device__ void clearGates(const Arguments &a, const RecurrentItem &e, int64_t t) {
  for (int64_t at = 0; at < e.r.columns; at += e.r.hidden) own<T>(a.values, e.gates(t) + at) = Compute<T>(0);
}
/// Gate g becomes function k of its sum, and has its slope.
template <class T>
__device__ inline Compute<T> activate(const Arguments &a, const RecurrentItem &e, int64_t t, int g, int k,
                                      Compute<T> sum) {
  const int64_t at = e.gates(t) + g * e.r.hidden;
  const ops::GatePoint<Compute<T>> p = gate(e, k, sum);
  own<T>(a.values, at) = p.value;
  own<T>(a.slopes, at) = p.slope;
  return p.value;
}
template <class T> __device__ inline Compute<T> sumOf(const Arguments &a, const RecurrentItem &e, int64_t t, int g) {
  return own<T>(a.values, e.gates(t) + g * e.r.hidden) + biasOfX<T>(e, g) + biasOfState<T>(e, g);
}

template <class T> __device__ void rnnGates(const Arguments &a) {
  forTimes(a.layer, [&](const RecurrentItem &e, int64_t t) {
    if (e.has(t))
      activate<T>(a, e, t, 0, 0, sumOf<T>(a, e, t, 0));
    else
      clearGates<T>(a, e, t);
  });
}

/// A thread goes through the steps, since the cell does.
template <class T> __device__ void lstmGates(const Arguments &a) {
  using C = Compute<T>;
  forStates(a.layer, [&](const RecurrentItem &e) {
    for (int64_t t = e.length; t < e.r.steps; ++t) clearGates<T>(a, e, t);
    C cell = optional<T>(a.initialC, e.state());
    for (int64_t s = 0; s < e.length; ++s) {
      const int64_t t = e.time(s);
      const C in = activate<T>(a, e, t, 0, 0, sumOf<T>(a, e, t, 0) + byWeight<T>(e, 0, cell));
      const C forget =
          e.r.coupled ? C(1) - in : activate<T>(a, e, t, 2, 0, sumOf<T>(a, e, t, 2) + byWeight<T>(e, 2, cell));
      if (e.r.coupled) own<T>(a.values, e.gates(t) + 2 * e.r.hidden) = forget;
      cell = forget * cell + in * activate<T>(a, e, t, 3, 1, sumOf<T>(a, e, t, 3));
      activate<T>(a, e, t, 1, 0, sumOf<T>(a, e, t, 1) + byWeight<T>(e, 1, cell));
      const ops::GatePoint<C> shown = gate(e, 2, cell);
      own<T>(a.cell, e.numbers(t)) = cell;
      own<T>(a.shown, e.numbers(t)) = shown.value;
      own<T>(a.shownSlope, e.numbers(t)) = shown.slope;
    }
  });
}

/// Update and reset, and what the reset leaves, or late is applied to.
template <class T> __device__ void gruGates(const Arguments &a) {
  using C = Compute<T>;
  forTimes(a.layer, [&](const RecurrentItem &e, int64_t t) {
    const int64_t n = e.r.hidden, at = e.gates(t);
    if (!e.has(t)) {
      clearGates<T>(a, e, t);
      own<T>(a.cell, e.numbers(t)) = C(0);
      return;
    }
    for (int g = 0; g < 2; ++g) activate<T>(a, e, t, g, 0, sumOf<T>(a, e, t, g) + own<T>(a.states, at + g * n));
    own<T>(a.cell, e.numbers(t)) = e.r.late ? own<T>(a.states, at + 2 * n) + biasOfState<T>(e, 2)
                                            : own<T>(a.values, at + n) * own<T>(a.before, e.numbers(t));
  });
}
template <class T> __device__ void gruFreshGates(const Arguments &a) {
  using C = Compute<T>;
  forTimes(a.layer, [&](const RecurrentItem &e, int64_t t) {
    const int64_t n = e.r.hidden, at = e.gates(t);
    if (!e.has(t)) {
      own<T>(a.states, at + 2 * n) = C(0);
      return;
    }
    const C byState = e.r.late ? own<T>(a.values, at + n) * own<T>(a.cell, e.numbers(t))
                               : own<T>(a.states, at + 2 * n) + biasOfState<T>(e, 2);
    activate<T>(a, e, t, 2, 1, own<T>(a.values, at + 2 * n) + biasOfX<T>(e, 2) + byState);
  });
}

/// The gradient of gate g's sum, for this step's product and for those over all rows.
template <class T>
__device__ inline void leave(const Arguments &a, const RecurrentItem &e, int64_t t, int g, Compute<T> gradient) {
  own<T>(a.values, e.gates(t) + g * e.r.hidden) = gradient;
  own<T>(a.step, e.stepGates() + g * e.r.hidden) = gradient;
}
/// Whether the item has step s; where it has none, its gradients are zeros.
template <class T> __device__ inline bool isStep(const Arguments &a, const RecurrentItem &e, int64_t s) {
  if (e.has(s)) return true;
  for (int64_t at = 0; at < e.r.columns; at += e.r.hidden) own<T>(a.step, e.stepGates() + at) = Compute<T>(0);
  return false;
}
/// The gradient of the state after the step.
template <class T> __device__ inline Compute<T> comingIn(const Arguments &a, const RecurrentItem &e, int64_t t) {
  return own<T>(a.dh, e.at) + optional<T>(a.dy, e.output(t));
}

template <class T> __device__ void rnnBack(const Arguments &a, int64_t s) {
  forStates(a.layer, [&](const RecurrentItem &e) {
    if (!isStep<T>(a, e, s)) return;
    const int64_t t = e.time(s);
    leave<T>(a, e, t, 0, comingIn<T>(a, e, t) * own<T>(a.slopes, e.gates(t)));
    own<T>(a.dh, e.at) = Compute<T>(0);
  });
}

template <class T> __device__ void lstmBack(const Arguments &a, int64_t s) {
  using C = Compute<T>;
  forStates(a.layer, [&](const RecurrentItem &e) {
    if (!isStep<T>(a, e, s)) return;
    const int64_t t = e.time(s), n = e.r.hidden, at = e.gates(t), number = e.numbers(t);
    const C in = own<T>(a.values, at), out = own<T>(a.values, at + n), forget = own<T>(a.values, at + 2 * n),
            fresh = own<T>(a.values, at + 3 * n);
    const C before = s == 0 ? optional<T>(a.initialC, e.state()) : own<T>(a.cell, e.numbers(e.time(s - 1)));
    const C dh = comingIn<T>(a, e, t);
    const C byOut = dh * own<T>(a.shown, number) * own<T>(a.slopes, at + n);
    const C byCell = own<T>(a.dc, e.at) + dh * out * own<T>(a.shownSlope, number) + byWeight<T>(e, 1, byOut);
    const C byIn = byCell * (e.r.coupled ? fresh - before : fresh) * own<T>(a.slopes, at);
    const C byForget = e.r.coupled ? C(0) : byCell * before * own<T>(a.slopes, at + 2 * n);
    const C byFresh = byCell * in * own<T>(a.slopes, at + 3 * n);
    leave<T>(a, e, t, 0, byIn);
    leave<T>(a, e, t, 1, byOut);
    leave<T>(a, e, t, 2, byForget);
    leave<T>(a, e, t, 3, byFresh);
    own<T>(a.dc, e.at) = byCell * forget + byWeight<T>(e, 0, byIn) + byWeight<T>(e, 2, byForget);
    own<T>(a.dh, e.at) = C(0);
  });
}

/// Where the reset comes first, its gradient is gruBackReset()'s, after the product of the hidden gate's.
template <class T> __device__ void gruBack(const Arguments &a, int64_t s) {
  using C = Compute<T>;
  forStates(a.layer, [&](const RecurrentItem &e) {
    if (!isStep<T>(a, e, s)) return;
    const int64_t t = e.time(s), n = e.r.hidden, at = e.gates(t);
    const C update = own<T>(a.values, at), reset = own<T>(a.values, at + n), fresh = own<T>(a.values, at + 2 * n);
    const C dh = comingIn<T>(a, e, t);
    const C byFresh = dh * (C(1) - update) * own<T>(a.slopes, at + 2 * n);
    leave<T>(a, e, t, 0, dh * (own<T>(a.before, e.numbers(t)) - fresh) * own<T>(a.slopes, at));
    leave<T>(a, e, t, 2, byFresh);
    own<T>(a.dh, e.at) = dh * update;
    if (!e.r.late) return;
    leave<T>(a, e, t, 1, byFresh * own<T>(a.cell, e.numbers(t)) * own<T>(a.slopes, at + n));
    own<T>(a.step, e.stepGates() + 2 * n) = own<T>(a.states, at + 2 * n) = byFresh * reset;
  });
}
template <class T> __device__ void gruBackReset(const Arguments &a, int64_t s) {
  using C = Compute<T>;
  forStates(a.layer, [&](const RecurrentItem &e) {
    if (!e.has(s)) return;
    const int64_t t = e.time(s), at = e.gates(t) + e.r.hidden;
    const C byLeft = own<T>(a.extra, e.at);
    own<T>(a.dh, e.at) += byLeft * own<T>(a.values, at);
    leave<T>(a, e, t, 1, byLeft * own<T>(a.before, e.numbers(t)) * own<T>(a.slopes, at));
  });
}

/// Sums over all rows, a thread for each column. Late, a GRU's hidden gate has another gradient by the state's product.
template <class T> __device__ void bias(const Arguments &a) {
  using C = Compute<T>;
  const RecurrentLayer &r = a.layer;
#pragma unroll 1
  for (int64_t at = firstItem(); at < r.directions * r.columns; at += itemStep()) {
    const int64_t d = at / r.columns, column = at % r.columns;
    const bool isApart = r.late && column >= 2 * r.hidden;
    C sum = 0, other = 0;
    for (int64_t row = d * r.rows(); row < (d + 1) * r.rows(); ++row) {
      sum += own<T>(a.values, row * r.columns + column);
      if (isApart) other += own<T>(a.states, row * r.columns + column);
    }
    T *to = static_cast<T *>(a.dbias) + d * 2 * r.columns + column;
    to[0] = stored<T>(sum);
    to[r.columns] = stored<T>(isApart ? other : sum);
  }
}

/// Pi and Pf meet the cell before the step, Po the one after it.
template <class T> __device__ void byPeephole(const Arguments &a) {
  using C = Compute<T>;
  const RecurrentLayer &r = a.layer;
#pragma unroll 1
  for (int64_t at = firstItem(); at < r.directions * r.hidden; at += itemStep()) {
    const int64_t d = at / r.hidden, i = at % r.hidden;
    C in = 0, out = 0, forget = 0;
    for (int64_t b = 0; b < r.batch; ++b) {
      const RecurrentItem e(r, (d * r.batch + b) * r.hidden + i);
      C before = optional<T>(a.initialC, e.state());
      for (int64_t s = 0; s < e.length; ++s) {
        const int64_t t = e.time(s), sums = e.gates(t);
        const C after = own<T>(a.cell, e.numbers(t));
        in += own<T>(a.values, sums) * before;
        out += own<T>(a.values, sums + r.hidden) * after;
        forget += own<T>(a.values, sums + 2 * r.hidden) * before;
        before = after;
      }
    }
    T *to = static_cast<T *>(a.dpeephole) + d * 3 * r.hidden + i;
    to[0] = stored<T>(in);
    to[r.hidden] = stored<T>(out);
    to[2 * r.hidden] = stored<T>(forget);
  }
}

} // namespace

#define OPC_RECURRENT_GRADIENT(name, T)                                                                                \
  OPC_RECURRENT_ONCE(recurrent_grad_start, start, name, T)                                                             \
  OPC_RECURRENT_ONCE(recurrent_grad_end, end, name, T)                                                                 \
  OPC_RECURRENT_ONCE(recurrent_before, before, name, T)                                                                \
  OPC_RECURRENT_ONCE(recurrent_bias, bias, name, T)                                                                    \
  OPC_RECURRENT_ONCE(lstm_peephole, byPeephole, name, T)                                                               \
  OPC_RECURRENT_ONCE(rnn_gates, rnnGates, name, T)                                                                     \
  OPC_RECURRENT_ONCE(lstm_gates, lstmGates, name, T)                                                                   \
  OPC_RECURRENT_ONCE(gru_gates, gruGates, name, T)                                                                     \
  OPC_RECURRENT_ONCE(gru_fresh_gates, gruFreshGates, name, T)                                                          \
  OPC_RECURRENT_STEP(rnn_back, rnnBack, name, T)                                                                       \
  OPC_RECURRENT_STEP(lstm_back, lstmBack, name, T)                                                                     \
  OPC_RECURRENT_STEP(gru_back, gruBack, name, T)                                                                       \
  OPC_RECURRENT_STEP(gru_back_reset, gruBackReset, name, T)
OPC_EACH_FLOAT(OPC_RECURRENT_GRADIENT)

} // namespace opc::cuda
