// The gradient of a recurrent layer: back through its steps. The states are y's rows, so that the sums of all gates are
// two products again; what a step then costs is one product and the slopes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Gemm.h"
#include "recurrent/RecurrentLane.h"
#include "support/GradientSteps.h"

namespace opc::ops {

/// What the steps of one direction read and write. Rows are those of x.
template <class T> struct BackMemory {
  const T *recurrence = nullptr, *bias = nullptr, *peephole = nullptr; // as in StepMemory
  const T *dy = nullptr;                                               // of all directions; may be null
  T *values;            // [rows, columns]: the sums of the gates, then the gates, then the gradients of their sums
  T *slopes;            // [rows, columns]
  T *before;            // [rows, hidden]: the state before the step
  T *more;              // [rows, moreOf * hidden]: the kind's own
  T *step;              // [batch, columns]: the gradients of a step's sums
  T *extra;             // [batch, hidden]
  T *h0, *c0, *dh, *dc; // [batch, hidden]

  /// Rows of hidden numbers that a kind keeps besides.
  static int64_t moreOf(CellKind kind) { return kind == CellKind::kRnn ? 0 : kind == CellKind::kGru ? 4 : 3; }
  static int64_t count(const RecurrentShape &r) {
    return r.rows() * (2 * r.columns() + (1 + moreOf(r.kind)) * r.hidden) + r.batch * (r.columns() + 5 * r.hidden);
  }
  BackMemory(const RecurrentShape &r, T *memory) {
    Pieces<T> pieces(memory);
    values = pieces.take(r.rows() * r.columns());
    slopes = pieces.take(r.rows() * r.columns());
    before = pieces.take(r.rows() * r.hidden);
    more = pieces.take(r.rows() * moreOf(r.kind) * r.hidden);
    step = pieces.take(r.batch * r.columns());
    for (T **state : {&extra, &h0, &c0, &dh, &dc}) *state = pieces.take(r.batch * r.hidden);
  }
};

/// What a kind leaves of its parameters' gradients, of one direction; null where nobody asks.
template <class T> struct ParameterGradients {
  T *recurrence, *bias, *peephole;
};

/// to[j] = the sum of column j of `from`, [rows, columns], in the order of the rows.
template <class T> void columnSums(DeviceCtx *dev, const T *from, int64_t rows, int64_t columns, T *to) {
  dev->parallelFor(columns, std::max<int64_t>(64, 65536 / std::max<int64_t>(1, rows)), [&](int64_t begin, int64_t end) {
    std::fill(to + begin, to + end, T(0));
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t j = begin; j < end; ++j) to[j] += from[r * columns + j];
  });
}

/// A step's gradient comes to the state before it: dh += step recurrence, over rows [first, first + terms).
template <class T> cpu::Gemm<T> backProduct(const RecurrentShape &r, int64_t terms) {
  return cpu::Gemm<T>({r.batch, r.hidden, terms, false, false, 1, true}, {});
}
/// [terms, hidden] = gradients^T states, over all rows.
template <class T> cpu::Gemm<T> recurrenceProduct(const RecurrentShape &r, int64_t terms) {
  return cpu::Gemm<T>({terms, r.hidden, r.rows(), true, false, 1, false}, {});
}

/// CellT<T>(shape) has `kKind`, `recompute(dev, lane, memory)`, which turns the parts of the sums that come from x into
/// gates and slopes, `back(dev, lane, memory, s)`, and `finish(dev, lane, memory, gradients)`.
template <class T, template <class> class CellT> class RecurrentGradTask final : public BoundKernel {
public:
  RecurrentGradTask(KernelBindContext *ctx, StagedTensors<T> &staged)
      : r_(recurrentShape(CellT<T>::kKind, ctx)), lengths_(ctx, r_), x_(staged.in("x")), weight_(staged.in("weight")),
        recurrence_(staged.in("recurrence")), bias_(staged.in("bias")), peephole_(staged.in("peephole")),
        initialH_(staged.in("initial_h")), initialC_(staged.in("initial_c")), y_(staged.in("y")),
        dyH_(staged.in("dy_h")), dyC_(staged.in("dy_c")), dx_(staged.out("dx")), dweight_(staged.out("dweight")),
        drecurrence_(staged.out("drecurrence")), dbias_(staged.out("dbias")), dpeephole_(staged.out("dpeephole")),
        dinitialH_(staged.out("dinitial_h")), dinitialC_(staged.out("dinitial_c")), memory_(r_, ctx->Tmp<T>()),
        project_({r_.rows(), r_.columns(), r_.width, false, true, 1, false}, {}),
        byX_({r_.rows(), r_.width, r_.columns(), false, false, 1, false}, {}),
        addByX_({r_.rows(), r_.width, r_.columns(), false, false, 1, true}, {}),
        byWeight_({r_.columns(), r_.width, r_.rows(), true, false, 1, false}, {}), cell_(r_) {
    memory_.dy = staged.in("dy");
  }

  void Run(DeviceCtx *dev) override {
    lengths_.read();
    for (int64_t d = 0; d < r_.directions; ++d) runDirection(dev, d);
  }

private:
  void runDirection(DeviceCtx *dev, int64_t d) {
    const Lane lane{&r_, d, lengths_.data()};
    BackMemory<T> &m = memory_;
    const int64_t columns = r_.columns();
    const T *weight = weight_ + d * columns * r_.width;
    m.recurrence = recurrence_ + d * columns * r_.hidden;
    m.bias = bias_ ? bias_ + d * 2 * columns : nullptr;
    m.peephole = peephole_ ? peephole_ + d * 3 * r_.hidden : nullptr;
    readState(lane, initialH_, m.h0);
    readState(lane, initialC_, m.c0);
    readState(lane, dyH_, m.dh);
    readState(lane, dyC_, m.dc);
    gatherStates(dev, lane);
    project_.run(dev, x_, weight, m.values);
    cell_.recompute(dev, lane, m);
    for (int64_t s = r_.steps; s-- > 0;) cell_.back(dev, lane, m, s);
    // Behind the ends nothing was computed.
    for (int64_t b = 0; b < r_.batch; ++b)
      for (int64_t t = lane.lengths[b]; t < r_.steps; ++t)
        std::fill_n(m.values + r_.row(t, b) * columns, columns, T(0));
    cell_.finish(dev, lane, m,
                 {drecurrence_ + d * columns * r_.hidden, dbias_ ? dbias_ + d * 2 * columns : nullptr,
                  dpeephole_ ? dpeephole_ + d * 3 * r_.hidden : nullptr});
    (d == 0 ? byX_ : addByX_).run(dev, m.values, weight, dx_);
    byWeight_.run(dev, m.values, x_, dweight_ + d * columns * r_.width);
    if (dinitialH_) writeState(lane, m.dh, dinitialH_);
    if (dinitialC_) writeState(lane, m.dc, dinitialC_);
  }

  /// The state before each step, and zeros behind the ends.
  void gatherStates(DeviceCtx *dev, const Lane &lane) const {
    const int64_t n = r_.hidden;
    lane.forEachSequence(dev, r_.steps, [&](int64_t b) {
      for (int64_t s = 0; s < lane.lengths[b]; ++s)
        std::copy_n(s == 0 ? memory_.h0 + b * n : y_ + r_.output(lane.time(s - 1, b), lane.direction, b), n,
                    memory_.before + lane.row(s, b) * n);
      for (int64_t t = lane.lengths[b]; t < r_.steps; ++t) std::fill_n(memory_.before + r_.row(t, b) * n, n, T(0));
    });
  }

  const RecurrentShape r_;
  Lengths lengths_;
  const T *x_, *weight_, *recurrence_, *bias_, *peephole_, *initialH_, *initialC_, *y_, *dyH_, *dyC_;
  T *dx_, *dweight_, *drecurrence_, *dbias_, *dpeephole_, *dinitialH_, *dinitialC_;
  BackMemory<T> memory_;
  cpu::Gemm<T> project_, byX_, addByX_, byWeight_;
  CellT<T> cell_;
};

template <class T, template <class> class CellT> class RecurrentGradKernel : public StagedKernel<T> {
  std::unique_ptr<BoundKernel> BindStaged(KernelBindContext *ctx, StagedTensors<T> &staged) const override {
    return std::make_unique<RecurrentGradTask<T, CellT>>(ctx, staged);
  }
};

/// The definition of a gradient but for its cases, text and kernel.
inline std::function<void(OpRegistry &)> recurrentGradient(CellKind kind) {
  return [=](OpRegistry &op) {
    op.With(recurrentInputs(kind)).Input("y").OptionalInput("dy").OptionalInput("dy_h");
    if (kind == CellKind::kLstm) op.OptionalInput("dy_c");
    op.Output("dx").Output("dweight").Output("drecurrence").OptionalOutput("dbias").OptionalOutput("dinitial_h");
    if (kind == CellKind::kLstm) op.OptionalOutput("dinitial_c").OptionalOutput("dpeephole");
    op.With(recurrentRules(kind, false)).SetTensorDescInferFn(inferRecurrentGradient(kind));
  };
}

inline KernelOptions recurrentGradientMemory(CellKind kind) {
  return KernelOptions().TmpSize([kind](InferContext *ctx) -> size_t {
    return recurrentBytes(ctx, BackMemory<float>::count(valueOf(recurrentShape(kind, ctx))));
  });
}

/// The gradient rule of `kind`, whose gradient op is `gradient`.
std::function<void(BackwardOpConfContext *)> recurrentGradientRule(CellKind kind, const char *gradient);
/// The rule of the gradient ops: an error, and not NoGrad, since a gradient that left this path out would be wrong.
std::function<void(BackwardOpConfContext *)> noSecondGradient(const char *op);

} // namespace opc::ops
