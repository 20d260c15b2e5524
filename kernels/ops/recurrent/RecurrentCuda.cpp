// lstm, gru and rnn on GPUs.
// SPDX-License-Identifier: Apache-2.0
#include "recurrent/RecurrentCuda.h"
#include "support/FunctionKernel.h"

namespace opc::ops {
namespace {

/// Numbers of temporary memory.
int64_t forwardCount(const RecurrentShape &r) {
  return r.directions * (r.rows() * r.columns() + r.batch * (r.columns() + 3 * r.hidden));
}
const char *stepKernel(CellKind kind) {
  return kind == CellKind::kRnn ? "rnn_step" : kind == CellKind::kGru ? "gru_step" : "lstm_step";
}

template <CellKind kind> std::unique_ptr<BoundKernel> bindForward(KernelBindContext *ctx) {
  const RecurrentShape r = recurrentShape(kind, ctx);
  RecurrentLaunches make(ctx);
  RecurrentForwardArguments a{};
  a.layer = recurrentLayer(ctx, r);
  a.initialH = givenInput(ctx, "initial_h"), a.initialC = givenInput(ctx, "initial_c");
  a.y = askedOutput(ctx, "y"), a.yH = askedOutput(ctx, "y_h"), a.yC = askedOutput(ctx, "y_c");
  const int64_t n = r.hidden, columns = r.columns(), states = r.directions * r.batch * n;
  a.projected = make.take(r.directions * r.rows() * columns);
  a.product = make.take(r.directions * r.batch * columns);
  a.extra = make.take(states), a.h = make.take(states), a.c = make.take(states);

  const DirectionMatrix x{ctx->In("x").raw_dptr(), r.width, 0, true},
      weight{ctx->In("weight").raw_dptr(), r.width, columns * r.width, true},
      recurrence{ctx->In("recurrence").raw_dptr(), n, columns * n, true},
      projected{a.projected, columns, r.rows() * columns, false}, product{a.product, columns, r.batch * columns, false},
      h{a.h, n, r.batch * n, false}, left{a.extra, n, r.batch * n, false};
  const bool hasSecond = kind == CellKind::kGru && !r.late; // of a GRU whose reset comes first
  const int64_t d = r.directions, first = hasSecond ? 2 * n : columns;
  RecurrentSequence all;
  all.first = {
      make.each("recurrent_start", states, a),
      make.product({.m = r.rows(), .n = columns, .k = r.width, .transB = true, .batches = d}, x, weight, projected)};
  all.step = {make.product({.m = r.batch, .n = first, .k = n, .transB = true, .batches = d}, h, recurrence, product),
              make.each(stepKernel(kind), states, a)};
  if (hasSecond) {
    all.step.push_back(make.product({.m = r.batch, .n = n, .k = n, .transB = true, .batches = d}, left,
                                    make.from(recurrence, 2 * n * n), make.from(product, 2 * n)));
    all.step.push_back(make.each("gru_fresh", states, a));
  }
  all.last = {make.each("recurrent_end", states, a)};
  return all.bind(r.steps, false);
}
template <CellKind kind> struct Forward {
  template <class> using Kernel = FunctionKernel<&bindForward<kind>>;
  static KernelOptions options() {
    return onGpu().TmpSize([](InferContext *ctx) -> size_t {
      return recurrentBytes(ctx, forwardCount(valueOf(recurrentShape(kind, ctx))));
    });
  }
};

REGISTER_KERNELS("lstm").Kernel<Forward<CellKind::kLstm>::Kernel, types::Floating>("x",
                                                                                   Forward<CellKind::kLstm>::options());
REGISTER_KERNELS("gru").Kernel<Forward<CellKind::kGru>::Kernel, types::Floating>("x",
                                                                                 Forward<CellKind::kGru>::options());
REGISTER_KERNELS("rnn").Kernel<Forward<CellKind::kRnn>::Kernel, types::Floating>("x",
                                                                                 Forward<CellKind::kRnn>::options());

} // namespace
} // namespace opc::ops
