// lstm_grad, gru_grad and rnn_grad on GPUs: the gates of all steps again, back through the steps, and then the products
// over all of them.
// SPDX-License-Identifier: Apache-2.0
#include "recurrent/RecurrentCuda.h"
#include "support/FunctionKernel.h"

namespace opc::ops {
namespace {

/// Numbers of temporary memory, as takeMemory() takes them.
int64_t backwardCount(const RecurrentShape &r) {
  const int64_t ofRow = (r.kind == CellKind::kGru ? 3 : 2) * r.columns() + r.hidden +
                        (r.kind == CellKind::kLstm  ? 3
                         : r.kind == CellKind::kGru ? 1
                                                    : 0) *
                            r.hidden;
  return r.directions * (r.rows() * ofRow + r.batch * (r.columns() + 3 * r.hidden));
}
void takeMemory(RecurrentLaunches *make, const RecurrentShape &r, RecurrentBackwardArguments *a) {
  const int64_t gates = r.directions * r.rows() * r.columns(), numbers = r.directions * r.rows() * r.hidden;
  a->values = make->take(gates), a->slopes = make->take(gates), a->before = make->take(numbers);
  if (r.kind == CellKind::kGru) a->states = make->take(gates);
  if (r.kind != CellKind::kRnn) a->cell = make->take(numbers);
  if (r.kind == CellKind::kLstm) a->shown = make->take(numbers), a->shownSlope = make->take(numbers);
  a->step = make->take(r.directions * r.batch * r.columns());
  for (void **state : {&a->extra, &a->dh, &a->dc}) *state = make->take(r.directions * r.batch * r.hidden);
}

RecurrentBackwardArguments backwardArguments(KernelBindContext *ctx, const RecurrentShape &r, RecurrentLaunches *make) {
  RecurrentBackwardArguments a{};
  a.layer = recurrentLayer(ctx, r);
  a.initialH = givenInput(ctx, "initial_h"), a.initialC = givenInput(ctx, "initial_c");
  a.y = givenInput(ctx, "y"), a.dy = givenInput(ctx, "dy");
  a.dyH = givenInput(ctx, "dy_h"), a.dyC = givenInput(ctx, "dy_c");
  a.dbias = askedOutput(ctx, "dbias"), a.dpeephole = askedOutput(ctx, "dpeephole");
  a.dinitialH = askedOutput(ctx, "dinitial_h"), a.dinitialC = askedOutput(ctx, "dinitial_c");
  takeMemory(make, r, &a);
  return a;
}

/// The matrices of a gradient, and its launches.
class Backward {
public:
  Backward(KernelBindContext *ctx, const RecurrentShape &r)
      : r_(r), make_(ctx), a_(backwardArguments(ctx, r, &make_)), x_{ctx->In("x").raw_dptr(), r.width, 0, true},
        dx_{ctx->Out("dx").raw_dptr(), r.width, 0, true}, weight_{ofWeight(ctx->In("weight").raw_dptr(), r.width)},
        dweight_{ofWeight(ctx->Out("dweight").raw_dptr(), r.width)},
        recurrence_{ofWeight(ctx->In("recurrence").raw_dptr(), r.hidden)},
        drecurrence_{ofWeight(ctx->Out("drecurrence").raw_dptr(), r.hidden)}, values_{ofGates(a_.values)},
        states_{ofGates(a_.states)}, before_{ofStates(a_.before)}, cell_{ofStates(a_.cell)},
        step_{a_.step, r.columns(), r.batch * r.columns(), false},
        extra_{a_.extra, r.hidden, r.batch * r.hidden, false}, dh_{a_.dh, r.hidden, r.batch * r.hidden, false} {}

  std::unique_ptr<BoundKernel> bind() const {
    RecurrentSequence all;
    all.first = {each("recurrent_grad_start"), eachTime("recurrent_before"),
                 make_.product({.m = r_.rows(), .n = r_.columns(), .k = r_.width, .transB = true, .batches = d()}, x_,
                               weight_, values_)};
    if (r_.kind == CellKind::kGru)
      gru(&all);
    else
      plain(&all, r_.kind == CellKind::kLstm);
    if (a_.dbias) all.last.push_back(make_.each("recurrent_bias", d() * r_.columns(), a_));
    if (a_.dpeephole) all.last.push_back(make_.each("lstm_peephole", d() * r_.hidden, a_));
    all.last.push_back(
        make_.product({.m = r_.rows(), .n = r_.width, .k = r_.columns(), .parts = d()}, values_, weight_, dx_));
    all.last.push_back(make_.product({.m = r_.columns(), .n = r_.width, .k = r_.rows(), .transA = true, .batches = d()},
                                     values_, x_, dweight_));
    if (a_.dinitialH || a_.dinitialC) all.last.push_back(each("recurrent_grad_end"));
    return all.bind(r_.steps, true);
  }

private:
  int64_t d() const { return r_.directions; }
  DirectionMatrix ofWeight(const void *at, int64_t row) const { return {at, row, r_.columns() * row, true}; }
  DirectionMatrix ofGates(const void *at) const { return {at, r_.columns(), r_.rows() * r_.columns(), false}; }
  DirectionMatrix ofStates(const void *at) const { return {at, r_.hidden, r_.rows() * r_.hidden, false}; }
  RecurrentLaunch each(const char *name) const { return make_.each(name, d() * r_.batch * r_.hidden, a_); }
  RecurrentLaunch eachTime(const char *name) const { return make_.each(name, d() * r_.rows() * r_.hidden, a_); }

  /// Products of all rows' states with `columns` columns of the recurrence.
  RecurrentLaunch sums(int64_t columns, const DirectionMatrix &states, const DirectionMatrix &recurrence,
                       const DirectionMatrix &to, bool add) const {
    return make_.product({.m = r_.rows(), .n = columns, .k = r_.hidden, .transB = true, .add = add, .batches = d()},
                         states, recurrence, to);
  }
  /// A step's gradient comes to the state before it.
  RecurrentLaunch back(int64_t terms, const DirectionMatrix &step, const DirectionMatrix &recurrence,
                       const DirectionMatrix &to, bool add) const {
    return make_.product({.m = r_.batch, .n = r_.hidden, .k = terms, .add = add, .batches = d()}, step, recurrence, to);
  }
  /// Gradients by `rows` rows of the recurrence.
  RecurrentLaunch byRecurrence(int64_t rows, const DirectionMatrix &gradients, const DirectionMatrix &states,
                               const DirectionMatrix &to) const {
    return make_.product({.m = rows, .n = r_.hidden, .k = r_.rows(), .transA = true, .batches = d()}, gradients, states,
                         to);
  }

  void plain(RecurrentSequence *all, bool isLstm) const {
    const int64_t columns = r_.columns();
    all->first.push_back(sums(columns, before_, recurrence_, values_, true));
    all->first.push_back(isLstm ? each("lstm_gates") : eachTime("rnn_gates"));
    all->step = {each(isLstm ? "lstm_back" : "rnn_back"), back(columns, step_, recurrence_, dh_, true)};
    all->last = {byRecurrence(columns, values_, before_, drecurrence_)};
  }

  /// The hidden gate takes the product with the state that the reset leaves, or late the reset of the product.
  void gru(RecurrentSequence *all) const {
    const int64_t n = r_.hidden, first = (r_.late ? 3 : 2) * n;
    const DirectionMatrix recurrence = make_.from(recurrence_, 2 * n * n), states = make_.from(states_, 2 * n);
    all->first.push_back(sums(first, before_, recurrence_, states_, false));
    all->first.push_back(eachTime("gru_gates"));
    if (!r_.late) all->first.push_back(sums(n, cell_, recurrence, states, false));
    all->first.push_back(eachTime("gru_fresh_gates"));
    all->step = {each("gru_back")};
    if (!r_.late) {
      all->step.push_back(back(n, make_.from(step_, 2 * n), recurrence, extra_, false));
      all->step.push_back(each("gru_back_reset"));
    }
    all->step.push_back(back(first, step_, recurrence_, dh_, true));
    all->last = {byRecurrence(2 * n, values_, before_, drecurrence_),
                 byRecurrence(n, r_.late ? states : make_.from(values_, 2 * n), r_.late ? before_ : cell_,
                              make_.from(drecurrence_, 2 * n * n))};
  }

  const RecurrentShape r_;
  RecurrentLaunches make_;
  const RecurrentBackwardArguments a_;
  const DirectionMatrix x_, dx_, weight_, dweight_, recurrence_, drecurrence_, values_, states_, before_, cell_, step_,
      extra_, dh_;
};

template <CellKind kind> std::unique_ptr<BoundKernel> bindBackward(KernelBindContext *ctx) {
  return Backward(ctx, recurrentShape(kind, ctx)).bind();
}
template <CellKind kind> struct Gradient {
  template <class> using Kernel = FunctionKernel<&bindBackward<kind>>;
  static KernelOptions options() {
    return onGpu().TmpSize([](InferContext *ctx) -> size_t {
      return recurrentBytes(ctx, backwardCount(valueOf(recurrentShape(kind, ctx))));
    });
  }
};
using LstmGradient = Gradient<CellKind::kLstm>;
using GruGradient = Gradient<CellKind::kGru>;
using RnnGradient = Gradient<CellKind::kRnn>;

REGISTER_KERNELS("lstm_grad").Kernel<LstmGradient::Kernel, types::Floating>("x", LstmGradient::options());
REGISTER_KERNELS("gru_grad").Kernel<GruGradient::Kernel, types::Floating>("x", GruGradient::options());
REGISTER_KERNELS("rnn_grad").Kernel<RnnGradient::Kernel, types::Floating>("x", RnnGradient::options());

} // namespace
} // namespace opc::ops
