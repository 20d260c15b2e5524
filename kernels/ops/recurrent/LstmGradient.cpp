// lstm_grad and the gradient rule of lstm.
// SPDX-License-Identifier: Apache-2.0
#include "recurrent/RecurrentBackward.h"

namespace opc::ops {
namespace {

template <class T> class LstmGradCell {
public:
  static constexpr CellKind kKind = CellKind::kLstm;
  explicit LstmGradCell(const RecurrentShape &r)
      : sums_({r.rows(), r.columns(), r.hidden, false, true, 1, true}, {}), back_(backProduct<T>(r, r.columns())),
        byRecurrence_(recurrenceProduct<T>(r, r.columns())) {}

  void recompute(DeviceCtx *dev, const Lane &lane, const BackMemory<T> &m) const {
    const RecurrentShape &r = *lane.shape;
    sums_.run(dev, m.before, m.recurrence, m.values);
    lane.forEachSequence(dev, r.steps, [&](int64_t b) {
      for (int64_t s = 0; s < lane.lengths[b]; ++s) gatesOf(lane, m, s, b);
    });
  }

  void back(DeviceCtx *dev, const Lane &lane, const BackMemory<T> &m, int64_t s) const {
    const RecurrentShape &r = *lane.shape;
    lane.forEachSequence(dev, 1, [&](int64_t b) {
      if (lane.has(s, b))
        backRow(lane, m, s, b);
      else
        std::fill_n(m.step + b * r.columns(), r.columns(), T(0));
    });
    back_.run(dev, m.step, m.recurrence, m.dh);
  }

  void finish(DeviceCtx *dev, const Lane &lane, const BackMemory<T> &m, const ParameterGradients<T> &to) const {
    const RecurrentShape &r = *lane.shape;
    byRecurrence_.run(dev, m.values, m.before, to.recurrence);
    if (to.bias) {
      columnSums(dev, m.values, r.rows(), r.columns(), to.bias);
      std::copy_n(to.bias, r.columns(), to.bias + r.columns());
    }
    if (to.peephole) byPeephole(dev, lane, m, to.peephole);
  }

private:
  // The rows that are kept besides: the cells, f3 of them, and its slopes.
  static T *cell(const Lane &lane, const BackMemory<T> &m, int64_t row) { return m.more + row * lane.shape->hidden; }
  static T *shown(const Lane &lane, const BackMemory<T> &m, int64_t row) {
    return m.more + (lane.shape->rows() + row) * lane.shape->hidden;
  }
  static T *shownSlope(const Lane &lane, const BackMemory<T> &m, int64_t row) {
    return m.more + (2 * lane.shape->rows() + row) * lane.shape->hidden;
  }
  static const T *cellBefore(const Lane &lane, const BackMemory<T> &m, int64_t s, int64_t b) {
    return s == 0 ? m.c0 + b * lane.shape->hidden : cell(lane, m, lane.row(s - 1, b));
  }

  static void gatesOf(const Lane &lane, const BackMemory<T> &m, int64_t s, int64_t b) {
    const RecurrentShape &r = *lane.shape;
    const GateRow<T> f{r, lane.direction};
    const int64_t n = r.hidden, row = lane.row(s, b);
    const T *before = cellBefore(lane, m, s, b), *peephole = m.peephole;
    T *in = m.values + row * 4 * n, *out = in + n, *forget = in + 2 * n, *fresh = in + 3 * n;
    T *slopes = m.slopes + row * 4 * n, *c = cell(lane, m, row), *shownCell = shown(lane, m, row);
    addRow(m.bias, in, 4 * n);
    addRow(m.bias ? m.bias + 4 * n : nullptr, in, 4 * n);
    addProducts(peephole, before, in, n);
    f.apply(0, in, n, slopes);
    if (r.coupled) {
      for (int64_t i = 0; i < n; ++i) forget[i] = T(1) - in[i];
    } else {
      addProducts(peephole ? peephole + 2 * n : nullptr, before, forget, n);
      f.apply(0, forget, n, slopes + 2 * n);
    }
    f.apply(1, fresh, n, slopes + 3 * n);
    for (int64_t i = 0; i < n; ++i) c[i] = forget[i] * before[i] + in[i] * fresh[i];
    addProducts(peephole ? peephole + n : nullptr, c, out, n);
    f.apply(0, out, n, slopes + n);
    std::copy_n(c, n, shownCell);
    f.apply(2, shownCell, n, shownSlope(lane, m, row));
  }

  static void backRow(const Lane &lane, const BackMemory<T> &m, int64_t s, int64_t b) {
    const RecurrentShape &r = *lane.shape;
    const int64_t n = r.hidden, row = lane.row(s, b);
    const T *before = cellBefore(lane, m, s, b), *shownCell = shown(lane, m, row), *bySum = shownSlope(lane, m, row);
    const T *slopes = m.slopes + row * 4 * n, *peephole = m.peephole;
    T *gates = m.values + row * 4 * n, *step = m.step + b * 4 * n, *dh = m.dh + b * n, *dc = m.dc + b * n;
    addRow(m.dy ? m.dy + r.output(lane.time(s, b), lane.direction, b) : nullptr, dh, n);
    for (int64_t i = 0; i < n; ++i) {
      const T in = gates[i], out = gates[n + i], forget = gates[2 * n + i], fresh = gates[3 * n + i];
      const T byOut = dh[i] * shownCell[i] * slopes[n + i];
      const T byCell = dc[i] + dh[i] * out * bySum[i] + (peephole ? byOut * peephole[n + i] : T(0));
      const T byIn = byCell * (r.coupled ? fresh - before[i] : fresh) * slopes[i];
      const T byForget = r.coupled ? T(0) : byCell * before[i] * slopes[2 * n + i];
      step[i] = byIn;
      step[n + i] = byOut;
      step[2 * n + i] = byForget;
      step[3 * n + i] = byCell * in * slopes[3 * n + i];
      dc[i] = byCell * forget + (peephole ? byIn * peephole[i] + byForget * peephole[2 * n + i] : T(0));
      dh[i] = T(0);
    }
    std::copy_n(step, 4 * n, gates);
  }

  /// Pi and Pf meet the cell before the step, Po the one after it.
  static void byPeephole(DeviceCtx *dev, const Lane &lane, const BackMemory<T> &m, T *to) {
    const int64_t n = lane.shape->hidden;
    dev->parallelFor(n, 64, [&](int64_t begin, int64_t end) {
      for (int64_t g = 0; g < 3; ++g) std::fill(to + g * n + begin, to + g * n + end, T(0));
      for (int64_t b = 0; b < lane.shape->batch; ++b)
        for (int64_t s = 0; s < lane.lengths[b]; ++s) {
          const int64_t row = lane.row(s, b);
          const T *before = cellBefore(lane, m, s, b), *after = cell(lane, m, row), *sums = m.values + row * 4 * n;
          for (int64_t i = begin; i < end; ++i) {
            to[i] += sums[i] * before[i];
            to[n + i] += sums[n + i] * after[i];
            to[2 * n + i] += sums[2 * n + i] * before[i];
          }
        }
    });
  }

  cpu::Gemm<T> sums_, back_, byRecurrence_;
};
template <class T> using LstmGradKernel = RecurrentGradKernel<T, LstmGradCell>;

Case sample(const RecurrentCase &c) { return recurrentGradientCase(CellKind::kLstm, c); }

std::vector<Case> cases() {
  const CommonRecurrentCases common("bidirectional");
  RecurrentCase peephole{"peephole", "reverse"}, coupled{"coupled"}, others{"activations", "bidirectional"};
  peephole.initial = others.initial = true;
  return {sample(common.plain),
          sample(common.lengths),
          sample(common.first),
          sample(peephole).In("peephole", {1, 12}).Out("dpeephole"),
          sample(coupled).In("peephole", {1, 12}).Attr("input_forget", true).Attr("clip", 0.375).Out("dpeephole"),
          sample(others)
              .Attr("activations",
                    std::vector<std::string>{"Sigmoid", "ScaledTanh", "Softsign", "Sigmoid", "Softplus", "Affine"})
              .Attr("activation_alpha", std::vector<float>{0.9F, 0.7F})
              .Attr("activation_beta", std::vector<float>{0.8F, 0.1F})};
}

REGISTER_USER_OP("lstm_grad")
    .GradientOf("lstm")
    .With(recurrentGradient(CellKind::kLstm))
    .Doc("The gradients of lstm by its inputs, from y and from the gradients dy, dy_h and dy_c that have come in, back "
         "through the steps; those that are optional where they are asked for.")
    .Cases(cases())
    .Kernel<LstmGradKernel, types::Floating>("x", recurrentGradientMemory(CellKind::kLstm));

REGISTER_USER_OP_GRAD("lstm").SetBackwardOpConfGenFn(recurrentGradientRule(CellKind::kLstm, "lstm_grad"));
REGISTER_USER_OP_GRAD("lstm_grad").SetBackwardOpConfGenFn(noSecondGradient("lstm"));

} // namespace
} // namespace opc::ops
