// layer_norm_param_grad and rms_norm_param_grad, and their gradient rules.
// SPDX-License-Identifier: Apache-2.0
#include "RowMath.h"
#include "normalization/RowsGradients.h"

namespace opc::ops::norm {
namespace {

using namespace opc::cpu;

Maybe<void> inferLayer(InferContext *ctx) {
  JUST(checkInputs<false>(ctx));
  const Shape x = ctx->In("x").shape();
  setStatistics(ctx, {"beta_diff", "gamma_diff"}, trailing(x, JUST(axisOf<int64_t>(ctx, "begin_params_axis", x))));
  return Maybe<void>::Ok();
}
Maybe<void> inferRms(InferContext *ctx) {
  const int64_t lead = JUST(checkInputs<true>(ctx));
  setStatistics(ctx, {"weight_grad"}, trailing(ctx->In("x").shape(), lead));
  return Maybe<void>::Ok();
}

/// x's dimensions from `params` on: each element of a parameter's gradient comes from its own column. Those before the
/// parameters and the `lead` statistics: each part has some of the addends.
Maybe<void> signatures(SbpContext *ctx, int64_t lead, int64_t params) {
  const int64_t rank = ctx->In("x").shape().NumAxes();
  for (int64_t i = params; i < rank && params >= lead; ++i)
    ctx->NewBuilder().Split(OpArg("dy", 0), i).Split(OpArg("x", 0), i).Split(ctx->outputs(), i - params).Build();
  splitLeading(ctx, std::min(lead, params), Outputs::kPartialSums);
  addLinearSignature(ctx, {"dy"});
  return Maybe<void>::Ok();
}
Maybe<void> layerSignatures(SbpContext *ctx) {
  return signatures(ctx, ctx->In("mean").shape().NumAxes(),
                    JUST(axisOf<int64_t>(ctx, "begin_params_axis", ctx->In("x").shape())));
}
Maybe<void> rmsSignatures(SbpContext *ctx) {
  const int64_t lead = ctx->In("inv_rms").shape().NumAxes();
  return signatures(ctx, lead, lead);
}

constexpr int64_t kBlock = RowMath::kMostColumns; // parameters side by side

/// Sums of `width` neighbouring parameters over rows of n elements, parameter j of row r at dy[r * n + j].
void sumRows(const float *dy, const float *x, const float *means, const float *inverses, int64_t rows, int64_t n,
             int64_t width, double *gammas, double *betas) {
  rowMath().parameterSums(dy, x, means, inverses, rows, n, width, gammas, betas);
}
void sumRows(const double *dy, const double *x, const double *means, const double *inverses, int64_t rows, int64_t n,
             int64_t width, double *gammas, double *betas) {
  constexpr int64_t kRows = 16;
  for (int64_t r0 = 0; r0 < rows; r0 += kRows) {
    double gamma[kBlock] = {}, beta[kBlock] = {};
    for (int64_t r = r0; r < std::min(rows, r0 + kRows); ++r) {
      const double *d = dy + r * n, *v = x + r * n, mean = means ? means[r] : 0, inverse = inverses[r];
      for (int64_t j = 0; j < width; ++j) {
        gamma[j] += d[j] * ((v[j] - mean) * inverse);
        beta[j] += d[j];
      }
    }
    for (int64_t j = 0; j < width; ++j) {
      gammas[j] += gamma[j];
      betas[j] += beta[j];
    }
  }
}

/// gammaDiff[j] and betaDiff[j]: sums over all elements of x that parameter j (of `period`) is for, in f64, in order.
template <class T>
void parameterGradients(DeviceCtx *d, const T *dy, const T *x, const T *means, const T *inverses, T *gammaDiff,
                        T *betaDiff, int64_t elements, int64_t n, int64_t period) {
  constexpr int64_t kGrain = 64, kInRow = 64; // parameters of a thread; those that lie in one row where rows are short
  const int64_t block = period == n ? kBlock : kInRow;
  d->parallelFor(period, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t j0 = begin; j0 < end; j0 += block) {
      const int64_t width = std::min(block, end - j0);
      double gammas[kBlock] = {}, betas[kBlock] = {};
      if (period == n) sumRows(dy + j0, x + j0, means, inverses, elements / n, n, width, gammas, betas);
      for (int64_t base = j0; period != n && base < elements; base += period) {
        // All of the block lies in one row, or the rows are shorter than the parameters.
        const int64_t row = base / n;
        if ((base + width - 1) / n == row) {
          const T mean = means ? means[row] : T(0), inverse = inverses[row];
          if (gammaDiff)
            for (int64_t j = 0; j < width; ++j)
              gammas[j] += static_cast<double>(dy[base + j] * ((x[base + j] - mean) * inverse));
          if (betaDiff)
            for (int64_t j = 0; j < width; ++j) betas[j] += static_cast<double>(dy[base + j]);
          continue;
        }
        for (int64_t j = 0; j < width; ++j) {
          const int64_t r = (base + j) / n;
          gammas[j] += static_cast<double>(dy[base + j] * ((x[base + j] - (means ? means[r] : T(0))) * inverses[r]));
          betas[j] += static_cast<double>(dy[base + j]);
        }
      }
      for (int64_t j = 0; j < width; ++j) {
        if (gammaDiff) gammaDiff[j0 + j] = static_cast<T>(gammas[j]);
        if (betaDiff) betaDiff[j0 + j] = static_cast<T>(betas[j]);
      }
    }
  });
}

template <class T, bool Rms> class ParamGradKernel : public StagedKernel<T> {
public:
  std::unique_ptr<BoundKernel> BindStaged(KernelBindContext *ctx, StagedTensors<T> &staged) const override {
    const NormShape s = rowsOf<Rms>(ctx);
    const Shape &shape = ctx->Desc("x").shape();
    const T *dy = staged.in("dy"), *x = staged.in("x"), *means = staged.in("mean"),
            *inverses = staged.in(kInverse<Rms>);
    T *gammaDiff = staged.out(Rms ? "weight_grad" : "gamma_diff"), *betaDiff = staged.out("beta_diff");
    int64_t period = s.inner;
    if constexpr (!Rms) period = shape.Count(valueOf(axisOf<int64_t>(ctx, "begin_params_axis", shape)));
    return bindTask([=, elements = shape.elem_cnt(), n = std::max<int64_t>(1, s.inner)](DeviceCtx *d) {
      parameterGradients(d, dy, x, means, inverses, gammaDiff, betaDiff, elements, n, period);
    });
  }
};
template <class T> using LayerNormParamGradKernel = ParamGradKernel<T, false>;
template <class T> using RmsNormParamGradKernel = ParamGradKernel<T, true>;

REGISTER_USER_OP("layer_norm_param_grad")
    .With(gradientInputs<false>)
    .OptionalOutput("beta_diff")
    .OptionalOutput("gamma_diff")
    .Attr<int64_t>("begin_params_axis", 0)
    .SetTensorDescInferFn(inferLayer)
    .SetGetSbpFn(layerSignatures)
    .Doc("The gradients of layer_norm by its parameters: gamma_diff is the sum of dy * (x - mean) * inv_variance "
         "over the dimensions before begin_params_axis, beta_diff the sum of dy. Both are f32 when x is f16 or bf16; "
         "sums run in f64.")
    .Cases({withStatistics<false>(gradCase("both", {5, 70}), {5})
                .Attr("begin_params_axis", int64_t{1})
                .Out("beta_diff")
                .Out("gamma_diff"),
            withStatistics<false>(gradCase("gamma", {2, 3, 5}), {2})
                .Attr("begin_params_axis", int64_t{-1})
                .Out("gamma_diff"),
            withStatistics<false>(gradCase("long", {2, 3, 5}), {2, 3})
                .Attr("begin_params_axis", int64_t{1})
                .Out("beta_diff")
                .Out("gamma_diff"),
            withStatistics<false>(gradCase("half", {5, 7}), {5}, true)
                .Attr("begin_params_axis", int64_t{1})
                .Out("beta_diff")
                .Out("gamma_diff")})
    .Kernel<LayerNormParamGradKernel, types::Floating>("x");

REGISTER_USER_OP("rms_norm_param_grad")
    .With(gradientInputs<true>)
    .Output("weight_grad")
    .SetTensorDescInferFn(inferRms)
    .SetGetSbpFn(rmsSignatures)
    .Doc("The gradient of rms_norm by weight: the sum of dy * x * inv_rms over the leading dimensions; f32 when x is "
         "f16 or bf16.")
    .Cases({withStatistics<true>(gradCase("rows", {5, 70}), {5}),
            withStatistics<true>(gradCase("half", {5, 7}), {5}, true)})
    .Kernel<RmsNormParamGradKernel, types::Floating>("x");

void layerGradient(GradientRule &g) {
  const int64_t params = valueOf(resolveAxis(g.attr<int64_t>("begin_params_axis"), g.shape("x").NumAxes()));
  secondGradient(g, rowsView<false>(g, g.shape("mean").NumAxes(), params), {nullptr, "gamma_diff", "beta_diff"});
}
REGISTER_USER_OP_GRAD("layer_norm_param_grad").SetBackwardOpConfGenFn(gradientRule(layerGradient));

void rmsGradient(GradientRule &g) {
  const int64_t lead = g.shape("inv_rms").NumAxes();
  secondGradient(g, rowsView<true>(g, lead, lead), {nullptr, "weight_grad", nullptr});
}
REGISTER_USER_OP_GRAD("rms_norm_param_grad").SetBackwardOpConfGenFn(gradientRule(rmsGradient));

} // namespace
} // namespace opc::ops::norm
