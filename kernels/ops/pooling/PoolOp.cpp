// Definitions of poolings and of their gradients.
// SPDX-License-Identifier: Apache-2.0
#include "PoolOp.h"
#include "support/SbpRules.h"

namespace opc::ops {

const char *const kWindowsDoc =
    "The windows have kernel_size elements, lie `stride` apart (kernel_size when stride is empty) "
    "and may reach into a padding of `padding` elements on both sides, or `padding` before and "
    "`padding_after` after. There are floor((size + padding - span) / stride) + 1 of them a "
    "dimension, ceil instead of floor with ceil_mode, but none that begins after the input. x is "
    "[N, C, spatial...] (channels_first) or [N, spatial..., C].";

namespace {

void windowArgs(OpRegistry &op) {
  op.Attr<Ints>("padding", {})
      .Attr<Ints>("padding_after", {})
      .Attr<std::string>("data_format", "channels_first")
      .RequiredAttr<Ints>("kernel_size")
      .Attr<Ints>("stride", {})
      .Attr<bool>("ceil_mode", false)
      .ArgAlias("padding_before", "padding")
      .ArgAlias("pool_size", "kernel_size")
      .ArgAlias("strides", "stride");
}
std::function<void(OpRegistry &)> poolArgs(Pooling kind) {
  return [kind](OpRegistry &op) {
    switch (kind) {
    case Pooling::kMax: op.With(windowArgs).Attr<Ints>("dilation", {}).Attr<bool>("return_indices", false); break;
    case Pooling::kAvg:
      op.With(windowArgs).Attr<bool>("count_include_pad", false).Attr<int32_t>("divisor_override", 0);
      break;
    case Pooling::kAdaptive:
      op.Attr<std::string>("data_format", "channels_first").RequiredAttr<std::vector<int64_t>>("output_size");
    }
  };
}

Maybe<void> checkType(const TensorDesc &x, bool orI32) {
  if (IsFloatingDataType(x.data_type()) || (orI32 && x.data_type() == kInt32)) return Maybe<void>::Ok();
  return Error::TypeError().id("OPC0204").help("cast it to f32")
         << "x is " << x.toString() << ", expected a floating type" << (orI32 ? " or i32" : "");
}

Maybe<void> inferPool(InferContext *ctx, int dims, Pooling kind) {
  const TensorDesc x = ctx->In("x");
  JUST(checkType(x, kind == Pooling::kMax));
  const Shape out = JUST(poolGeometry(x, ctx->user_op_conf(), dims, kind)).outShape();
  ctx->Out("y") = TensorDesc(out, x.data_type());
  if (ctx->Has("indice")) ctx->Out("indice") = TensorDesc(out, kInt64);
  return Maybe<void>::Ok();
}

Maybe<void> inferGrad(InferContext *ctx, int dims, Pooling kind) {
  const TensorDesc x = ctx->In("x");
  JUST(checkType(x, false));
  const Shape out = JUST(poolGeometry(x, ctx->user_op_conf(), dims, kind)).outShape();
  const TensorDesc want(out, x.data_type()), indices(out, kInt64);
  for (const char *arg : {"dy", "y"}) JUST(expectIn(ctx, arg, want, ", what the pooling makes of x, " + x.toString()));
  JUST(expectIn(ctx, "indice", indices));
  return setOut(ctx, "dx", x);
}

/// Batch and channels can be split, spatial dimensions cannot. Gradients are linear in dy, means in x; where the
/// largest element is depends on all of x.
ShardingFn sharding(size_t inputs, size_t outputs, const std::vector<LinearGroup> &linear) {
  return [=](const SbpContext &ctx) -> Maybe<ShardingRule> {
    const AxisFactors image = JUST(imageFactors(ctx, "x", "n", "c"));
    ShardingRule rule = shardingRule(std::vector<AxisFactors>(inputs, image), std::vector<AxisFactors>(outputs, image));
    rule.linear = linear;
    return rule;
  };
}

} // namespace

std::function<void(OpRegistry &)> poolDefinition(int dims, Pooling kind) {
  return [=](OpRegistry &op) {
    op.Pools(dims).Input("x").Output("y");
    if (kind == Pooling::kMax) op.OptionalOutput("indice");
    op.With(poolArgs(kind))
        .With(rules([=](InferContext *ctx) { return inferPool(ctx, dims, kind); },
                    kind == Pooling::kMax ? sharding(1, 2, {}) : sharding(1, 1, {Linear({0})})));
  };
}

std::function<void(OpRegistry &)> poolGradDefinition(int dims, Pooling kind, const std::string &doc) {
  return [=](OpRegistry &op) {
    if (kind == Pooling::kMax)
      op.Input("x").OptionalInput("y").OptionalInput("indice").Input("dy").Sharding(sharding(4, 1, {Linear({3})}));
    else
      op.Input("dy").Input("x").Sharding(sharding(2, 1, {Linear({0})}));
    op.Output("dx")
        .With(poolArgs(kind))
        .SetTensorDescInferFn([=](InferContext *ctx) { return inferGrad(ctx, dims, kind); })
        .Doc(doc + " The attributes are those of the pooling.");
  };
}

Case windowed(Case sample, const SampleWindow &window) {
  sample.Attr("kernel_size", window.kernel);
  if (!window.stride.empty()) sample.Attr("stride", window.stride);
  if (!window.padding.empty()) sample.Attr("padding", window.padding);
  if (window.channelsLast) sample.Attr("data_format", std::string("channels_last"));
  return sample;
}

} // namespace opc::ops
