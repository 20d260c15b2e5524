// group_norm_grad and group_norm_param_grad.
// SPDX-License-Identifier: Apache-2.0
#include "NormGradRows.h"
#include "NormRules.h"
#include "StagedTensors.h"
#include "support/RegisterFloating.h"
#include "support/SbpRules.h"

namespace opc::ops {
namespace {

using namespace opc::cpu;
using user_op::Case;
using user_op::InferContext;
using user_op::OpArg;
using user_op::TensorDesc;

Maybe<bool> channelsFirst(const user_op::OpContext *ctx) {
  const std::string &format = ctx->Attr<std::string>("data_format");
  if (format == "channels_first") return true;
  if (format == "channels_last") return false;
  return Error::InvalidValueError().id("OPC0205")
         << "data_format is \"" << format << "\", expected \"channels_first\" or \"channels_last\"";
}

/// Checks x, dy and the statistics; gives the number of channels.
Maybe<int64_t> checkInputs(InferContext *ctx) {
  const TensorDesc x = ctx->InputTensorDesc("x", 0);
  JUST(checkFloating("x", x));
  const bool first = JUST(channelsFirst(ctx));
  const int64_t rank = x.shape().NumAxes();
  if (rank < 2) return Error::ShapeMismatch() << "x must have a batch and a channel dimension, it is " << x.toString();
  if (ctx->InputTensorDesc("dy", 0) != x)
    return Error::ShapeMismatch() << "dy is " << ctx->InputTensorDesc("dy", 0).toString() << ", expected x's type, "
                                  << x.toString();
  const int64_t channels = x.shape().At(first ? 1 : rank - 1), groups = ctx->Attr<int32_t>("num_groups");
  if (groups < 1 || channels % groups != 0)
    return Error::InvalidValueError().id("OPC0205").help("num_groups must divide the number of channels")
           << "num_groups is " << groups << ", but x, " << x.toString() << ", has " << channels << " channels";
  const TensorDesc statistics(Shape{x.shape().At(0), groups}, statisticsType(x.data_type()));
  for (const char *s : {"mean", "inv_variance"})
    if (ctx->InputTensorDesc(s, 0) != statistics)
      return Error::ShapeMismatch() << s << " is " << ctx->InputTensorDesc(s, 0).toString() << ", expected "
                                    << statistics.toString() << ", one element for each sample and group";
  return channels;
}

struct GroupLayout {
  explicit GroupLayout(const user_op::OpContext *ctx, const Shape &shape) {
    first = channelsFirst(ctx).value();
    const int64_t rank = shape.NumAxes();
    samples = shape.At(0);
    channels = shape.At(first ? 1 : rank - 1);
    spatial = first ? shape.Count(2) : shape.Count(1, rank - 1);
    groups = ctx->Attr<int32_t>("num_groups");
    own = channels / groups;
  }
  bool first;
  int64_t samples, channels, spatial, groups, own; // own: channels of a group
};

template <class T> class GroupNormGradKernel final : public user_op::OpKernel {
public:
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
  std::unique_ptr<user_op::BoundKernel> Bind(user_op::KernelBindContext *ctx) const override {
    const GroupLayout l(ctx, ctx->TensorDesc4ArgNameAndIndex("x", 0)->shape());
    StagedTensors<T> tensors(ctx);
    const T *dy = tensors.in("dy"), *x = tensors.in("x"), *means = tensors.in("mean"),
            *inverses = tensors.in("inv_variance"), *gamma = tensors.in("gamma");
    T *dx = tensors.out("dx");
    return user_op::bindTask([=, tensors = std::move(tensors)](DeviceCtx *d) {
      tensors.load(d);
      d->parallelFor(l.samples * l.groups, rowGrain(l.own * l.spatial), [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) {
          const int64_t sample = t / l.groups, group = t % l.groups;
          const T *g = gamma ? gamma + group * l.own : nullptr;
          if (l.first)
            contiguous(l, dy, x, dx, (sample * l.channels + group * l.own) * l.spatial, means[t], inverses[t], g);
          else
            strided(l, dy, x, dx, sample * l.channels * l.spatial + group * l.own, means[t], inverses[t], g);
        }
      });
      tensors.store(d);
    });
  }

private:
  static void contiguous(const GroupLayout &l, const T *dy, const T *x, T *dx, int64_t base, T mean, T inverse,
                         const T *g) {
    for (int64_t c = 0; c < l.own; ++c) {
      const T factor = g ? g[c] : T(1);
      for (int64_t i = base + c * l.spatial; i < base + (c + 1) * l.spatial; ++i) dx[i] = dy[i] * factor;
    }
    normGradRow(x + base, dx + base, l.own * l.spatial, mean, inverse, true);
  }
  /// Runs of the group's channels, a pixel apart; sums of runs in f64.
  static void strided(const GroupLayout &l, const T *dy, const T *x, T *dx, int64_t base, T mean, T inverse,
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
template <class T> class GroupNormParamGradKernel final : public user_op::OpKernel {
public:
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
  std::unique_ptr<user_op::BoundKernel> Bind(user_op::KernelBindContext *ctx) const override {
    const GroupLayout l(ctx, ctx->TensorDesc4ArgNameAndIndex("x", 0)->shape());
    StagedTensors<T> tensors(ctx);
    const T *dy = tensors.in("dy"), *x = tensors.in("x"), *means = tensors.in("mean"),
            *inverses = tensors.in("inv_variance");
    T *gammaDiff = tensors.out("dgamma"), *betaDiff = tensors.out("dbeta");
    return user_op::bindTask([=, tensors = std::move(tensors)](DeviceCtx *d) {
      tensors.load(d);
      d->parallelFor(l.channels, rowGrain(l.samples * l.spatial), [&](int64_t begin, int64_t end) {
        for (int64_t c = begin; c < end; ++c) {
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
        }
      });
      tensors.store(d);
    });
  }
};

Case gradCase(const char *name, Shape x, int64_t channels, int32_t groups, bool gamma, bool half, const char *format) {
  Case c(name);
  const Shape statistics{x.At(0), groups};
  c.In("dy", x).In("x", x, -3, 3);
  if (half)
    c.In("mean", kFloat, statistics, -1, 1).In("inv_variance", kFloat, statistics, 0.5, 1.5);
  else
    c.In("mean", statistics).In("inv_variance", statistics, 0.5, 1.5);
  if (gamma) c.In("gamma", {channels}, 0.5, 2);
  c.Attr("num_groups", groups).Attr("data_format", std::string(format));
  return half ? c.Types({kFloat16, kBFloat16}) : c.Types({kFloat, kDouble});
}

Maybe<void> batchSbp(user_op::SbpContext *ctx, bool sums) {
  auto builder = ctx->NewBuilder();
  for (const auto &in : ctx->inputs()) {
    if (in.first == "gamma")
      builder.Broadcast(OpArg(in.first, 0));
    else
      builder.Split(OpArg(in.first, 0), 0);
  }
  for (const auto &out : ctx->outputs()) {
    if (sums)
      builder.PartialSum(OpArg(out.first, 0));
    else
      builder.Split(OpArg(out.first, 0), 0);
  }
  builder.Build();
  addLinearSignature(ctx, {"dy"});
  return Maybe<void>::Ok();
}

REGISTER_USER_OP("group_norm_grad")
    .GradientOf("group_norm")
    .Input("dy")
    .Input("x")
    .Input("mean")
    .Input("inv_variance")
    .OptionalInput("gamma")
    .Output("dx")
    .Attr<int32_t>("num_groups", 0)
    .Attr<double>("epsilon", 0.0)
    .Attr<std::string>("data_format", "channels_first")
    .SetTensorDescInferFn([](InferContext *ctx) -> Maybe<void> {
      const int64_t channels = JUST(checkInputs(ctx));
      JUST(checkParameter(ctx, "gamma", Shape{channels}, "one element a channel"));
      const TensorDesc x = ctx->InputTensorDesc("x", 0);
      *ctx->MutOutputTensorDesc("dx", 0) = x;
      return Maybe<void>::Ok();
    })
    .SetGetSbpFn([](user_op::SbpContext *ctx) { return batchSbp(ctx, false); })
    .Doc("The gradient of group_norm (without activation) by x: with d = dy * gamma, xhat = (x - mean) * "
         "inv_variance and means over each group, dx = inv_variance * (d - mean(d) - xhat * mean(d * xhat)).")
    .Tolerance(kFloat16, 5e-3, 5e-3)
    .Tolerance(kBFloat16, 4e-2, 4e-2)
    .Cases({gradCase("affine", {2, 6, 5}, 6, 3, true, false, "channels_first"),
            gradCase("instance", {2, 3, 4, 5}, 3, 3, false, false, "channels_first"),
            gradCase("channels_last", {2, 5, 6}, 6, 2, true, false, "channels_last"),
            gradCase("half", {2, 6, 5}, 6, 3, true, true, "channels_first")});

REGISTER_USER_OP("group_norm_param_grad")
    .GradientOf("group_norm")
    .Input("dy")
    .Input("x")
    .Input("mean")
    .Input("inv_variance")
    .Output("dgamma")
    .Output("dbeta")
    .Attr<int32_t>("num_groups", 0)
    .Attr<std::string>("data_format", "channels_first")
    .SetTensorDescInferFn([](InferContext *ctx) -> Maybe<void> {
      const int64_t channels = JUST(checkInputs(ctx));
      for (const char *s : {"dgamma", "dbeta"})
        *ctx->MutOutputTensorDesc(s, 0) = TensorDesc(Shape{channels}, statisticsType(ctx->InputDType("x", 0)));
      return Maybe<void>::Ok();
    })
    .SetGetSbpFn([](user_op::SbpContext *ctx) { return batchSbp(ctx, true); })
    .Doc("The gradients of group_norm (without activation) by its parameters: dgamma is the sum of dy * (x - mean) * "
         "inv_variance over samples and positions, dbeta the sum of dy. Both are f32 when x is f16 or bf16; sums run "
         "in f64.")
    .Cases({gradCase("groups", {2, 6, 5}, 6, 3, false, false, "channels_first"),
            gradCase("channels_last", {2, 5, 6}, 6, 2, false, false, "channels_last"),
            gradCase("half", {2, 6, 5}, 6, 3, false, true, "channels_first")});

OPC_REGISTER_FLOATING_CPU_KERNELS("group_norm_grad", GroupNormGradKernel, "x");
OPC_REGISTER_FLOATING_CPU_KERNELS("group_norm_param_grad", GroupNormParamGradKernel, "x");

} // namespace
} // namespace opc::ops
