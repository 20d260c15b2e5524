// layer_norm_grad and rms_norm_grad, and the gradient rules of both and of the forward ops.
// SPDX-License-Identifier: Apache-2.0
#include "RowMath.h"
#include "normalization/RowsGradients.h"

#include "opc/RowsKernel.h"

namespace opc::ops::norm {
namespace {

using namespace opc::cpu;

Maybe<void> inferLayer(InferContext *ctx) {
  const int64_t lead = JUST(checkInputs<false>(ctx));
  const TensorDesc x = ctx->In("x");
  const int64_t rank = x.shape().NumAxes(), norm = JUST(axisOf<int64_t>(ctx, "begin_norm_axis", x.shape()));
  if (norm != lead)
    return Error::ShapeMismatch() << "begin_norm_axis is " << norm << ", but mean has " << lead << " dimensions";
  if (ctx->Has("gamma")) {
    const int64_t begin = rank - ctx->In("gamma").shape().NumAxes();
    if (begin < 0) return Error::ShapeMismatch() << "gamma has more dimensions than x, " << x.toString();
    JUST(checkParameter(ctx, "gamma", trailing(x.shape(), begin), "the last dimensions of x"));
  }
  JUST(checkLikeX(ctx, "_add_to_output"));
  return setOut(ctx, "dx", x);
}
Maybe<void> inferRms(InferContext *ctx) {
  const int64_t lead = JUST(checkInputs<true>(ctx));
  const TensorDesc x = ctx->In("x");
  JUST(checkParameter(ctx, "weight", trailing(x.shape(), lead), "the dimensions of x that inv_rms lacks"));
  return setOut(ctx, "dx", x);
}

/// Rows that are whole may be apart; linear in dy and the addend.
template <bool kRms> Maybe<ShardingRule> sharding(const SbpContext &ctx) {
  int64_t end = ctx.In(kInverse<kRms>).shape().NumAxes();
  if (ctx.Has("gamma")) end = std::min(end, ctx.In("x").shape().NumAxes() - ctx.In("gamma").shape().NumAxes());
  const AxisFactors rows = leadingFactors(end);
  if (kRms) return shardingRule({rows, rows, rows}, {rows}, Linear({0}));
  return shardingRule({rows, rows, rows, rows, {".."}, added(rows)}, {rows}, Linear({0}));
}

/// to = from * gamma, of the row that begins at element `first` of x; gamma repeats every `period` elements of it.
template <class T> void scaleRow(const T *from, const T *gamma, T *to, int64_t n, int64_t first, int64_t period) {
  for (int64_t done = 0; done < n;) {
    const int64_t at = (first + done) % period, run = std::min(n - done, period - at);
    for (int64_t i = 0; i < run; ++i) to[done + i] = from[done + i] * gamma[at + i];
    done += run;
  }
}

/// One row, of d = dy [* gamma]; to may be dy. Plus `add`, unless that is null.
void rowGradient(const float *dy, const float *x, float *to, int64_t n, const float *gamma, const float *add,
                 float mean, float inverse, bool centered) {
  rowMath().normGradient(dy, x, to, n, gamma, add, mean, inverse, centered);
}
void rowGradient(const double *dy, const double *x, double *to, int64_t n, const double *gamma, const double *add,
                 double mean, double inverse, bool centered) {
  for (int64_t i = 0; i < n; ++i) to[i] = gamma ? dy[i] * gamma[i] : dy[i];
  normGradRow(x, to, n, mean, inverse, centered);
  if (add)
    for (int64_t i = 0; i < n; ++i) to[i] += add[i];
}

template <class T, bool Rms> class RowsGradKernel : public RowFunctionKernel<T> {
protected:
  RowFunction<T> Rows(const KernelContext &ctx) const override {
    const NormShape s = rowsOf<Rms>(&ctx);
    const int64_t n = s.inner, period = ctx.Has(kGamma<Rms>) ? ctx.Desc(kGamma<Rms>).shape().elem_cnt() : n;
    RowFunction<T> f;
    f.rows = s.outer;
    f.size = n;
    f.joins = period <= n;
    f.inputs = {{"dy", RowPart::kRow},
                {"x", RowPart::kRow},
                {kInverse<Rms>, RowPart::kOne},
                {kGamma<Rms>, RowPart::kWhole},
                {"_add_to_output", RowPart::kRow},
                {"mean", RowPart::kOne}};
    f.outputs = {{"dx", RowPart::kRow}};
    f.run = [=](const RowArguments<T> &a) {
      const T *gamma = a.x(3), *add = a.x(4);
      for (int64_t r = 0; r < a.count; ++r) {
        const T *from = a.x(0) + r * n;
        T *to = a.out[0] + r * n;
        const bool repeats = gamma && period != n;
        if (repeats) scaleRow(from, gamma, to, n, (a.first + r) * n, period);
        rowGradient(repeats ? to : from, a.x(1) + r * n, to, n, repeats ? nullptr : gamma, add ? add + r * n : nullptr,
                    Rms ? T(0) : a.x(5)[r], a.x(2)[r], !Rms);
      }
    };
    return f;
  }
};
template <class T> using LayerNormGradKernel = RowsGradKernel<T, false>;
template <class T> using RmsNormGradKernel = RowsGradKernel<T, true>;

REGISTER_USER_OP("layer_norm_grad")
    .With(gradientInputs<false>)
    .OptionalInput("gamma")
    .OptionalInput("_add_to_output")
    .Output("dx")
    .Attr<int64_t>("begin_norm_axis", 0)
    .Attr<double>("epsilon", 0.0)
    .With(rules(inferLayer, sharding<false>))
    .Doc("The gradient of layer_norm by x: with d = dy * gamma, xhat = (x - mean) * inv_variance and means over the "
         "normalised dimensions, dx = inv_variance * (d - mean(d) - xhat * mean(d * xhat)), plus _add_to_output when "
         "it is given.")
    .With(halfTolerances)
    .Cases({withStatistics<false>(gradCase("affine", {3, 19}).In("gamma", {19}, 0.5, 2), {3})
                .Attr("begin_norm_axis", int64_t{1}),
            withStatistics<false>(gradCase("plain", {2, 3, 5}).In("_add_to_output", {2, 3, 5}), {2})
                .Attr("begin_norm_axis", int64_t{-2}),
            withStatistics<false>(gradCase("whole", {4, 6}).In("gamma", {6}, 0.5, 2), {}),
            withStatistics<false>(gradCase("half", {3, 19}).In("gamma", {19}, 0.5, 2), {3}, true)
                .Attr("begin_norm_axis", int64_t{1})})
    .Kernel<LayerNormGradKernel, types::Floating>("x");

REGISTER_USER_OP("rms_norm_grad")
    .With(gradientInputs<true>)
    .OptionalInput("weight")
    .Output("dx")
    .With(rules(inferRms, sharding<true>))
    .Doc("The gradient of rms_norm by x: with d = dy * weight and xhat = x * inv_rms, dx = inv_rms * (d - xhat * "
         "mean(d * xhat)), the mean over the normalised dimensions.")
    .With(halfTolerances)
    .Cases({withStatistics<true>(gradCase("weighted", {3, 19}).In("weight", {19}, 0.5, 2), {3}),
            withStatistics<true>(gradCase("plain", {2, 3, 5}), {2}),
            withStatistics<true>(gradCase("half", {3, 19}).In("weight", {19}, 0.5, 2), {3}, true)})
    .Kernel<RmsNormGradKernel, types::Floating>("x");

int64_t axisOf(GradientRule &g, const char *attr) {
  return valueOf(resolveAxis(g.attr<int64_t>(attr), g.shape("x").NumAxes()));
}

void layerNormGradient(GradientRule &g) {
  const NormView view = rowsView<false>(g, axisOf(g, "begin_norm_axis"), axisOf(g, "begin_params_axis"));
  const std::string dy = g.hasDy("y") ? g.dy("y") : "";
  bindX(g, "layer_norm_grad", dy, view, {"begin_norm_axis", "epsilon"});
  const bool beta = g.needs("beta"), gamma = g.needs("gamma");
  if (dy.empty() || (!beta && !gamma)) return;
  auto params = backwardOp(g, "layer_norm_param_grad", "params", dy, view);
  params.same({"begin_params_axis"});
  if (beta) params.output("beta_diff");
  if (gamma) params.output("gamma_diff");
  if (beta) bindParameter(g, "beta", params.out("beta_diff"));
  if (gamma) bindParameter(g, "gamma", params.out("gamma_diff"));
}
REGISTER_USER_OP_GRAD("layer_norm").SetBackwardOpConfGenFn(gradientRule(layerNormGradient));

void rmsNormGradient(GradientRule &g) {
  const int64_t begin = g.shape("inv_rms").NumAxes();
  const NormView view = rowsView<true>(g, begin, begin);
  const std::string dy = g.hasDy("y") ? g.dy("y") : "";
  bindX(g, "rms_norm_grad", dy, view, {});
  if (!dy.empty() && g.needs("weight"))
    bindParameter(g, "weight", backwardOp(g, "rms_norm_param_grad", "weight", dy, view).out("weight_grad"));
}
REGISTER_USER_OP_GRAD("rms_norm").SetBackwardOpConfGenFn(gradientRule(rmsNormGradient));

template <bool Rms> void gradGradient(GradientRule &g) {
  if (g.needs("_add_to_output")) g.bind("_add_to_output", g.dy("dx"));
  const int64_t begin = g.shape(kInverse<Rms>).NumAxes();
  secondGradient(g, rowsView<Rms>(g, begin, begin), {"dx", nullptr, nullptr});
}
REGISTER_USER_OP_GRAD("layer_norm_grad").SetBackwardOpConfGenFn(gradientRule(gradGradient<false>));
REGISTER_USER_OP_GRAD("rms_norm_grad").SetBackwardOpConfGenFn(gradientRule(gradGradient<true>));

} // namespace
} // namespace opc::ops::norm
