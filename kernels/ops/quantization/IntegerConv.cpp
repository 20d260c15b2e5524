// integer_conv1d, integer_conv2d and integer_conv3d: exact convolutions of 8-bit integers.
// SPDX-License-Identifier: Apache-2.0
#include "IntegerConvolution.h"
#include "IntegerOperands.h"
#include "convolution/ConvOp.h"

namespace opc::ops {

std::unique_ptr<BoundKernel> bindIntegerConv(KernelBindContext *ctx, const ConvGeometry &geometry,
                                             const cpu::SumFinish &finish) {
  IntegerConvSpec s;
  s.geometry = geometry.inRows();
  s.in = bytesOf(ctx, "in");
  s.weight = bytesOf(ctx, "weight");
  s.inZero = zeroPointsOf(ctx, "in");
  s.weightZero = zeroPointsOf(ctx, "weight");
  s.finish = finish;
  if (ctx->Has("bias")) s.bias = ctx->In("bias").dptr<int32_t>();
  s.constantWeight =
      ctx->isConstant("weight", 0) && (s.weightZero.count == 0 || ctx->isConstant("weight_zero_point", 0));
  auto conv = std::make_shared<IntegerConvolution>(s, ctx->device_ctx()->threads());
  if (conv->hasPackedWeight()) notePackedInput(ctx, "weight");
  void *out = ctx->Out("out").mut_raw_dptr();
  return bindTask([out, conv](DeviceCtx *d) { conv->run(d, out); });
}

namespace {

Maybe<void> infer(InferContext *ctx, int dims) {
  JUST(checkBytes(ctx, "in"));
  JUST(checkBytes(ctx, "weight"));
  const ConvGeometry g = JUST(convGeometry(ctx->In("in"), ctx->In("weight"), ctx->user_op_conf(), dims));
  if (g.channelsLast)
    return Error::InvalidValueError().id("OPC0205").help("transpose in and weight")
           << "data_format is channels_last; convolutions of integers take channels_first";
  JUST(checkZeroPoints(ctx, "in", 1, "tensor"));
  JUST(checkZeroPoints(ctx, "weight", g.filters, "filter"));
  JUST(checkIntegerBias(ctx, g.filters, "filter"));
  return setOut(ctx, "out", TensorDesc(g.outShape(), kInt32));
}

/// Batch, filters, and channels (partial sums).
Maybe<ShardingRule> sharding(const SbpContext &ctx) {
  const ChannelFactors f = channelFactors(ctx);
  const AxisFactors in{"n", f.channels, ".."}, weight{f.filters, f.ofFilter, ".."}, out{"n", f.filters, ".."};
  const AxisFactors zeros = numberFactors(ctx, "weight_zero_point", f.filters);
  const ShardingRule rule = shardingRule({in, weight, {".."}, zeros, {"+", f.filters}}, {out});
  return inOrder({"n", f.filters}, withSums(f.sums, rule));
}

class IntegerConvKernel final : public BindingKernel {
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    const TensorDesc &in = ctx->Desc("in");
    return bindIntegerConv(
        ctx, valueOf(convGeometry(in, ctx->Desc("weight"), ctx->user_op_conf(), spatialDims(in), Extent::kPiece)),
        cpu::SumFinish());
  }
};

std::function<void(OpRegistry &)> definition(int dims) {
  return [dims](OpRegistry &op) {
    op.With(TensorArgs{{"in", "weight"}, {"out"}})
        .OptionalInput("in_zero_point")
        .OptionalInput("weight_zero_point")
        .OptionalInput("bias")
        .Attr<int32_t>("filters", 0)
        .With(convArgs)
        .With(rules([dims](InferContext *ctx) { return infer(ctx, dims); }, sharding))
        .SetComputeComplexityFn(convOperations("out", "weight"))
        .NoGrad("its tensors are integers")
        .Doc("The exact convolution of 8-bit integers over " + std::to_string(dims) + " spatial dimension" +
             (dims > 1 ? "s" : "") +
             ", in 32 bits: that of in - in_zero_point with weight - weight_zero_point, with zeros outside, plus "
             "bias. in and weight are u8 or i8 each, [N, C, spatial...] and [filters, C / groups, kernel...]. "
             "in_zero_point is one number, weight_zero_point one or one for each filter, bias i32 with one for each "
             "filter. Attributes as those of conv" +
             std::to_string(dims) + "d. Sums beyond 32 bits wrap around. The same bits on every processor.")
        .Kernel<IntegerConvKernel>();
  };
}

Case bytes(const char *name, Shape in, Shape weight, DataType left = kUInt8, DataType right = kInt8) {
  const auto high = [](DataType t) { return t == kInt8 ? 128 : 256; };
  return Case(name).In("in", left, in, -128, high(left)).In("weight", right, weight, -128, high(right));
}

REGISTER_USER_OP("integer_conv1d")
    .With(definition(1))
    .Cases({bytes("plain", {2, 3, 11}, {5, 3, 3}), bytes("dilated", {1, 4, 17}, {6, 2, 3}, kInt8, kInt8)
                                                       .In("in_zero_point", kInt8, {}, -128, 128)
                                                       .Attr("groups", int32_t{2})
                                                       .Attr("strides", Ints{2})
                                                       .Attr("dilation_rate", Ints{2})
                                                       .Attr("padding_before", Ints{1})});

REGISTER_USER_OP("integer_conv2d")
    .With(definition(2))
    .Cases({bytes("plain", {2, 3, 8, 7}, {8, 3, 3, 3})
                .In("in_zero_point", kUInt8, {}, 0, 256)
                .In("bias", kInt32, {8}, -1000, 1000)
                .Attr("padding_before", Ints{1, 1}),
            bytes("strided", {1, 8, 9, 9}, {16, 8, 3, 2}, kInt8, kInt8)
                .In("in_zero_point", kInt8, {1}, -128, 128)
                .Attr("padding_before", Ints{2, 0})
                .Attr("strides", Ints{2, 1})
                .Attr("dilation_rate", Ints{1, 2}),
            bytes("depthwise", {1, 16, 6, 6}, {16, 1, 3, 3})
                .In("in_zero_point", kUInt8, {}, 0, 256)
                .Attr("groups", int32_t{16})
                .Attr("padding_before", Ints{1, 1}),
            bytes("zero_point_of_filters", {1, 6, 5, 4}, {4, 3, 2, 3}, kUInt8, kUInt8)
                .In("in_zero_point", kUInt8, {}, 0, 256)
                .In("weight_zero_point", kUInt8, {4}, 0, 256)
                .In("bias", kInt32, {4}, -1000, 1000)
                .Attr("groups", int32_t{2})
                .Attr("padding_before", Ints{1, 1}),
            bytes("unsigned_weight", {1, 2, 4, 4}, {3, 2, 1, 1}, kInt8, kUInt8),
            bytes("long_sums", {1, 530, 3, 3}, {2, 530, 3, 3})
                .In("in_zero_point", kUInt8, {}, 0, 2)
                .Attr("padding_before", Ints{1, 1}),
            bytes("no_samples", {0, 2, 4, 4}, {3, 2, 3, 3})});

REGISTER_USER_OP("integer_conv3d")
    .With(definition(3))
    .Cases({bytes("plain", {1, 2, 4, 5, 6}, {3, 2, 2, 3, 3})
                .In("in_zero_point", kUInt8, {}, 0, 256)
                .Attr("padding_before", Ints{0, 1, 1})
                .Attr("strides", Ints{2, 1, 1})});

} // namespace
} // namespace opc::ops
