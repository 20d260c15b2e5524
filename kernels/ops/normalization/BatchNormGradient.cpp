// normalization_grad: the gradients of batch normalisation; and the gradient rules of both.
// SPDX-License-Identifier: Apache-2.0
#include "normalization/NormRows.h"
#include "normalization/NormShape.h"
#include "normalization/NormSteps.h"
#include "support/ScalarSteps.h"

namespace opc::ops::norm {
namespace {

using namespace opc::cpu;

Maybe<void> infer(InferContext *ctx) {
  const TensorDesc x = ctx->In("x");
  JUST(checkFloating("x", x));
  JUST(checkLikeX(ctx, "dy"));
  const int64_t axis = JUST(axisOf<int32_t>(ctx, "axis", x.shape()));
  const Shape channels{x.shape().At(axis)};
  JUST(checkParameter(ctx, "gamma", channels, "the size of x's dimension " + std::to_string(axis)));
  JUST(checkStatistics(ctx, channels, "entry of x's dimension " + std::to_string(axis)));
  setStatistics(ctx, {"gamma_diff", "beta_diff"}, channels);
  if (ctx->Has("dx")) ctx->Out("dx") = x;
  return Maybe<void>::Ok();
}

/// Of the sums over the batch each part has some of the addends; dx needs the whole sums where the statistics are of
/// this batch.
Maybe<ShardingRule> sharding(const SbpContext &ctx) {
  const Shape &shape = ctx.In("x").shape();
  const auto axis = static_cast<size_t>(JUST(axisOf<int32_t>(&ctx, "axis", shape)));
  AxisFactors x = axisFactors(shape.NumAxes()), batch = x;
  const AxisFactors channels{x[axis]};
  batch.erase(batch.begin() + static_cast<ptrdiff_t>(axis));
  if (ctx.Has("dx") && ctx.Attr<bool>("training")) {
    x.assign(x.size(), ".");
    batch.clear();
  }
  x[axis] = channels[0];
  const ShardingRule rule = shardingRule({x, x, channels, channels, channels}, {channels, channels, x}, Linear({1}));
  return inOrder(channels, withSums(batch, rule));
}

/// For each channel beta = sum(dy) and gamma = sum(dy * xhat), in f64; one thread does a channel, rows in order.
template <class T>
void channelSums(DeviceCtx *d, const T *x, const T *dy, NormShape s, const T *mean, const T *inverse, T *gamma,
                 T *beta) {
  const auto finish = [=](int64_t c, double total, double product) {
    beta[c] = static_cast<T>(total);
    gamma[c] = static_cast<T>(product * static_cast<double>(inverse[c]));
  };
  if (s.inner > 1) {
    d->parallelFor(s.channels, rowGrain(s.outer * s.inner), [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) {
        double total = 0, product = 0;
        for (int64_t o = 0; o < s.outer; ++o) {
          const int64_t at = (o * s.channels + c) * s.inner;
          total += static_cast<double>(rowTotal(dy + at, s.inner));
          product += static_cast<double>(centeredDot(dy + at, x + at, mean[c], s.inner));
        }
        finish(c, total, product);
      }
    });
    return;
  }
  constexpr int64_t kBlock = 64; // channels side by side
  d->parallelFor(s.channels, kBlock, [&](int64_t begin, int64_t end) {
    for (int64_t c0 = begin; c0 < end; c0 += kBlock) {
      const int64_t width = std::min(kBlock, end - c0);
      double total[kBlock] = {}, product[kBlock] = {};
      for (int64_t o = 0; o < s.outer && s.inner; ++o)
        for (int64_t c = 0; c < width; ++c) {
          const int64_t at = o * s.channels + c0 + c;
          total[c] += static_cast<double>(dy[at]);
          product[c] += static_cast<double>(dy[at]) * static_cast<double>(x[at] - mean[c0 + c]);
        }
      for (int64_t c = 0; c < width; ++c) finish(c0 + c, total[c], product[c]);
    }
  });
}

template <class T> class NormalizationGradKernel final : public StagedKernel<T> {
public:
  std::unique_ptr<BoundKernel> BindStaged(KernelBindContext *ctx, StagedTensors<T> &staged) const override {
    const NormShape s = shapeAroundAxis(ctx, "x");
    const bool training = ctx->Attr<bool>("training");
    const T *x = staged.in("x"), *dy = staged.in("dy"), *mean = staged.in("mean"), *inverse = staged.in("inv_variance"),
            *gamma = staged.in("gamma");
    T *gammaOut = staged.out("gamma_diff"), *betaOut = staged.out("beta_diff"), *dx = staged.out("dx");
    const bool sums = training || gammaOut || betaOut; // dx needs them only while training
    Scratch<T> gammaScratch(gammaOut ? 0 : s.channels), betaScratch(betaOut ? 0 : s.channels);
    T *gammaDiff = gammaOut ? gammaOut : gammaScratch.get(), *betaDiff = betaOut ? betaOut : betaScratch.get();
    return bindTask([=, gammaScratch = std::move(gammaScratch), betaScratch = std::move(betaScratch)](DeviceCtx *d) {
      if (sums) channelSums(d, x, dy, s, mean, inverse, gammaDiff, betaDiff);
      const T count = static_cast<T>(s.outer * s.inner);
      if (!dx) return;
      if (s.inner == 1)
        d->parallelFor(s.outer, rowGrain(s.channels), [&](int64_t begin, int64_t end) {
          for (int64_t o = begin; o < end; ++o) {
            const T *from = dy + o * s.channels, *in = x + o * s.channels;
            T *to = dx + o * s.channels;
            if (training)
              for (int64_t c = 0; c < s.channels; ++c)
                to[c] = gamma[c] * inverse[c] *
                        (from[c] - (betaDiff[c] + (in[c] - mean[c]) * inverse[c] * gammaDiff[c]) / count);
            else
              for (int64_t c = 0; c < s.channels; ++c) to[c] = gamma[c] * inverse[c] * from[c];
          }
        });
      else
        d->parallelFor(s.outer * s.channels, rowGrain(s.inner), [&](int64_t begin, int64_t end) {
          for (int64_t r = begin; r < end; ++r) {
            const int64_t c = r % s.channels, at = r * s.inner;
            const T scale = gamma[c] * inverse[c];
            if (training)
              normGradApply(dy + at, x + at, dx + at, s.inner, mean[c], scale, betaDiff[c] / count,
                            inverse[c] * gammaDiff[c] / count);
            else
              for (int64_t i = at; i < at + s.inner; ++i) dx[i] = scale * dy[i];
          }
        });
    });
  }
};

Case statistics(const char *name, const Shape &x, int64_t channels, bool half) {
  Case c(name);
  c.In("x", x, -3, 3).In("dy", x);
  addStatistic(c, "mean", {channels}, -1, 1, half);
  addStatistic(c, "inv_variance", {channels}, 0.5, 1.5, half);
  return c.In("gamma", {channels}, 0.5, 2).Types(caseTypes(half));
}
Case gradCase(const char *name, const Shape &x, int64_t channels, int32_t axis, bool half) {
  return statistics(name, x, channels, half)
      .Attr("axis", axis)
      .Attr("epsilon", 1e-5f)
      .Out("gamma_diff")
      .Out("beta_diff")
      .Out("dx");
}

REGISTER_USER_OP("normalization_grad")
    .GradientOf("normalization")
    .Input("x")
    .Input("dy")
    .Input("mean")
    .Input("inv_variance")
    .Input("gamma")
    .OptionalOutput("gamma_diff")
    .OptionalOutput("beta_diff")
    .OptionalOutput("dx")
    .Attr<int32_t>("axis", 0)
    .Attr<float>("epsilon", 0.0f)
    .Attr<bool>("training", true)
    .With(rules(infer, sharding))
    .Doc("The gradients of normalization. With xhat = (x - mean) * inv_variance and sums over all dimensions but "
         "`axis`: beta_diff = sum(dy), gamma_diff = sum(dy * xhat), dx = gamma * inv_variance * (dy - (beta_diff + "
         "xhat * gamma_diff) / n), n the number of summed elements; without training, where mean and inv_variance "
         "are constants, dx = gamma * inv_variance * dy. Each output may be left out. gamma_diff and beta_diff are "
         "f32 when x is f16 or bf16.")
    .With(halfTolerances)
    .Cases({gradCase("channels_first", {2, 3, 5, 4}, 3, 1, false), gradCase("channels_last", {6, 19}, 19, -1, false),
            gradCase("constant", {2, 3, 5}, 3, 1, false).Attr("training", false),
            gradCase("constant_last", {4, 9}, 9, -1, false).Attr("training", false),
            statistics("only_dx", {5, 3}, 3, false).Attr("axis", int32_t{1}).Out("dx"),
            statistics("parameters", {5, 3}, 3, false).Attr("axis", int32_t{1}).Out("gamma_diff"),
            gradCase("half", {4, 3, 5}, 3, 1, true), gradCase("half_last", {4, 9}, 9, 1, true)})
    .Kernel<NormalizationGradKernel, types::Floating>("x");

NormView batchView(GradientRule &g) {
  const Shape &x = g.shape("x");
  const int64_t axis = valueOf(resolveAxis(g.attr<int32_t>("axis"), x.NumAxes()));
  NormView v;
  v.view = x;
  v.stat = Shape(DimVector(static_cast<size_t>(x.NumAxes()), 1));
  v.stat.Set(axis, x.At(axis));
  v.parameter = v.stat;
  for (int64_t a = 0; a < x.NumAxes(); ++a)
    if (a != axis) v.axes.push_back(static_cast<int32_t>(a));
  return v;
}

std::string inverseOf(GradientRule &g, const std::string &variance) {
  const double epsilon = static_cast<double>(g.attr<float>("epsilon"));
  return unary(g, "rsqrt", withScalar(g, "scalar_add", variance, epsilon, "variance_shifted"), "inverse");
}

/// A tensor in the element type of x's statistics.
std::string widened(GradientRule &g, const char *arg) {
  const DataType wide = statisticsType(g.desc("x").data_type());
  if (g.desc(arg).data_type() == wide) return g.x(arg);
  return g.add("cast", std::string(arg) + "_wide").in("in", g.x(arg)).attr("dtype", wide).out();
}

struct BatchGradient {
  std::string gamma, beta, x;
};
BatchGradient batchGradient(GradientRule &g, const std::string &mean, const std::string &inverse, bool gamma, bool beta,
                            bool dx) {
  auto grad = g.add("normalization_grad", "x");
  grad.in("x", g.x("x")).in("dy", g.dy("y")).in("mean", mean).in("inv_variance", inverse).in("gamma", g.x("gamma"));
  grad.same({"axis", "epsilon", "training"});
  if (gamma) grad.output("gamma_diff");
  if (beta) grad.output("beta_diff");
  if (dx) grad.output("dx");
  return {gamma ? grad.out("gamma_diff") : "", beta ? grad.out("beta_diff") : "", dx ? grad.out("dx") : ""};
}

/// Statistics of the batch: those of the forward op when it gives them, else computed again.
void trainedGradient(GradientRule &g) {
  const NormView view = batchView(g);
  const std::string extra = g.needs("x") ? fromStatistics(g, view) : "";
  if (!g.hasDy("y")) return bindX(g, "", extra);
  if (!g.needs("x") && !g.needs("gamma") && !g.needs("beta")) return;
  std::string mean, inverse;
  if (g.hasOutput("mean") && g.hasOutput("inv_variance")) {
    mean = g.y("mean");
    inverse = g.y("inv_variance");
  } else {
    const std::string x = widened(g, "x");
    mean = g.add("reduce_mean", "mean").in("input_tensor", x).attr("axis", view.axes).out("output_tensor");
    inverse = inverseOf(
        g, g.add("var", "variance").in("input", x).attr("dim", view.axes).attr("unbiased", false).out("output"));
  }
  const BatchGradient d = batchGradient(g, mean, inverse, g.needs("gamma"), g.needs("beta"), g.needs("x"));
  bindX(g, g.needs("x") ? d.x : "", extra);
  if (g.needs("gamma")) bindParameter(g, "gamma", d.gamma);
  if (g.needs("beta")) bindParameter(g, "beta", d.beta);
}

/// Given statistics are constants. The moving statistics may be differentiated as well, by way of the sums that are the
/// parameters' gradients: d mean = -beta_diff gamma inverse, d variance = -gamma_diff gamma inverse^2 / 2.
void evaluatedGradient(GradientRule &g) {
  const bool used = g.hasDy("y"), mean = g.needs("moving_mean"), variance = g.needs("moving_variance");
  if (!g.needs("x") && !g.needs("gamma") && !g.needs("beta") && !mean && !variance) return;
  const std::string inverse =
      g.hasOutput("inv_variance") ? g.y("inv_variance") : inverseOf(g, widened(g, "moving_variance"));
  std::string meanPart, variancePart; // by way of y
  if (used) {
    const BatchGradient d = batchGradient(g, widened(g, "moving_mean"), inverse, g.needs("gamma") || variance,
                                          g.needs("beta") || mean, g.needs("x"));
    if (g.needs("x")) g.bind("x", d.x);
    if (g.needs("gamma")) bindParameter(g, "gamma", d.gamma);
    if (g.needs("beta")) bindParameter(g, "beta", d.beta);
    if (mean || variance) {
      const std::string slope = g.multiply(widened(g, "gamma"), inverse, "slope");
      if (mean) meanPart = g.scale(g.multiply(d.beta, slope, "mean_product"), -1, "mean_minus");
      if (variance) {
        const std::string square = g.multiply(slope, inverse, "variance_slope");
        variancePart = g.scale(g.multiply(d.gamma, square, "variance_product"), -0.5, "variance_half");
      }
    }
  }
  const auto total = [&](const std::string &a, const std::string &b, const char *suffix) {
    return a.empty() || b.empty() ? a + b : g.add("add_n", suffix).in("in", a).in("in", b).out();
  };
  // The outputs mean and inv_variance are moving_mean and 1 / sqrt(moving_variance + epsilon).
  const std::string fromMean = mean && g.hasOutput("mean") && g.hasDy("mean") ? g.dy("mean") : "";
  std::string fromInverse;
  if (variance && g.hasOutput("inv_variance") && g.hasDy("inv_variance")) {
    const std::string cube = g.multiply(g.multiply(inverse, inverse, "inverse_square"), inverse, "inverse_cube");
    fromInverse = g.scale(g.multiply(g.dy("inv_variance"), cube, "inverse_product"), -0.5, "inverse_half");
  }
  if (mean && !(meanPart + fromMean).empty()) bindParameter(g, "moving_mean", total(meanPart, fromMean, "mean_total"));
  if (variance && !(variancePart + fromInverse).empty())
    bindParameter(g, "moving_variance", total(variancePart, fromInverse, "variance_total"));
}

void normalizationGradient(GradientRule &g) {
  if (g.needs("_add_to_output") && g.hasDy("y")) g.bind("_add_to_output", g.dy("y"));
  if (g.attr<bool>("training"))
    trainedGradient(g);
  else
    evaluatedGradient(g);
}
REGISTER_USER_OP_GRAD("normalization").SetBackwardOpConfGenFn(gradientRule(normalizationGradient));

void normalizationGradGradient(GradientRule &g) { secondGradient(g, batchView(g), {"dx", "gamma_diff", "beta_diff"}); }
REGISTER_USER_OP_GRAD("normalization_grad").SetBackwardOpConfGenFn(gradientRule(normalizationGradGradient));

} // namespace
} // namespace opc::ops::norm
