// fused_integer_conv2d and fused_integer_matmul: sums of products of 8-bit integers that become 8-bit integers or real
// numbers while they are in the cache. The compiler makes them.
// SPDX-License-Identifier: Apache-2.0
#include "FusedInteger.h"

#include "IntegerConvolution.h"
#include "IntegerMatmul.h"
#include "convolution/ConvOp.h"
#include "support/FunctionKernel.h"

namespace opc::ops {

Maybe<ConvGeometry> fusedIntegerGeometry(const TensorDesc &in, const TensorDesc &weight, const UserOpConfWrapper &conf,
                                         Extent extent) {
  const bool last = JUST(isChannelsLast(conf));
  if (!last || weight.shape().NumAxes() != 4) return convGeometry(in, weight, conf, 2, extent);
  const Shape moved = shapeOf(imageOf(weight.shape(), false), 2, true);
  return convGeometry(in, TensorDesc(moved, weight.data_type()), conf, 2, extent);
}

namespace {

Maybe<void> inferConv(InferContext *ctx) {
  JUST(checkBytes(ctx, "in"));
  JUST(checkBytes(ctx, "weight"));
  const ConvGeometry g = JUST(fusedIntegerGeometry(ctx->In("in"), ctx->In("weight"), ctx->user_op_conf()));
  JUST(checkZeroPoints(ctx, "in", 1, "tensor"));
  JUST(checkZeroPoints(ctx, "weight", g.filters, "filter"));
  JUST(checkIntegerBias(ctx, g.filters, "filter"));
  JUST(checkFinish(ctx, g.filters, "filter"));
  return setOut(ctx, "out", TensorDesc(g.outShape(), ctx->Attr<DataType>("dtype")));
}

/// The batch, and the filters with what there is one of for each.
Maybe<ShardingRule> convSharding(const SbpContext &ctx) {
  const std::string f = ctx.Attr<int32_t>("groups") == 1 ? "f" : ".";
  const auto numbers = [&](const char *arg) { return numberFactors(ctx, arg, f); };
  const AxisFactors out = JUST(imageFactors(ctx, "in", "n", f)), in{"n", ".."}, weight{f, ".."}, bias{f};
  return shardingRule({in, weight, {".."}, numbers("weight_zero_point"), bias, numbers("scale"), numbers("zero_point")},
                      {out});
}

std::unique_ptr<BoundKernel> bindFusedIntegerConv(KernelBindContext *ctx) {
  return bindIntegerConv(
      ctx, valueOf(fusedIntegerGeometry(ctx->Desc("in"), ctx->Desc("weight"), ctx->user_op_conf(), Extent::kPiece)),
      finishOf(ctx));
}

Maybe<void> inferProduct(InferContext *ctx) {
  const MatrixSizes s = JUST(inferIntegerProduct(ctx, ctx->Attr<DataType>("dtype")));
  return checkFinish(ctx, s.n, "column");
}

/// Rows, columns, and the batches of a where b has none.
Maybe<ShardingRule> productSharding(const SbpContext &ctx) {
  const std::string batches = ctx.In("b").shape().NumAxes() == 2 ? "..." : "..";
  AxisFactors b{"..", ".", "n"};
  if (ctx.Attr<bool>("transpose_b")) std::swap(b[1], b[2]);
  const auto columns = [&](const char *arg) { return numberFactors(ctx, arg, "n"); };
  return inOrder({"m", "n"}, shardingRule({{batches, "m", "."},
                                           b,
                                           numberFactors(ctx, "a_zero_point", "m"),
                                           columns("b_zero_point"),
                                           {"n"},
                                           columns("scale"),
                                           columns("zero_point")},
                                          {{batches, "m", "n"}}));
}

std::unique_ptr<BoundKernel> bindFusedIntegerMatmul(KernelBindContext *ctx) {
  return bindIntegerProduct(ctx, finishOf(ctx));
}

void finishArgs(OpRegistry &op) {
  op.OptionalInput("bias")
      .With(TensorArgs{{"scale"}, {"out"}})
      .OptionalInput("zero_point")
      .Attr<DataType>("dtype", kUInt8)
      .Attr<bool>("relu", false)
      .NoGrad("its tensors are integers");
}

const char *const kFinish =
    " with `relu` sums below 0 become 0. dtype f32 gives sum * scale in f32; u8 and i8 that, rounded to the nearest "
    "integer (ties to even), plus zero_point, held to the range of dtype. scale and zero_point are one number, or a "
    "vector with one for each ";

Case bytes(const char *name, const char *left, const Shape &a, const char *right, const Shape &b,
           DataType type = kUInt8) {
  return Case(name).In(left, type, a, -128, type == kInt8 ? 128 : 256).In(right, kInt8, b, -128, 128);
}

REGISTER_USER_OP("fused_integer_conv2d")
    .Input("in")
    .Input("weight")
    .OptionalInput("in_zero_point")
    .OptionalInput("weight_zero_point")
    .With(finishArgs)
    .Attr<int32_t>("filters", 0)
    .With(convArgs)
    .With(rules(inferConv, convSharding))
    .SetComputeComplexityFn(convOperations("out", "weight"))
    .Doc(std::string("integer_conv2d and what makes bytes or real numbers of its sums (requantize, "
                     "dequantize_linear), in one pass: ") +
         kFinish +
         "filter. data_format is the layout of in and out; weight is [filters, channels / groups, kernel...] in both. "
         "The same bits on every processor, and as the ops by themselves. The compiler makes this op "
         "(docs/adr/0006-library-fusion.md).")
    .Cases({bytes("plain", "in", {2, 3, 8, 7}, "weight", {8, 3, 3, 3})
                .In("in_zero_point", kUInt8, {}, 0, 256)
                .In("bias", kInt32, {8}, -1000, 1000)
                .In("scale", kFloat, {8}, 0.0005, 0.002)
                .In("zero_point", kUInt8, {}, 90, 150)
                .Attr("padding_before", Ints{1, 1}),
            bytes("last", "in", {2, 9, 9, 8}, "weight", {33, 8, 3, 2}, kInt8)
                .In("in_zero_point", kInt8, {1}, -128, 128)
                .In("scale", kFloat, {33}, 0.0005, 0.002)
                .In("zero_point", kInt8, {33}, -20, 20)
                .Attr("dtype", kInt8)
                .Attr("data_format", std::string("channels_last"))
                .Attr("padding_before", Ints{2, 0})
                .Attr("strides", Ints{2, 1}),
            bytes("real", "in", {1, 6, 6, 16}, "weight", {16, 1, 3, 3})
                .In("in_zero_point", kUInt8, {}, 0, 256)
                .In("scale", kFloat, {}, 0.001, 0.002)
                .Attr("dtype", kFloat)
                .Attr("relu", true)
                .Attr("groups", int32_t{16})
                .Attr("data_format", std::string("channels_last"))
                .Attr("padding_before", Ints{1, 1}),
            bytes("one_by_one", "in", {1, 17, 17, 64}, "weight", {160, 64, 1, 1})
                .In("bias", kInt32, {160}, -1000, 1000)
                .In("scale", kFloat, {160}, 0.0005, 0.002)
                .Attr("relu", true)
                .Attr("data_format", std::string("channels_last")),
            bytes("no_samples", "in", {0, 2, 4, 4}, "weight", {3, 2, 3, 3}).In("scale", kFloat, {}, 0.001, 0.002)})
    .Kernel<FunctionKernel<bindFusedIntegerConv>>();

REGISTER_USER_OP("fused_integer_matmul")
    .Input("a")
    .Input("b")
    .OptionalInput("a_zero_point")
    .OptionalInput("b_zero_point")
    .With(finishArgs)
    .Attr<bool>("transpose_b", false)
    .With(rules(inferProduct, productSharding))
    .SetComputeComplexityFn([](InferContext *ctx) -> Maybe<double> {
      const Shape &a = ctx->In("a").shape();
      return 2.0 * static_cast<double>(ctx->Out("out").shape().elem_cnt()) * static_cast<double>(a.At(a.NumAxes() - 1));
    })
    .Doc(std::string("integer_matmul and what makes bytes or real numbers of its sums (requantize, dequantize_linear), "
                     "in one pass: ") +
         kFinish +
         "column. The same bits on every processor, and as the ops by themselves. The compiler makes this op "
         "(docs/adr/0006-library-fusion.md).")
    .Cases({bytes("plain", "a", {9, 33}, "b", {33, 18})
                .In("a_zero_point", kUInt8, {}, 0, 256)
                .In("bias", kInt32, {18}, -1000, 1000)
                .In("scale", kFloat, {18}, 0.0005, 0.002)
                .In("zero_point", kUInt8, {}, 90, 150),
            bytes("rows_and_columns", "a", {7, 16}, "b", {5, 16}, kInt8)
                .In("a_zero_point", kInt8, {7}, -128, 128)
                .In("b_zero_point", kInt8, {5}, -128, 128)
                .In("scale", kFloat, {}, 0.001, 0.002)
                .In("zero_point", kInt8, {5}, -20, 20)
                .Attr("dtype", kInt8)
                .Attr("transpose_b", true),
            bytes("real", "a", {2, 65, 40}, "b", {40, 300})
                .In("a_zero_point", kUInt8, {}, 0, 256)
                .In("scale", kFloat, {300}, 0.0005, 0.002)
                .Attr("dtype", kFloat)
                .Attr("relu", true),
            bytes("no_terms", "a", {2, 0}, "b", {0, 3}).In("bias", kInt32, {3}, -9, 9).In("scale", kFloat, {}, 0.1, 1)})
    .Kernel<FunctionKernel<bindFusedIntegerMatmul>>();

} // namespace
} // namespace opc::ops
