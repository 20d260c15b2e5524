// The steps of recurrent layers but for their products: a thread for each number of the state.
// SPDX-License-Identifier: Apache-2.0
#include "recurrent/RecurrentDevice.cuh"

namespace opc::cuda {
namespace {

using Arguments = ops::RecurrentForwardArguments;

/// The first states. Reports lengths that are not in [0, steps].
template <class T> __device__ void start(const Arguments &a) {
  using C = Compute<T>;
  forStates(a.layer, [&](const RecurrentItem &e) {
    static_cast<C *>(a.h)[e.at] = optional<T>(a.initialH, e.state());
    static_cast<C *>(a.c)[e.at] = optional<T>(a.initialC, e.state());
    reportLength(e);
  });
}
template <class T> __device__ void end(const Arguments &a) {
  using C = Compute<T>;
  forStates(a.layer, [&](const RecurrentItem &e) {
    static_cast<T *>(a.yH)[e.state()] = stored<T>(static_cast<const C *>(a.h)[e.at]);
    if (a.yC) static_cast<T *>(a.yC)[e.state()] = stored<T>(static_cast<const C *>(a.c)[e.at]);
  });
}

/// What step s of an item works on.
template <class T> struct Step {
  using C = Compute<T>;
  const Arguments &a;
  const RecurrentItem &e;
  int64_t s;
  C *product, *h, *c, *extra;
  const C *projected;

  __device__ Step(const Arguments &all, const RecurrentItem &item, int64_t step)
      : a(all), e(item), s(step), product(static_cast<C *>(a.product) + e.stepGates()), h(static_cast<C *>(a.h) + e.at),
        c(static_cast<C *>(a.c) + e.at), extra(static_cast<C *>(a.extra) + e.at),
        projected(static_cast<const C *>(a.projected) + e.gates(e.has(s) ? e.time(s) : s)) {}
  /// The sum of gate g.
  __device__ C sum(int g) const {
    return product[g * e.r.hidden] + projected[g * e.r.hidden] + biasOfX<T>(e, g) + biasOfState<T>(e, g);
  }
  /// The new state; behind the end, where there is none, y is 0.
  __device__ void finish(C state) const {
    *h = state;
    static_cast<T *>(a.y)[e.output(e.time(s))] = stored<T>(state);
  }
  __device__ bool isBehind() const {
    if (e.has(s)) return false;
    static_cast<T *>(a.y)[e.output(s)] = stored<T>(C(0));
    return true;
  }
};

template <class T> __device__ void rnnStep(const Arguments &a, int64_t s) {
  forStates(a.layer, [&](const RecurrentItem &e) {
    const Step<T> step(a, e, s);
    if (!step.isBehind()) step.finish(gate(e, 0, step.sum(0)).value);
  });
}

/// Gates in ONNX's order: input, output, forget, cell.
template <class T> __device__ void lstmStep(const Arguments &a, int64_t s) {
  using C = Compute<T>;
  forStates(a.layer, [&](const RecurrentItem &e) {
    const Step<T> step(a, e, s);
    if (step.isBehind()) return;
    const C before = *step.c;
    const C in = gate(e, 0, step.sum(0) + byWeight<T>(e, 0, before)).value;
    const C forget = e.r.coupled ? C(1) - in : gate(e, 0, step.sum(2) + byWeight<T>(e, 2, before)).value;
    const C cell = forget * before + in * gate(e, 1, step.sum(3)).value;
    const C out = gate(e, 0, step.sum(1) + byWeight<T>(e, 1, cell)).value;
    *step.c = cell;
    step.finish(gate(e, 2, cell).value * out);
  });
}

/// The end of a GRU's step: `sum` is the product's part of the hidden gate.
template <class T> __device__ void finishGru(const Step<T> &step, Compute<T> update, Compute<T> sum) {
  using C = Compute<T>;
  const C fresh = gate(step.e, 1, sum + step.projected[2 * step.e.r.hidden] + biasOfX<T>(step.e, 2)).value;
  step.finish((C(1) - update) * fresh + update * *step.h);
}
/// Gates in ONNX's order: update, reset, hidden. Where the reset comes first the step ends in gruFresh(), after the
/// product with what it leaves.
template <class T> __device__ void gruStep(const Arguments &a, int64_t s) {
  using C = Compute<T>;
  forStates(a.layer, [&](const RecurrentItem &e) {
    const Step<T> step(a, e, s);
    if (!e.r.late && !e.has(s)) *step.extra = C(0);
    if (step.isBehind()) return;
    const C update = gate(e, 0, step.sum(0)).value, reset = gate(e, 0, step.sum(1)).value;
    if (e.r.late) {
      finishGru(step, update, (step.product[2 * e.r.hidden] + biasOfState<T>(e, 2)) * reset);
      return;
    }
    step.product[0] = update;
    *step.extra = reset * *step.h;
  });
}
template <class T> __device__ void gruFresh(const Arguments &a, int64_t s) {
  forStates(a.layer, [&](const RecurrentItem &e) {
    const Step<T> step(a, e, s);
    if (e.has(s)) finishGru(step, step.product[0], step.product[2 * e.r.hidden] + biasOfState<T>(e, 2));
  });
}

} // namespace

#define OPC_RECURRENT(name, T)                                                                                         \
  OPC_RECURRENT_ONCE(recurrent_start, start, name, T)                                                                  \
  OPC_RECURRENT_ONCE(recurrent_end, end, name, T)                                                                      \
  OPC_RECURRENT_STEP(rnn_step, rnnStep, name, T)                                                                       \
  OPC_RECURRENT_STEP(lstm_step, lstmStep, name, T)                                                                     \
  OPC_RECURRENT_STEP(gru_step, gruStep, name, T)                                                                       \
  OPC_RECURRENT_STEP(gru_fresh, gruFresh, name, T)
OPC_EACH_FLOAT(OPC_RECURRENT)

} // namespace opc::cuda
