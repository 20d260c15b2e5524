// normalization_grad: the gradients of batch normalisation with computed statistics.
// SPDX-License-Identifier: Apache-2.0
#include "NormGradRows.h"
#include "NormRules.h"
#include "StagedTensors.h"
#include "support/Axes.h"
#include "support/RegisterFloating.h"
#include "support/SbpRules.h"

namespace opc::ops {
namespace {

using namespace opc::cpu;
using user_op::Case;
using user_op::InferContext;
using user_op::OpArg;
using user_op::TensorDesc;

Maybe<void> infer(InferContext *ctx) {
  const TensorDesc x = ctx->InputTensorDesc("x", 0);
  JUST(checkFloating("x", x));
  if (ctx->InputTensorDesc("dy", 0) != x)
    return Error::ShapeMismatch() << "dy is " << ctx->InputTensorDesc("dy", 0).toString() << ", expected x's type, "
                                  << x.toString();
  const int64_t axis = JUST(resolveAxis(ctx->Attr<int32_t>("axis"), x.shape().NumAxes()));
  const Shape channels{x.shape().At(axis)};
  const TensorDesc statistics(channels, statisticsType(x.data_type()));
  JUST(checkParameter(ctx, "gamma", channels, "the size of x's dimension " + std::to_string(axis)));
  for (const char *s : {"mean", "inv_variance"})
    if (ctx->InputTensorDesc(s, 0) != statistics)
      return Error::ShapeMismatch() << s << " is " << ctx->InputTensorDesc(s, 0).toString() << ", expected "
                                    << statistics.toString() << ", one element for each entry of x's dimension "
                                    << axis;
  for (const char *s : {"gamma_diff", "beta_diff"})
    if (ctx->has_output(s, 0)) *ctx->MutOutputTensorDesc(s, 0) = statistics;
  if (ctx->has_output("dx", 0)) *ctx->MutOutputTensorDesc("dx", 0) = x;
  return Maybe<void>::Ok();
}

/// x seen as [outer, channels, inner].
struct Layout {
  int64_t outer, channels, inner;
};

/// For each channel beta = sum(dy) and gamma = sum(dy * xhat), in f64; one thread does a channel, rows in order.
template <class T>
void channelSums(DeviceCtx *d, const T *x, const T *dy, Layout l, const T *mean, const T *inverse, T *gamma, T *beta) {
  if (l.inner > 1) {
    d->parallelFor(l.channels, rowGrain(l.outer * l.inner), [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) {
        double total = 0, product = 0;
        for (int64_t o = 0; o < l.outer; ++o) {
          const int64_t at = (o * l.channels + c) * l.inner;
          total += static_cast<double>(rowTotal(dy + at, l.inner));
          product += static_cast<double>(centeredDot(dy + at, x + at, mean[c], l.inner));
        }
        beta[c] = static_cast<T>(total);
        gamma[c] = static_cast<T>(product * static_cast<double>(inverse[c]));
      }
    });
    return;
  }
  constexpr int64_t kBlock = 64; // channels side by side
  d->parallelFor(l.channels, kBlock, [&](int64_t begin, int64_t end) {
    for (int64_t c0 = begin; c0 < end; c0 += kBlock) {
      const int64_t width = std::min(kBlock, end - c0);
      double total[kBlock] = {}, product[kBlock] = {};
      for (int64_t o = 0; o < l.outer && l.inner; ++o)
        for (int64_t c = 0; c < width; ++c) {
          const int64_t at = o * l.channels + c0 + c;
          total[c] += static_cast<double>(dy[at]);
          product[c] += static_cast<double>(dy[at]) * static_cast<double>(x[at] - mean[c0 + c]);
        }
      for (int64_t c = 0; c < width; ++c) {
        beta[c0 + c] = static_cast<T>(total[c]);
        gamma[c0 + c] = static_cast<T>(product[c] * static_cast<double>(inverse[c0 + c]));
      }
    }
  });
}

template <class T> class NormalizationGradKernel final : public user_op::OpKernel {
public:
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
  std::unique_ptr<user_op::BoundKernel> Bind(user_op::KernelBindContext *ctx) const override {
    const Shape &shape = ctx->TensorDesc4ArgNameAndIndex("x", 0)->shape();
    const int64_t axis = valueOf(resolveAxis(ctx->Attr<int32_t>("axis"), shape.NumAxes()));
    const Layout l{shape.Count(0, axis), shape.At(axis), shape.Count(axis + 1)};
    const bool training = ctx->Attr<bool>("training");
    StagedTensors<T> tensors(ctx);
    const T *x = tensors.in("x"), *dy = tensors.in("dy"), *mean = tensors.in("mean"),
            *inverse = tensors.in("inv_variance"), *gamma = tensors.in("gamma");
    T *gammaOut = tensors.out("gamma_diff"), *betaOut = tensors.out("beta_diff"), *dx = tensors.out("dx");
    const bool sums = training || gammaOut || betaOut; // dx needs them only while training
    Scratch<T> gammaScratch(gammaOut ? 0 : l.channels), betaScratch(betaOut ? 0 : l.channels);
    T *gammaDiff = gammaOut ? gammaOut : gammaScratch.get(), *betaDiff = betaOut ? betaOut : betaScratch.get();
    return user_op::bindTask([=, tensors = std::move(tensors), gammaScratch = std::move(gammaScratch),
                              betaScratch = std::move(betaScratch)](DeviceCtx *d) {
      tensors.load(d);
      if (sums) channelSums(d, x, dy, l, mean, inverse, gammaDiff, betaDiff);
      const T count = static_cast<T>(l.outer * l.inner);
      if (!dx) return tensors.store(d);
      if (l.inner == 1)
        d->parallelFor(l.outer, rowGrain(l.channels), [&](int64_t begin, int64_t end) {
          for (int64_t o = begin; o < end; ++o) {
            const T *from = dy + o * l.channels, *in = x + o * l.channels;
            T *to = dx + o * l.channels;
            if (training)
              for (int64_t c = 0; c < l.channels; ++c)
                to[c] = gamma[c] * inverse[c] *
                        (from[c] - (betaDiff[c] + (in[c] - mean[c]) * inverse[c] * gammaDiff[c]) / count);
            else
              for (int64_t c = 0; c < l.channels; ++c) to[c] = gamma[c] * inverse[c] * from[c];
          }
        });
      else
        d->parallelFor(l.outer * l.channels, rowGrain(l.inner), [&](int64_t begin, int64_t end) {
          for (int64_t r = begin; r < end; ++r) {
            const int64_t c = r % l.channels, at = r * l.inner;
            const T scale = gamma[c] * inverse[c];
            if (training)
              normGradApply(dy + at, x + at, dx + at, l.inner, mean[c], scale, betaDiff[c] / count,
                            inverse[c] * gammaDiff[c] / count);
            else
              for (int64_t i = at; i < at + l.inner; ++i) dx[i] = scale * dy[i];
          }
        });
      tensors.store(d);
    });
  }
};

Case gradCase(const char *name, Shape x, int64_t channels, int32_t axis, bool half) {
  Case c(name);
  c.In("x", x, -3, 3).In("dy", x);
  if (half)
    c.In("mean", kFloat, {channels}, -1, 1).In("inv_variance", kFloat, {channels}, 0.5, 1.5);
  else
    c.In("mean", {channels}).In("inv_variance", {channels}, 0.5, 1.5);
  c.In("gamma", {channels}, 0.5, 2).Attr("axis", axis).Attr("epsilon", 1e-5f);
  return c.Out("gamma_diff")
      .Out("beta_diff")
      .Out("dx")
      .Types(half ? std::vector<DataType>{kFloat16, kBFloat16} : std::vector<DataType>{kFloat, kDouble});
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
    .SetTensorDescInferFn(infer)
    .SetGetSbpFn([](user_op::SbpContext *ctx) -> Maybe<void> {
      const int64_t rank = ctx->LogicalTensorDesc4InputArgNameAndIndex("x", 0).shape().NumAxes();
      const int64_t axis = JUST(resolveAxis(ctx->Attr<int32_t>("axis"), rank));
      auto channels = ctx->NewBuilder();
      for (const char *arg : {"x", "dy"}) channels.Split(OpArg(arg, 0), axis);
      for (const char *arg : {"mean", "inv_variance", "gamma"}) channels.Split(OpArg(arg, 0), 0);
      for (const char *arg : {"gamma_diff", "beta_diff"})
        if (ctx->has_output(arg, 0)) channels.Split(OpArg(arg, 0), 0);
      if (ctx->has_output("dx", 0)) channels.Split(OpArg("dx", 0), axis);
      channels.Build();
      addLinearSignature(ctx, {"dy"});
      // The sums over the batch: each part has some of the addends. dx needs the whole sums where the statistics are of
      // this batch.
      if (ctx->has_output("dx", 0) && ctx->Attr<bool>("training")) return Maybe<void>::Ok();
      for (int64_t i = 0; i < rank; ++i) {
        if (i == axis) continue;
        auto batch = ctx->NewBuilder();
        batch.Broadcast(ctx->inputs()).Split(OpArg("x", 0), i).Split(OpArg("dy", 0), i);
        batch.PartialSum(OpArg("gamma_diff", 0)).PartialSum(OpArg("beta_diff", 0)).Split(OpArg("dx", 0), i);
        batch.Build();
      }
      return Maybe<void>::Ok();
    })
    .Doc("The gradients of normalization. With xhat = (x - mean) * inv_variance and sums over all dimensions but "
         "`axis`: beta_diff = sum(dy), gamma_diff = sum(dy * xhat), dx = gamma * inv_variance * (dy - (beta_diff + "
         "xhat * gamma_diff) / n), n the number of summed elements; without training, where mean and inv_variance "
         "are constants, dx = gamma * inv_variance * dy. Each output may be left out. gamma_diff and beta_diff are "
         "f32 when x is f16 or bf16.")
    .Tolerance(kFloat16, 5e-3, 5e-3)
    .Tolerance(kBFloat16, 4e-2, 4e-2)
    .Cases({gradCase("channels_first", {2, 3, 5, 4}, 3, 1, false), gradCase("channels_last", {6, 19}, 19, -1, false),
            gradCase("constant", {2, 3, 5}, 3, 1, false).Attr("training", false),
            gradCase("constant_last", {4, 9}, 9, -1, false).Attr("training", false),
            [] {
              Case c("only_dx");
              c.In("x", {5, 3}, -3, 3).In("dy", {5, 3}).In("mean", {3}).In("inv_variance", {3}, 0.5, 1.5);
              return c.In("gamma", {3}, 0.5, 2).Attr("axis", int32_t{1}).Out("dx").Types({kFloat, kDouble});
            }(),
            [] {
              Case c("parameters");
              c.In("x", {5, 3}, -3, 3).In("dy", {5, 3}).In("mean", {3}).In("inv_variance", {3}, 0.5, 1.5);
              return c.In("gamma", {3}, 0.5, 2).Attr("axis", int32_t{1}).Out("gamma_diff").Types({kFloat, kDouble});
            }(),
            gradCase("half", {4, 3, 5}, 3, 1, true), gradCase("half_last", {4, 9}, 9, 1, true)});

OPC_REGISTER_FLOATING_CPU_KERNELS("normalization_grad", NormalizationGradKernel, "x");

} // namespace
} // namespace opc::ops
