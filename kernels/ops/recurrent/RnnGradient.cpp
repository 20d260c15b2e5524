// rnn_grad and the gradient rule of rnn.
// SPDX-License-Identifier: Apache-2.0
#include "recurrent/RecurrentBackward.h"

namespace opc::ops {
namespace {

template <class T> class RnnGradCell {
public:
  static constexpr CellKind kKind = CellKind::kRnn;
  explicit RnnGradCell(const RecurrentShape &r)
      : sums_({r.rows(), r.columns(), r.hidden, false, true, 1, true}, {}), back_(backProduct<T>(r, r.columns())),
        byRecurrence_(recurrenceProduct<T>(r, r.columns())) {}

  void recompute(DeviceCtx *dev, const Lane &lane, const BackMemory<T> &m) const {
    const RecurrentShape &r = *lane.shape;
    const int64_t n = r.hidden;
    sums_.run(dev, m.before, m.recurrence, m.values);
    lane.forEachSequence(dev, r.steps, [&](int64_t b) {
      for (int64_t s = 0; s < lane.lengths[b]; ++s) {
        T *sum = m.values + lane.row(s, b) * n;
        addRow(m.bias, sum, n);
        addRow(m.bias ? m.bias + n : nullptr, sum, n);
        GateRow<T>{r, lane.direction}.apply(0, sum, n, m.slopes + lane.row(s, b) * n);
      }
    });
  }

  void back(DeviceCtx *dev, const Lane &lane, const BackMemory<T> &m, int64_t s) const {
    const RecurrentShape &r = *lane.shape;
    const int64_t n = r.hidden;
    lane.forEachSequence(dev, 1, [&](int64_t b) {
      T *step = m.step + b * n, *dh = m.dh + b * n;
      if (!lane.has(s, b)) {
        std::fill_n(step, n, T(0));
        return;
      }
      const int64_t row = lane.row(s, b);
      addRow(m.dy ? m.dy + r.output(lane.time(s, b), lane.direction, b) : nullptr, dh, n);
      for (int64_t i = 0; i < n; ++i) step[i] = dh[i] * m.slopes[row * n + i];
      std::copy_n(step, n, m.values + row * n);
      std::fill_n(dh, n, T(0));
    });
    back_.run(dev, m.step, m.recurrence, m.dh);
  }

  void finish(DeviceCtx *dev, const Lane &lane, const BackMemory<T> &m, const ParameterGradients<T> &to) const {
    const RecurrentShape &r = *lane.shape;
    byRecurrence_.run(dev, m.values, m.before, to.recurrence);
    if (!to.bias) return;
    columnSums(dev, m.values, r.rows(), r.columns(), to.bias);
    std::copy_n(to.bias, r.columns(), to.bias + r.columns());
  }

private:
  cpu::Gemm<T> sums_, back_, byRecurrence_;
};
template <class T> using RnnGradKernel = RecurrentGradKernel<T, RnnGradCell>;

Case sample(const RecurrentCase &c) { return recurrentGradientCase(CellKind::kRnn, c); }

std::vector<Case> cases() {
  const CommonRecurrentCases common("reverse");
  RecurrentCase others{"activations", "bidirectional"};
  return {sample(common.plain), sample(common.lengths), sample(common.first),
          sample(others).Attr("activations", std::vector<std::string>{"Softplus", "Sigmoid"}).Attr("clip", 0.5)};
}

REGISTER_USER_OP("rnn_grad")
    .GradientOf("rnn")
    .With(recurrentGradient(CellKind::kRnn))
    .Doc(
        "The gradients of rnn by its inputs, from y and from the gradients dy and dy_h that have come in, back through "
        "the steps; those that are optional where they are asked for.")
    .Cases(cases())
    .Kernel<RnnGradKernel, types::Floating>("x", recurrentGradientMemory(CellKind::kRnn));

REGISTER_USER_OP_GRAD("rnn").SetBackwardOpConfGenFn(recurrentGradientRule(CellKind::kRnn, "rnn_grad"));
REGISTER_USER_OP_GRAD("rnn_grad").SetBackwardOpConfGenFn(noSecondGradient("rnn"));

} // namespace
} // namespace opc::ops
