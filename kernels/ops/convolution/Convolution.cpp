// conv1d, conv2d and conv3d.
// SPDX-License-Identifier: Apache-2.0
#include "ConvOp.h"

namespace opc::ops {
namespace {

Maybe<void> infer(InferContext *ctx, int dims) {
  JUST(checkTypes(ctx, {"in", "weight", "bias", "_add_to_output"}));
  const TensorDesc in = ctx->In("in");
  const ConvGeometry g = JUST(convGeometry(in, ctx->In("weight"), ctx->user_op_conf(), dims));
  JUST(checkFilterVector(ctx, "bias", g));
  const TensorDesc out(g.outShape(), in.data_type());
  JUST(checkAddend(ctx, out));
  return setOut(ctx, "out", out);
}

/// Batch, filters, and channels (partial sums); spatial dimensions would need their neighbours' rows. With groups,
/// whole groups of channels and filters together. What is added joins the output's state, or each device would add it
/// whole; the convolution is linear in one operand at a time.
Maybe<ShardingRule> sharding(const SbpContext &ctx) {
  const ChannelFactors f = channelFactors(ctx);
  const AxisFactors in = JUST(imageFactors(ctx, "in", "n", f.channels));
  const AxisFactors weight = JUST(imageFactors(ctx, "in", f.filters, f.ofFilter));
  const AxisFactors out = JUST(imageFactors(ctx, "in", "n", f.filters));
  const ShardingRule rule = shardingRule({in, weight, {"+", f.filters}, added(out)}, {out}, Linear({0}), Linear({1}));
  return inOrder({"n", f.filters}, withSums(f.sums, rule));
}

template <class T> class ConvKernel final : public StagedKernel<T> {
  std::unique_ptr<BoundKernel> BindStaged(KernelBindContext *ctx, StagedTensors<T> &staged) const override {
    const TensorDesc &in = ctx->Desc("in");
    const ConvGeometry g =
        valueOf(convGeometry(in, ctx->Desc("weight"), ctx->user_op_conf(), spatialDims(in), Extent::kPiece));
    const bool mayFilter = g.dims == 2 && ctx->Attr<bool>("winograd");
    return bindConvolution(ctx, staged, g, ConvDirection::kForward, "in", "weight", "out", mayFilter);
  }
};

std::function<void(OpRegistry &)> definition(int dims) {
  return [dims](OpRegistry &op) {
    op.With(TensorArgs{{"in", "weight"}, {"out"}})
        .OptionalInput("bias")
        .OptionalInput("_add_to_output")
        .OptionalInput("bias_multiplier")
        .Attr<int32_t>("filters", 0)
        .With(convArgs)
        .Attr<std::string>("tuning_cache", "")
        .With(rules([dims](InferContext *ctx) { return infer(ctx, dims); }, sharding))
        .SetComputeComplexityFn(convOperations("out", "weight"))
        .Tolerance(kFloat, 1e-4, 1e-5)
        .Doc("Convolution over " + std::to_string(dims) + " spatial dimension" + (dims > 1 ? "s" : "") +
             " (cross-correlation, as in every neural-network library): out[n, o, p] = bias[o] + sum over c, k of "
             "in[n, c, p * strides + k * dilation_rate - padding_before] * weight[o, c, k], with zeros outside in; "
             "plus _add_to_output when it is given. Each of `groups` groups of channels feeds its own filters. "
             "data_format channels_first: in and out are [N, C, spatial...], weight is [filters, C / groups, "
             "kernel...]; channels_last: [N, spatial..., C] and [filters, kernel..., C / groups]. Each side is padded "
             "by padding_before. Empty lists mean no padding, strides and dilation of 1; filters and kernel_size, when "
             "given, must agree with weight. bias_multiplier (a vector of ones that older graphs pass) and "
             "tuning_cache are ignored." +
             (dims == 2 ? kFilteringDoc : ""))
        .Kernel<ConvKernel, types::Floating>("in");
    if (dims == 2) op.With(filteringArg);
  };
}

REGISTER_USER_OP("conv1d")
    .With(definition(1))
    .Cases({Case("plain").In("in", {2, 3, 11}).In("weight", {5, 3, 3}).In("bias", {5}),
            Case("dilated")
                .In("in", {1, 4, 17})
                .In("weight", {6, 2, 3})
                .Attr("groups", int32_t{2})
                .Attr("strides", Ints{2})
                .Attr("dilation_rate", Ints{2})
                .Attr("padding_before", Ints{1}),
            Case("channels_last")
                .In("in", {2, 9, 4})
                .In("weight", {3, 2, 4})
                .Attr("data_format", std::string("channels_last"))});

REGISTER_USER_OP("conv2d")
    .With(definition(2))
    .Cases({Case("plain")
                .In("in", {2, 3, 8, 7})
                .In("weight", {8, 3, 3, 3})
                .In("bias", {8})
                .Attr("padding_before", Ints{1, 1}),
            Case("strided")
                .In("in", {1, 8, 9, 9})
                .In("weight", {16, 8, 3, 2})
                .Attr("strides", Ints{2, 1})
                .Attr("dilation_rate", Ints{1, 2}),
            Case("depthwise")
                .In("in", {1, 8, 6, 6})
                .In("weight", {8, 1, 3, 3})
                .Attr("groups", int32_t{8})
                .Attr("padding_before", Ints{1, 1}),
            Case("channels_last")
                .In("in", {2, 6, 5, 4})
                .In("weight", {6, 3, 3, 2})
                .In("bias", {6})
                .Attr("groups", int32_t{2})
                .Attr("data_format", std::string("channels_last")),
            Case("added").In("in", {1, 2, 4, 4}).In("weight", {3, 2, 1, 1}).In("_add_to_output", {1, 3, 4, 4}),
            Case("no_samples").In("in", {0, 2, 4, 4}).In("weight", {3, 2, 3, 3})});

REGISTER_USER_OP("conv3d")
    .With(definition(3))
    .Cases({Case("plain")
                .In("in", {1, 2, 4, 5, 6})
                .In("weight", {3, 2, 2, 3, 3})
                .In("bias", {3})
                .Attr("padding_before", Ints{0, 1, 1}),
            Case("channels_last")
                .In("in", {1, 4, 4, 4, 2})
                .In("weight", {4, 2, 2, 2, 2})
                .Attr("strides", Ints{2, 1, 1})
                .Attr("data_format", std::string("channels_last"))});

} // namespace
} // namespace opc::ops
