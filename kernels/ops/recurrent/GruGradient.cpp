// gru_grad and the gradient rule of gru.
// SPDX-License-Identifier: Apache-2.0
#include "recurrent/RecurrentBackward.h"

namespace opc::ops {
namespace {

/// What the hidden gate takes of the state: the product with the state that the reset leaves, or with
/// linear_before_reset the reset of the product ("late").
template <class T> class GruGradCell {
public:
  static constexpr CellKind kKind = CellKind::kGru;
  explicit GruGradCell(const RecurrentShape &r)
      : sums_({r.rows(), firstOf(r), r.hidden, false, true, 1, false}, {}),
        fresh_({r.rows(), r.hidden, r.hidden, false, true, 1, false}, {}), back_(backProduct<T>(r, firstOf(r))),
        backFresh_({r.batch, r.hidden, r.hidden, false, false, 1, false}, {}),
        byRecurrence_(recurrenceProduct<T>(r, firstOf(r))), byFresh_(recurrenceProduct<T>(r, r.hidden)) {}

  void recompute(DeviceCtx *dev, const Lane &lane, const BackMemory<T> &m) const {
    const RecurrentShape &r = *lane.shape;
    const int64_t n = r.hidden;
    sums_.run(dev, m.before, m.recurrence, states(m));
    lane.forEachSequence(dev, r.steps, [&](int64_t b) {
      for (int64_t s = 0; s < r.steps; ++s) {
        const int64_t row = lane.has(s, b) ? lane.row(s, b) : r.row(s, b);
        if (lane.has(s, b))
          firstGates(lane, m, row);
        else
          std::fill_n(inner(lane, m, row), n, T(0));
      }
    });
    if (!r.late) fresh_.run(dev, inner(lane, m, 0), m.recurrence + 2 * n * n, freshStates(lane, m, 0));
    lane.forEachSequence(dev, r.steps, [&](int64_t b) {
      for (int64_t s = 0; s < lane.lengths[b]; ++s) {
        const int64_t row = lane.row(s, b);
        T *gates = m.values + row * 3 * n, *sum = gates + 2 * n;
        addRow(m.bias ? m.bias + 2 * n : nullptr, sum, n);
        if (r.late) {
          addProducts(gates + n, inner(lane, m, row), sum, n);
        } else {
          addRow(freshStates(lane, m, row), sum, n);
          addRow(m.bias ? m.bias + 5 * n : nullptr, sum, n);
        }
        GateRow<T>{r, lane.direction}.apply(1, sum, n, m.slopes + row * 3 * n + 2 * n);
      }
    });
  }

  void back(DeviceCtx *dev, const Lane &lane, const BackMemory<T> &m, int64_t s) const {
    const RecurrentShape &r = *lane.shape;
    const int64_t n = r.hidden;
    T *freshStep = r.late ? nullptr : m.step + r.batch * 2 * n; // behind the gradients of two gates
    lane.forEachSequence(dev, 1, [&](int64_t b) {
      if (lane.has(s, b)) {
        backRow(lane, m, s, b, freshStep ? freshStep + b * n : nullptr);
        return;
      }
      std::fill_n(m.step + b * firstOf(r), firstOf(r), T(0));
      if (freshStep) std::fill_n(freshStep + b * n, n, T(0));
    });
    if (freshStep) {
      backFresh_.run(dev, freshStep, m.recurrence + 2 * n * n, m.extra);
      lane.forEachSequence(dev, 1, [&](int64_t b) {
        if (lane.has(s, b)) backReset(lane, m, s, b);
      });
    }
    back_.run(dev, m.step, m.recurrence, m.dh);
  }

  void finish(DeviceCtx *dev, const Lane &lane, const BackMemory<T> &m, const ParameterGradients<T> &to) const {
    const RecurrentShape &r = *lane.shape;
    const int64_t n = r.hidden;
    // The gradients of the sums with the state, as the products want them.
    lane.forEachSequence(dev, r.steps, [&](int64_t b) {
      for (int64_t t = 0; t < r.steps; ++t) {
        const int64_t row = r.row(t, b);
        const T *from = m.values + row * 3 * n;
        if (r.late) {
          T *sums = states(m) + row * 3 * n;
          std::copy_n(from, 2 * n, sums);
          if (t >= lane.lengths[b]) std::fill_n(sums + 2 * n, n, T(0)); // backRow() has left the others
        } else {
          std::copy_n(from, 2 * n, states(m) + row * 2 * n);
          std::copy_n(from + 2 * n, n, freshStates(lane, m, row));
        }
      }
    });
    byRecurrence_.run(dev, states(m), m.before, to.recurrence);
    if (!r.late) byFresh_.run(dev, freshStates(lane, m, 0), inner(lane, m, 0), to.recurrence + 2 * n * n);
    if (!to.bias) return;
    columnSums(dev, m.values, r.rows(), 3 * n, to.bias);
    if (r.late)
      columnSums(dev, states(m), r.rows(), 3 * n, to.bias + 3 * n);
    else
      std::copy_n(to.bias, 3 * n, to.bias + 3 * n);
  }

private:
  /// Gates whose sums have a product with the state itself.
  static int64_t firstOf(const RecurrentShape &r) { return (r.late ? 3 : 2) * r.hidden; }
  // The rows that are kept besides: products with the state, [rows, 3 hidden], or [rows, 2 hidden] and then [rows,
  // hidden]; and what the reset leaves of the state, or late what it is applied to.
  static T *states(const BackMemory<T> &m) { return m.more; }
  static T *freshStates(const Lane &lane, const BackMemory<T> &m, int64_t row) {
    return m.more + (2 * lane.shape->rows() + row) * lane.shape->hidden;
  }
  static T *inner(const Lane &lane, const BackMemory<T> &m, int64_t row) {
    return m.more + (3 * lane.shape->rows() + row) * lane.shape->hidden;
  }

  static void firstGates(const Lane &lane, const BackMemory<T> &m, int64_t row) {
    const RecurrentShape &r = *lane.shape;
    const int64_t n = r.hidden;
    T *gates = m.values + row * 3 * n, *kept = inner(lane, m, row);
    const T *sums = states(m) + row * firstOf(r), *before = m.before + row * n;
    addRow(sums, gates, 2 * n);
    addRow(m.bias, gates, 2 * n);
    addRow(m.bias ? m.bias + 3 * n : nullptr, gates, 2 * n);
    GateRow<T>{r, lane.direction}.apply(0, gates, 2 * n, m.slopes + row * 3 * n);
    if (r.late) {
      std::copy_n(sums + 2 * n, n, kept);
      addRow(m.bias ? m.bias + 5 * n : nullptr, kept, n);
    } else {
      for (int64_t i = 0; i < n; ++i) kept[i] = gates[n + i] * before[i];
    }
  }

  /// Gradients of the gates update and hidden, and late of the reset; dh becomes what goes past the products.
  static void backRow(const Lane &lane, const BackMemory<T> &m, int64_t s, int64_t b, T *freshStep) {
    const RecurrentShape &r = *lane.shape;
    const int64_t n = r.hidden, row = lane.row(s, b);
    const T *slopes = m.slopes + row * 3 * n, *before = m.before + row * n, *kept = inner(lane, m, row);
    T *gates = m.values + row * 3 * n, *step = m.step + b * firstOf(r), *dh = m.dh + b * n;
    addRow(m.dy ? m.dy + r.output(lane.time(s, b), lane.direction, b) : nullptr, dh, n);
    for (int64_t i = 0; i < n; ++i) {
      const T update = gates[i], reset = gates[n + i], fresh = gates[2 * n + i];
      const T byFresh = dh[i] * (T(1) - update) * slopes[2 * n + i];
      step[i] = gates[i] = dh[i] * (before[i] - fresh) * slopes[i];
      gates[2 * n + i] = byFresh;
      dh[i] *= update;
      if (freshStep) {
        freshStep[i] = byFresh;
        continue;
      }
      step[n + i] = gates[n + i] = byFresh * kept[i] * slopes[n + i];
      step[2 * n + i] = byFresh * reset;
    }
    if (!freshStep) std::copy_n(step + 2 * n, n, states(m) + row * 3 * n + 2 * n);
  }

  /// Of the state that the reset left, m.extra has the gradient.
  static void backReset(const Lane &lane, const BackMemory<T> &m, int64_t s, int64_t b) {
    const int64_t n = lane.shape->hidden, row = lane.row(s, b);
    const T *slopes = m.slopes + row * 3 * n + n, *before = m.before + row * n, *byLeft = m.extra + b * n;
    T *resets = m.values + row * 3 * n + n, *step = m.step + b * 2 * n + n, *dh = m.dh + b * n;
    for (int64_t i = 0; i < n; ++i) {
      dh[i] += byLeft[i] * resets[i];
      step[i] = resets[i] = byLeft[i] * before[i] * slopes[i];
    }
  }

  cpu::Gemm<T> sums_, fresh_, back_, backFresh_, byRecurrence_, byFresh_;
};
template <class T> using GruGradKernel = RecurrentGradKernel<T, GruGradCell>;

REGISTER_USER_OP("gru_grad")
    .GradientOf("gru")
    .With(recurrentGradient(CellKind::kGru))
    .Doc(
        "The gradients of gru by its inputs, from y and from the gradients dy and dy_h that have come in, back through "
        "the steps; those that are optional where they are asked for.")
    .Cases(gruCases(false))
    .Kernel<GruGradKernel, types::Floating>("x", recurrentGradientMemory(CellKind::kGru));

REGISTER_USER_OP_GRAD("gru").SetBackwardOpConfGenFn(recurrentGradientRule(CellKind::kGru, "gru_grad"));
REGISTER_USER_OP_GRAD("gru_grad").SetBackwardOpConfGenFn(noSecondGradient("gru"));

} // namespace
} // namespace opc::ops
