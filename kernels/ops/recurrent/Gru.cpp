// gru: a layer of gated recurrent units.
// SPDX-License-Identifier: Apache-2.0
#include "recurrent/RecurrentForward.h"

namespace opc::ops {
namespace {

/// Gates in ONNX's order: update, reset, hidden. Where the reset comes first, the state that it leaves is multiplied in
/// a second product.
template <class T> class GruCell {
public:
  static constexpr CellKind kKind = CellKind::kGru;
  GruCell(const RecurrentShape &r, const T *recurrence, bool constant)
      : product_(stateProduct(r, recurrence, constant, 0, (r.late ? 3 : 2) * r.hidden)),
        second_(stateProduct(r, recurrence, constant && !r.late, 2 * r.hidden, r.hidden)), late_(r.late) {}
  bool hasPackedAll() const { return product_.hasPackedB() && (late_ || second_.hasPackedB()); }

  void step(DeviceCtx *dev, const Lane &lane, const StepMemory<T> &m, int64_t s) const {
    product_.run(dev, m.h, m.recurrence, m.product);
    if (late_)
      lateStep(dev, lane, m, s);
    else
      earlyStep(dev, lane, m, s);
  }

private:
  /// The sums of gates update and reset, activated; `sums` has their products with the state.
  static void gates(const Lane &lane, const StepMemory<T> &m, const T *projected, T *sums) {
    const RecurrentShape &r = *lane.shape;
    const int64_t n = 2 * r.hidden;
    addRow(projected, sums, n);
    addRow(m.bias, sums, n);
    addRow(m.bias ? m.bias + r.columns() : nullptr, sums, n);
    GateRow<T>{r, lane.direction}.apply(0, sums, n);
  }
  /// h = (1 - z) f(fresh) + z h, and y's row.
  static void finish(const Lane &lane, const StepMemory<T> &m, int64_t s, int64_t b, const T *z, T *fresh) {
    const RecurrentShape &r = *lane.shape;
    const int64_t n = r.hidden;
    T *h = m.h + b * n;
    addRow(m.projected + lane.row(s, b) * r.columns() + 2 * n, fresh, n);
    addRow(m.bias ? m.bias + 2 * n : nullptr, fresh, n);
    GateRow<T>{r, lane.direction}.apply(1, fresh, n);
    for (int64_t i = 0; i < n; ++i) h[i] = (T(1) - z[i]) * fresh[i] + z[i] * h[i];
    std::copy_n(h, n, m.y + r.output(lane.time(s, b), lane.direction, b));
  }

  static void lateStep(DeviceCtx *dev, const Lane &lane, const StepMemory<T> &m, int64_t s) {
    const RecurrentShape &r = *lane.shape;
    const int64_t n = r.hidden;
    lane.forEachSequence(dev, 1, [&](int64_t b) {
      if (!lane.has(s, b)) return;
      T *sums = m.product + b * 3 * n, *reset = sums + n, *fresh = sums + 2 * n;
      gates(lane, m, m.projected + lane.row(s, b) * 3 * n, sums);
      addRow(m.bias ? m.bias + 5 * n : nullptr, fresh, n);
      for (int64_t i = 0; i < n; ++i) fresh[i] *= reset[i];
      finish(lane, m, s, b, sums, fresh);
    });
  }

  void earlyStep(DeviceCtx *dev, const Lane &lane, const StepMemory<T> &m, int64_t s) const {
    const RecurrentShape &r = *lane.shape;
    const int64_t n = r.hidden;
    T *left = m.extra, *products = m.product + r.batch * 2 * n; // behind the product of two gates is room for a third
    lane.forEachSequence(dev, 1, [&](int64_t b) {
      T *sums = m.product + b * 2 * n;
      if (lane.has(s, b)) gates(lane, m, m.projected + lane.row(s, b) * 3 * n, sums);
      for (int64_t i = 0; i < n; ++i) left[b * n + i] = lane.has(s, b) ? sums[n + i] * m.h[b * n + i] : T(0);
    });
    second_.run(dev, left, m.recurrence + 2 * n * n, products);
    lane.forEachSequence(dev, 1, [&](int64_t b) {
      if (!lane.has(s, b)) return;
      T *fresh = products + b * n;
      addRow(m.bias ? m.bias + 5 * n : nullptr, fresh, n);
      finish(lane, m, s, b, m.product + b * 2 * n, fresh);
    });
  }

  cpu::Gemm<T> product_, second_;
  bool late_;
};
template <class T> using GruKernel = RecurrentKernel<T, GruCell>;

REGISTER_USER_OP("gru")
    .With(recurrentInputs(CellKind::kGru))
    .Output("y")
    .Output("y_h")
    .With(recurrentRules(CellKind::kGru, true))
    .SetTensorDescInferFn(inferRecurrent(CellKind::kGru))
    .Doc("A layer of gated recurrent units (Cho et al., 2014), as ONNX defines GRU. With the gates' rows of weight W, "
         "recurrence R and bias in the order z, r, n, and state h: z = f1(Wz x + Rz h + bz), r = f1(Wr x + Rr h + br), "
         "n = f2(Wn x + Rn (r h) + bn), or with linear_before_reset, as cuDNN and PyTorch have it, n = f2(Wn x + bWn + "
         "r (Rn h + bRn)), and h = (1 - z) n + z h; f1, f2 are Sigmoid, Tanh unless activations names others, for each "
         "direction. bias [directions, 6 hidden] is that of W and then that of R. clip, lengths, batch_first and the "
         "shapes are those of lstm.")
    .Cases(gruCases(true))
    .Kernel<GruKernel, types::Floating>("x", recurrentMemory(CellKind::kGru));

} // namespace
} // namespace opc::ops
