// deconv1d, deconv2d and deconv3d: transposed convolutions.
// SPDX-License-Identifier: Apache-2.0
#include "ConvOp.h"

namespace opc::ops {
namespace {

Maybe<void> infer(InferContext *ctx, int dims) {
  JUST(checkTypes(ctx, {"in", "weight"}));
  const TensorDesc in = ctx->In("in");
  const ConvGeometry g = JUST(transposedGeometry(in, ctx->In("weight"), ctx->user_op_conf(), dims));
  return setOut(ctx, "out", TensorDesc(g.inShape(), in.data_type()));
}

Maybe<ShardingRule> sharding(const SbpContext &ctx) {
  const bool grouped = ctx.Attr<int32_t>("groups") != 1;
  const ChannelFactors f = grouped ? ChannelFactors{".", ".", ".", {}} : channelFactors(ctx);
  const AxisFactors in = JUST(imageFactors(ctx, "in", "n", f.channels));
  const AxisFactors weight = JUST(imageFactors(ctx, "in", f.channels, f.filters));
  const AxisFactors out = JUST(imageFactors(ctx, "in", "n", f.filters));
  return withSums(f.sums, shardingRule({in, weight}, {out}, Linear({0}), Linear({1})));
}

template <class T> class DeconvKernel final : public StagedKernel<T> {
  std::unique_ptr<BoundKernel> BindStaged(KernelBindContext *ctx, StagedTensors<T> &staged) const override {
    const TensorDesc &in = ctx->Desc("in");
    const ConvGeometry g =
        valueOf(transposedGeometry(in, ctx->Desc("weight"), ctx->user_op_conf(), spatialDims(in), Extent::kPiece));
    return bindConvolution(ctx, staged, g, ConvDirection::kData, "in", "weight", "out");
  }
};

std::function<void(OpRegistry &)> definition(int dims) {
  return [dims](OpRegistry &op) {
    op.With(TensorArgs{{"in", "weight"}, {"out"}})
        .Attr<int32_t>("filters", 0)
        .With(convArgs)
        .Attr<Ints>("output_padding", {})
        .With(rules([dims](InferContext *ctx) { return infer(ctx, dims); }, sharding))
        .SetComputeComplexityFn(convOperations("in", "weight"))
        .Tolerance(kFloat, 1e-4, 1e-5)
        .Doc("Transposed convolution over " + std::to_string(dims) + " spatial dimension" + (dims > 1 ? "s" : "") +
             ": the adjoint of the convolution with the same weight, which maps out's shape to in's. out[n, f, p * "
             "strides + k * dilation_rate - padding_before] sums in[n, c, p] * weight[c, f, k]. The result has (size - "
             "1) * strides - 2 * padding_before + dilation_rate * (kernel - 1) + 1 + output_padding elements a "
             "dimension. data_format channels_first: in is [N, C, spatial...], weight is [C, filters / groups, "
             "kernel...]; channels_last: [N, spatial..., C] and [C, kernel..., filters / groups].")
        .Kernel<DeconvKernel, types::Floating>("in");
  };
}

REGISTER_USER_OP("deconv1d")
    .With(definition(1))
    .Cases({Case("plain").In("in", {2, 3, 7}).In("weight", {3, 4, 3}).Attr("strides", Ints{2})});

REGISTER_USER_OP("deconv2d")
    .With(definition(2))
    .Cases({Case("plain").In("in", {2, 3, 5, 4}).In("weight", {3, 4, 3, 3}).Attr("padding_before", Ints{1, 1}),
            Case("strided")
                .In("in", {1, 8, 4, 4})
                .In("weight", {8, 8, 4, 3})
                .Attr("strides", Ints{2, 2})
                .Attr("padding_before", Ints{1, 1})
                .Attr("output_padding", Ints{0, 1}),
            Case("groups")
                .In("in", {1, 4, 5, 5})
                .In("weight", {4, 3, 2, 2})
                .Attr("groups", int32_t{2})
                .Attr("dilation_rate", Ints{2, 1}),
            Case("channels_last")
                .In("in", {2, 4, 3, 6})
                .In("weight", {6, 2, 2, 5})
                .Attr("data_format", std::string("channels_last"))});

REGISTER_USER_OP("deconv3d")
    .With(definition(3))
    .Cases({Case("plain").In("in", {1, 2, 3, 4, 3}).In("weight", {2, 3, 2, 2, 2}).Attr("strides", Ints{1, 2, 1})});

} // namespace
} // namespace opc::ops
