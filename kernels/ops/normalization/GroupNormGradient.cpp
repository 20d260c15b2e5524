// group_norm_grad, group_norm_param_grad, and the gradient rules of all three.
// SPDX-License-Identifier: Apache-2.0
#include "normalization/GroupShape.h"
#include "normalization/NormRows.h"
#include "normalization/NormSteps.h"
#include "support/Rows.h"
#include "support/SbpRules.h"

namespace opc::ops::norm {
namespace {

using namespace opc::cpu;

Maybe<GroupShape> checkInputs(InferContext *ctx) {
  const GroupShape s = JUST(checkGroups(ctx));
  JUST(checkLikeX(ctx, "dy"));
  JUST(checkStatistics(ctx, Shape{s.samples, s.groups}, "sample and group"));
  return s;
}
Maybe<void> inferGrad(InferContext *ctx) {
  const GroupShape s = JUST(checkInputs(ctx));
  JUST(checkParameter(ctx, "gamma", Shape{s.channels}, "one element a channel"));
  const TensorDesc x = ctx->In("x");
  return setOut(ctx, "dx", x);
}
Maybe<void> inferParamGrad(InferContext *ctx) {
  const GroupShape s = JUST(checkInputs(ctx));
  setStatistics(ctx, {"dgamma", "dbeta"}, Shape{s.channels});
  return Maybe<void>::Ok();
}

/// What both read.
void gradientInputs(OpRegistry &op) {
  op.GradientOf("group_norm").Input("dy").Input("x").Input("mean").Input("inv_variance");
}

template <class T> class GroupNormGradKernel final : public StagedKernel<T> {
public:
  std::unique_ptr<BoundKernel> BindStaged(KernelBindContext *ctx, StagedTensors<T> &staged) const override {
    const GroupShape l(ctx);
    const T *dy = staged.in("dy"), *x = staged.in("x"), *means = staged.in("mean"),
            *inverses = staged.in("inv_variance"), *gamma = staged.in("gamma");
    T *dx = staged.out("dx");
    return bindRows(l.samples * l.groups, rowGrain(l.own * l.spatial), [=](int64_t t) {
      const T *g = gamma ? gamma + t % l.groups * l.own : nullptr;
      (l.first ? contiguous : strided)(l, dy, x, dx, l.begin(t), means[t], inverses[t], g);
    });
  }

private:
  static void contiguous(const GroupShape &l, const T *dy, const T *x, T *dx, int64_t base, T mean, T inverse,
                         const T *g) {
    for (int64_t c = 0; c < l.own; ++c) {
      const T factor = g ? g[c] : T(1);
      for (int64_t i = base + c * l.spatial; i < base + (c + 1) * l.spatial; ++i) dx[i] = dy[i] * factor;
    }
    normGradRow(x + base, dx + base, l.own * l.spatial, mean, inverse, true);
  }
  /// Runs of the group's channels, a pixel apart; sums of runs in f64.
  static void strided(const GroupShape &l, const T *dy, const T *x, T *dx, int64_t base, T mean, T inverse,
                      const T *g) {
    double total = 0, product = 0;
    for (int64_t s = 0; s < l.spatial; ++s) {
      T *to = dx + base + s * l.channels;
      const T *from = dy + base + s * l.channels;
      for (int64_t c = 0; c < l.own; ++c) to[c] = g ? from[c] * g[c] : from[c];
      total += static_cast<double>(rowTotal(to, l.own));
      product += static_cast<double>(centeredDot(to, x + base + s * l.channels, mean, l.own));
    }
    const double count = static_cast<double>(l.own * l.spatial);
    const T shift = static_cast<T>(total / count), slope = static_cast<T>(product / count) * inverse * inverse;
    for (int64_t s = 0; s < l.spatial; ++s) {
      const int64_t at = base + s * l.channels;
      normGradApply(dx + at, x + at, dx + at, l.own, mean, inverse, shift, slope);
    }
  }
};

/// A thread sums one channel over samples and positions, in order, in f64.
template <class T> class GroupNormParamGradKernel final : public StagedKernel<T> {
public:
  std::unique_ptr<BoundKernel> BindStaged(KernelBindContext *ctx, StagedTensors<T> &staged) const override {
    const GroupShape l(ctx);
    const T *dy = staged.in("dy"), *x = staged.in("x"), *means = staged.in("mean"),
            *inverses = staged.in("inv_variance");
    T *gammaDiff = staged.out("dgamma"), *betaDiff = staged.out("dbeta");
    return bindRows(l.channels, rowGrain(l.samples * l.spatial), [=](int64_t c) {
      double gamma = 0, beta = 0;
      for (int64_t n = 0; n < l.samples; ++n) {
        const int64_t t = n * l.groups + c / l.own;
        if (l.first) {
          const int64_t at = (n * l.channels + c) * l.spatial;
          gamma += static_cast<double>(centeredDot(dy + at, x + at, means[t], l.spatial) * inverses[t]);
          beta += static_cast<double>(rowTotal(dy + at, l.spatial));
          continue;
        }
        for (int64_t s = 0; s < l.spatial; ++s) {
          const int64_t at = (n * l.spatial + s) * l.channels + c;
          gamma += static_cast<double>(dy[at] * ((x[at] - means[t]) * inverses[t]));
          beta += static_cast<double>(dy[at]);
        }
      }
      gammaDiff[c] = static_cast<T>(gamma);
      betaDiff[c] = static_cast<T>(beta);
    });
  }
};

Case gradCase(const char *name, const Shape &x, int64_t channels, int32_t groups, bool gamma, bool half,
              const char *format) {
  Case c(name);
  c.In("dy", x).In("x", x, -3, 3);
  addStatistic(c, "mean", {x.At(0), groups}, -1, 1, half);
  addStatistic(c, "inv_variance", {x.At(0), groups}, 0.5, 1.5, half);
  if (gamma) c.In("gamma", {channels}, 0.5, 2);
  return c.Attr("num_groups", groups).Attr("data_format", std::string(format)).Types(caseTypes(half));
}

REGISTER_USER_OP("group_norm_grad")
    .With(gradientInputs)
    .OptionalInput("gamma")
    .Output("dx")
    .Attr<int32_t>("num_groups", 0)
    .Attr<double>("epsilon", 0.0)
    .Attr<std::string>("data_format", "channels_first")
    .With(rules(inferGrad, "n .., n .., n .., n .. -> n ..", Linear({0})))
    .Doc("The gradient of group_norm (without activation) by x: with d = dy * gamma, xhat = (x - mean) * "
         "inv_variance and means over each group, dx = inv_variance * (d - mean(d) - xhat * mean(d * xhat)).")
    .With(halfTolerances)
    .Cases({gradCase("affine", {2, 6, 5}, 6, 3, true, false, "channels_first"),
            gradCase("instance", {2, 3, 4, 5}, 3, 3, false, false, "channels_first"),
            gradCase("channels_last", {2, 5, 6}, 6, 2, true, false, "channels_last"),
            gradCase("half", {2, 6, 5}, 6, 3, true, true, "channels_first")})
    .Kernel<GroupNormGradKernel, types::Floating>("x");

REGISTER_USER_OP("group_norm_param_grad")
    .With(gradientInputs)
    .Output("dgamma")
    .Output("dbeta")
    .Attr<int32_t>("num_groups", 0)
    .Attr<std::string>("data_format", "channels_first")
    .With(rules(inferParamGrad, "n .., n .., n .., n .. -> .., ..", Sum("n"), Linear({0})))
    .Doc("The gradients of group_norm (without activation) by its parameters: dgamma is the sum of dy * (x - mean) * "
         "inv_variance over samples and positions, dbeta the sum of dy. Both are f32 when x is f16 or bf16; sums run "
         "in f64.")
    .Cases({gradCase("groups", {2, 6, 5}, 6, 3, false, false, "channels_first"),
            gradCase("channels_last", {2, 5, 6}, 6, 2, false, false, "channels_last"),
            gradCase("half", {2, 6, 5}, 6, 3, false, true, "channels_first")})
    .Kernel<GroupNormParamGradKernel, types::Floating>("x");

NormView groupView(GradientRule &g) {
  const GroupShape s(g.shape("x"), g.attr<std::string>("data_format"), g.attr<int32_t>("num_groups"));
  const int64_t n = s.samples;
  NormView v;
  v.view = s.first ? Shape{n, s.groups, s.own, s.spatial} : Shape{n, s.spatial, s.groups, s.own};
  v.stat = s.first ? Shape{n, s.groups, 1, 1} : Shape{n, 1, s.groups, 1};
  v.parameter = s.first ? Shape{1, s.groups, s.own, 1} : Shape{1, 1, s.groups, s.own};
  v.axes = s.first ? Ints{2, 3} : Ints{1, 3};
  return v;
}

void groupNormGradient(GradientRule &g) {
  const NormView view = groupView(g);
  std::string dy;
  if (g.hasDy("y")) {
    dy = g.dy("y");
    if (g.attr<std::string>("activation") == "silu") {
      // What went into the activation is computed again.
      auto norm = g.add("group_norm", "linear");
      norm.in("x", g.x("x")).same({"affine", "num_groups", "epsilon", "data_format"});
      if (g.hasInput("beta")) norm.in("beta", g.x("beta"));
      if (g.hasInput("gamma")) norm.in("gamma", g.x("gamma"));
      dy = g.add("silu_grad", "activation").in("x", norm.out("y")).in("dy", dy).out("dx");
    }
  }
  bindX(g, "group_norm_grad", dy, view, {"num_groups", "epsilon", "data_format"});
  if (dy.empty() || (!g.needs("gamma") && !g.needs("beta"))) return;
  auto params = backwardOp(g, "group_norm_param_grad", "params", dy, view);
  params.same({"num_groups", "data_format"});
  if (g.needs("gamma")) bindParameter(g, "gamma", params.out("dgamma"));
  if (g.needs("beta")) bindParameter(g, "beta", params.out("dbeta"));
}
REGISTER_USER_OP_GRAD("group_norm").SetBackwardOpConfGenFn(gradientRule(groupNormGradient));

void groupNormGradGradient(GradientRule &g) { secondGradient(g, groupView(g), {"dx", nullptr, nullptr}); }
REGISTER_USER_OP_GRAD("group_norm_grad").SetBackwardOpConfGenFn(gradientRule(groupNormGradGradient));

void groupNormParamGradGradient(GradientRule &g) { secondGradient(g, groupView(g), {nullptr, "dgamma", "dbeta"}); }
REGISTER_USER_OP_GRAD("group_norm_param_grad").SetBackwardOpConfGenFn(gradientRule(groupNormParamGradGradient));

} // namespace
} // namespace opc::ops::norm
