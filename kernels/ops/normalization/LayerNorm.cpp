// layer_norm and rms_norm: normalisation of trailing dimensions.
// SPDX-License-Identifier: Apache-2.0
#include "RowMath.h"
#include "normalization/NormRows.h"
#include "normalization/NormShape.h"

#include "opc/RowsKernel.h"

namespace opc::ops::norm {
namespace {

using namespace opc::cpu;

Maybe<void> inferLayer(InferContext *ctx) {
  const TensorDesc x = ctx->In("x");
  JUST(checkFloating("x", x));
  const int64_t norm = JUST(axisOf<int64_t>(ctx, "begin_norm_axis", x.shape()));
  const int64_t params = JUST(axisOf<int64_t>(ctx, "begin_params_axis", x.shape()));
  JUST(checkEpsilon(ctx->Attr<double>("epsilon")));
  JUST(checkSwitch(ctx, "center", "beta"));
  JUST(checkSwitch(ctx, "scale", "gamma"));
  for (const char *p : {"beta", "gamma"})
    JUST(checkParameter(ctx, p, trailing(x.shape(), params), "x's dimensions from begin_params_axis on"));
  ctx->Out("y") = x;
  setStatistics(ctx, {"mean", "inv_variance"}, leading(x.shape(), norm));
  return Maybe<void>::Ok();
}
Maybe<void> inferRms(InferContext *ctx) {
  const TensorDesc x = ctx->In("x");
  const Shape &normalized = ctx->Attr<Shape>("normalized_shape");
  JUST(checkFloating("x", x));
  JUST(checkEpsilon(ctx->Attr<float>("epsilon")));
  const int64_t begin = x.shape().NumAxes() - normalized.NumAxes();
  if (normalized.NumAxes() == 0 || begin < 0 || trailing(x.shape(), begin) != normalized)
    return Error::ShapeMismatch() << "normalized_shape is " << normalized.ToString()
                                  << ", which are not the last dimensions of x, " << x.toString();
  JUST(checkParameter(ctx, "weight", normalized, "the normalized_shape"));
  ctx->Out("y") = x;
  setStatistics(ctx, {"inv_rms"}, leading(x.shape(), begin));
  return Maybe<void>::Ok();
}

Maybe<ShardingRule> layerSharding(const SbpContext &ctx) {
  const Shape &x = ctx.In("x").shape();
  const int64_t norm = JUST(axisOf<int64_t>(&ctx, "begin_norm_axis", x));
  const AxisFactors rows = leadingFactors(std::min(norm, JUST(axisOf<int64_t>(&ctx, "begin_params_axis", x))));
  return shardingRule({rows}, {rows, rows, rows});
}
Maybe<ShardingRule> rmsSharding(const SbpContext &ctx) {
  const AxisFactors rows =
      leadingFactors(ctx.In("x").shape().NumAxes() - ctx.Attr<Shape>("normalized_shape").NumAxes());
  return shardingRule({rows}, {rows, rows});
}

void statistics(const float *x, int64_t n, bool centered, float epsilon, float *mean, float *inverse) {
  rowMath().statistics(x, n, centered, epsilon, mean, inverse);
}
void statistics(const double *x, int64_t n, bool centered, double epsilon, double *mean, double *inverse) {
  *mean = centered ? rowTotal(x, n) / static_cast<double>(n) : 0;
  *inverse = inverseDeviation(centeredSquares(x, *mean, n), static_cast<double>(n), epsilon);
}

/// y = (x - mean) * scale [* gamma] [+ beta]; gamma and beta may be absent.
void affineRow(const float *x, float *y, int64_t n, float mean, float scale, const float *gamma, const float *beta) {
  rowMath().normalize(x, y, n, mean, scale, gamma, beta);
}
void affineRow(const double *x, double *y, int64_t n, double mean, double scale, const double *gamma,
               const double *beta) {
  if (gamma && beta)
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * scale * gamma[i] + beta[i];
  else if (gamma)
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * scale * gamma[i];
  else if (beta)
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * scale + beta[i];
  else
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * scale;
}

/// The same with parameters that repeat every `period` elements, the row beginning at element `first` of x.
template <class T>
void affineCyclic(const T *x, T *y, int64_t n, T mean, T scale, const T *gamma, const T *beta, int64_t first,
                  int64_t period) {
  int64_t done = 0;
  while (done < n) {
    const int64_t at = (first + done) % period, run = std::min(n - done, period - at);
    affineRow(x + done, y + done, run, mean, scale, gamma ? gamma + at : nullptr, beta ? beta + at : nullptr);
    done += run;
  }
}

template <class T, bool Rms> class NormKernel : public RowFunctionKernel<T> {
protected:
  RowFunction<T> Rows(const KernelContext &ctx) const override {
    const Shape &shape = ctx.Desc("x").shape();
    int64_t begin, params;
    T epsilon;
    if constexpr (Rms) {
      begin = params = shape.NumAxes() - ctx.Attr<Shape>("normalized_shape").NumAxes();
      epsilon = static_cast<T>(ctx.Attr<float>("epsilon"));
    } else {
      begin = valueOf(axisOf<int64_t>(&ctx, "begin_norm_axis", shape));
      params = valueOf(axisOf<int64_t>(&ctx, "begin_params_axis", shape));
      epsilon = static_cast<T>(ctx.Attr<double>("epsilon"));
    }
    const NormShape s = NormShape::rowsFrom(shape, begin);
    const int64_t n = s.inner, period = shape.Count(params);
    RowFunction<T> f;
    f.rows = s.outer;
    f.size = n;
    f.joins = period <= n; // else the parameters are as large as what they scale
    f.inputs = {{"x", RowPart::kRow}, {"beta", RowPart::kWhole}, {Rms ? "weight" : "gamma", RowPart::kWhole}};
    f.outputs = {{"y", RowPart::kRow}, {Rms ? "inv_rms" : "inv_variance", RowPart::kOne}};
    if (!Rms) f.outputs.push_back({"mean", RowPart::kOne});
    f.run = [=](const RowArguments<T> &a) {
      const T *beta = a.x(1), *gamma = a.x(2);
      for (int64_t r = 0; r < a.count; ++r) {
        const T *row = a.x(0) + r * n;
        T *y = a.out[0] + r * n;
        T mean, inverse;
        statistics(row, n, !Rms, epsilon, &mean, &inverse);
        if (!Rms) a.out[2][r] = mean;
        a.out[1][r] = inverse;
        if (period == n || (!gamma && !beta))
          affineRow(row, y, n, mean, inverse, gamma, beta);
        else
          affineCyclic(row, y, n, mean, inverse, gamma, beta, (a.first + r) * n, period);
      }
    };
    return f;
  }
};
template <class T> using LayerNormKernel = NormKernel<T, false>;
template <class T> using RmsNormKernel = NormKernel<T, true>;

REGISTER_USER_OP("layer_norm")
    .With(TensorArgs{{"x"}, {"y", "mean", "inv_variance"}})
    .OptionalInput("beta")
    .OptionalInput("gamma")
    .Attr<bool>("center", false)
    .Attr<bool>("scale", false)
    .Attr<int64_t>("begin_norm_axis", 0)
    .Attr<int64_t>("begin_params_axis", 0)
    .Attr<double>("epsilon", 0.0)
    .With(rules(inferLayer, layerSharding))
    .Doc("Layer normalisation (Ba, Kiros, Hinton, 2016) of x's dimensions from begin_norm_axis on: y = (x - mean) * "
         "inv_variance * gamma + beta, with mean and inv_variance = 1 / sqrt(variance + epsilon) taken over those "
         "dimensions (population variance). mean and inv_variance have x's leading dimensions and are f32 when x is "
         "f16 or bf16. gamma (scale: true) and beta (center: true) have x's dimensions from begin_params_axis on.")
    .With(halfTolerances)
    .Cases({Case("affine")
                .In("x", {3, 19}, -3, 3)
                .In("beta", {19})
                .In("gamma", {19}, 0.5, 2)
                .Attr("center", true)
                .Attr("scale", true)
                .Attr("begin_norm_axis", int64_t{1})
                .Attr("begin_params_axis", int64_t{1})
                .Attr("epsilon", 1e-5),
            Case("plain")
                .In("x", {2, 3, 5}, -3, 3)
                .Attr("begin_norm_axis", int64_t{-2})
                .Attr("begin_params_axis", int64_t{-1})
                .Attr("epsilon", 1e-5),
            Case("whole")
                .In("x", {4, 6}, -3, 3)
                .In("gamma", {6}, 0.5, 2)
                .Attr("scale", true)
                .Attr("begin_params_axis", int64_t{1})
                .Attr("epsilon", 1e-3),
            Case("no_rows")
                .In("x", {0, 8})
                .Attr("begin_norm_axis", int64_t{1})
                .Attr("begin_params_axis", int64_t{1})
                .Attr("epsilon", 1e-5)})
    .Kernel<LayerNormKernel, types::Floating>("x");

REGISTER_USER_OP("rms_norm")
    .With(TensorArgs{{"x"}, {"y", "inv_rms"}})
    .OptionalInput("weight")
    .RequiredAttr<Shape>("normalized_shape")
    .Attr<float>("epsilon", 1e-5f)
    .With(rules(inferRms, rmsSharding))
    .Doc("Root-mean-square normalisation (Zhang, Sennrich, 2019) of x's last dimensions, which normalized_shape "
         "names: y = x * inv_rms * weight, inv_rms = 1 / sqrt(mean of x^2 + epsilon). inv_rms has x's leading "
         "dimensions and is f32 when x is f16 or bf16.")
    .With(halfTolerances)
    .Cases({Case("weighted").In("x", {3, 19}, -3, 3).In("weight", {19}, 0.5, 2).Attr("normalized_shape", Shape{19}),
            Case("plain").In("x", {2, 3, 5}, -3, 3).Attr("normalized_shape", Shape{3, 5}).Attr("epsilon", 1e-3f),
            Case("no_rows").In("x", {0, 8}).Attr("normalized_shape", Shape{8})})
    .Kernel<RmsNormKernel, types::Floating>("x");

} // namespace
} // namespace opc::ops::norm
