// conv_bias_grad, the gradient of a convolution by its bias, and its rule.
// SPDX-License-Identifier: Apache-2.0
#include "ConvOp.h"
#include "SimdExp.h"
#include "support/GradientSteps.h"
#include "support/SbpRules.h"

namespace opc::ops {
namespace {

using namespace opc::cpu;

Maybe<void> infer(InferContext *ctx) {
  const TensorDesc dy = ctx->In("dy");
  const int dims = JUST(numSpatialDims(ctx));
  if (!IsFloatingDataType(dy.data_type()))
    return Error::TypeError().id("OPC0204") << "dy is " << dy.toString() << ", expected a floating type";
  if (dy.shape().NumAxes() != dims + 2)
    return Error::ShapeMismatch() << "dy must have rank " << dims + 2 << "; it is " << dy.toString();
  const int64_t channels = imageOf(dy.shape(), JUST(isChannelsLast(ctx->user_op_conf()))).channels;
  return setOut(ctx, "bias_diff", TensorDesc(Shape{channels}, dy.data_type()));
}

Maybe<ShardingRule> sharding(const SbpContext &ctx) {
  AxisFactors sums = axisFactors(ctx.In("dy").shape().NumAxes());
  const AxisFactors dy = sums;
  const int64_t channel = JUST(channelAxis(ctx, "dy"));
  sums.erase(sums.begin() + channel);
  return withSums(sums, shardingRule({dy}, {{dy[static_cast<size_t>(channel)]}}, Linear({0})));
}

/// One thread adds up a channel, samples in order, rows of positions in f64.
template <class T> class ConvBiasGradKernel final : public StagedKernel<T> {
  std::unique_ptr<BoundKernel> BindStaged(KernelBindContext *ctx, StagedTensors<T> &staged) const override {
    const Shape shape = ctx->In("dy").shape();
    const bool last = ctx->Attr<std::string>("data_format") == "channels_last";
    const int64_t rank = shape.NumAxes(), channels = shape.At(last ? rank - 1 : 1);
    const int64_t outer = last ? shape.Count(0, rank - 1) : shape.At(0), inner = last ? 1 : shape.Count(2);
    const T *dy = staged.in("dy");
    T *diff = staged.out("bias_diff");
    return bindTask([=](DeviceCtx *d) {
      constexpr int64_t kBlock = 64; // channels side by side
      if (inner > 1)
        d->parallelFor(channels, rowGrain(outer * inner), [&](int64_t begin, int64_t end) {
          for (int64_t c = begin; c < end; ++c) {
            double sum = 0;
            for (int64_t o = 0; o < outer; ++o)
              sum += rowSum(dy + (o * channels + c) * inner, inner, [](typename Simd<T>::V v) { return v; });
            diff[c] = static_cast<T>(sum);
          }
        });
      else
        d->parallelFor(channels, kBlock, [&](int64_t begin, int64_t end) {
          for (int64_t c0 = begin; c0 < end; c0 += kBlock) {
            const int64_t width = std::min(kBlock, end - c0);
            double sum[kBlock] = {};
            for (int64_t o = 0; o < outer; ++o)
              for (int64_t c = 0; c < width && inner; ++c) sum[c] += static_cast<double>(dy[o * channels + c0 + c]);
            for (int64_t c = 0; c < width; ++c) diff[c0 + c] = static_cast<T>(sum[c]);
          }
        });
    });
  }
};

REGISTER_USER_OP("conv_bias_grad")
    .GradientOf("conv1d", "conv2d", "conv3d")
    .With(TensorArgs{{"dy"}, {"bias_diff"}})
    .Attr<std::string>("data_format", "channels_first")
    .RequiredAttr<int32_t>("num_spatial_dims")
    .With(rules(infer, sharding))
    .Doc("The gradient of a convolution by its bias: the sum of dy over samples and positions.")
    .Cases({Case("first").In("dy", {2, 3, 5, 4}).Attr("num_spatial_dims", int32_t{2}),
            Case("last")
                .In("dy", {2, 6, 19})
                .Attr("num_spatial_dims", int32_t{1})
                .Attr("data_format", std::string("channels_last")),
            Case("empty").In("dy", {0, 3, 4}).Attr("num_spatial_dims", int32_t{1})})
    .Kernel<ConvBiasGradKernel, types::Floating>("dy");

void biasGradGradient(GradientRule &g) {
  if (!g.needs("dy")) return;
  const int64_t rank = g.shape("dy").NumAxes();
  const int64_t channel = g.attr<std::string>("data_format") == "channels_last" ? rank - 1 : 1;
  std::vector<int64_t> axes;
  for (int64_t a = 0; a < rank; ++a)
    if (a != channel) axes.push_back(a);
  g.bind("dy", repeatedLike(g, g.dy("bias_diff"), g.shape("bias_diff"), g.x("dy"), g.shape("dy"), axes, "dy"));
}
REGISTER_USER_OP_GRAD("conv_bias_grad").SetBackwardOpConfGenFn(gradientRule(biasGradGradient));

} // namespace
} // namespace opc::ops
