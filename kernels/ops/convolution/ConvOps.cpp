// Definitions of conv1d, conv2d and conv3d.
// SPDX-License-Identifier: Apache-2.0
#include "ConvGeometry.h"

namespace opc::ops {
namespace {

using user_op::Case;
using user_op::InferContext;
using user_op::OpArg;
using user_op::TensorDesc;
using Ints = std::vector<int32_t>;

Maybe<void> inferConv(InferContext *ctx, int dims) {
  const TensorDesc in = ctx->InputTensorDesc("in", 0), weight = ctx->InputTensorDesc("weight", 0);
  if (!IsFloatingDataType(in.data_type()))
    return Error::TypeError().id("OPC0204").help("cast it to f32")
           << "in is " << in.toString() << ", expected a floating type";
  for (const char *arg : {"weight", "bias", "_add_to_output"})
    if (ctx->has_input(arg, 0) && ctx->InputDType(arg, 0) != in.data_type())
      return Error::TypeError().id("OPC0204").help("cast one of them")
             << "in is " << in.toString() << " and " << arg << " is " << ctx->InputTensorDesc(arg, 0).toString()
             << ": their element types must be the same";
  const ConvGeometry g = JUST(convGeometry(in, weight, ctx->user_op_conf(), dims));
  if (ctx->has_input("bias", 0) && ctx->InputShape("bias", 0) != Shape{g.filters})
    return Error::ShapeMismatch() << "bias is " << ctx->InputTensorDesc("bias", 0).toString()
                                  << ", expected one element for each of the " << g.filters << " filters";
  TensorDesc *out = ctx->MutOutputTensorDesc("out", 0);
  *out = TensorDesc(convShape(g, g.filters, g.out), in.data_type());
  if (ctx->has_input("_add_to_output", 0) && ctx->InputTensorDesc("_add_to_output", 0) != *out)
    return Error::ShapeMismatch() << "_add_to_output is " << ctx->InputTensorDesc("_add_to_output", 0).toString()
                                  << ", the convolution gives " << out->toString();
  return Maybe<void>::Ok();
}

/// Batch, filters, and channels (partial sums); spatial dimensions would need their neighbours' rows.
Maybe<void> convSbp(user_op::SbpContext *ctx) {
  const int64_t rank = ctx->LogicalTensorDesc4InputArgNameAndIndex("in", 0).shape().NumAxes();
  const bool last = JUST(isChannelsLast(ctx->user_op_conf()));
  const int64_t channel = last ? rank - 1 : 1;
  const bool bias = ctx->has_input("bias", 0), adds = ctx->has_input("_add_to_output", 0),
             ones = ctx->has_input("bias_multiplier", 0);
  const OpArg in("in", 0), weight("weight", 0), b("bias", 0), add("_add_to_output", 0),
      multiplier("bias_multiplier", 0), out("out", 0);
  auto batch = ctx->NewBuilder();
  batch.Split(in, 0).Broadcast(weight).Split(out, 0);
  if (bias) batch.Broadcast(b);
  if (ones) batch.Broadcast(multiplier);
  if (adds) batch.Split(add, 0);
  batch.Build();
  const int64_t groups = ctx->Attr<int32_t>("groups");
  // With groups, whole groups of channels and filters together; without, the filters for themselves.
  if (groups == 1 || groups % ctx->parallel_num() == 0) {
    auto filters = ctx->NewBuilder();
    if (groups == 1)
      filters.Broadcast(in);
    else
      filters.Split(in, channel);
    filters.Split(weight, 0).Split(out, channel);
    if (bias) filters.Split(b, 0);
    if (ones) filters.Broadcast(multiplier);
    if (adds) filters.Split(add, channel);
    filters.Build();
  }
  // What is added joins the output's state, or each device would add it whole. The input's channels are summed; and the
  // convolution is linear in one operand at a time.
  for (int which = groups == 1 ? 0 : 1; which < 3; ++which) {
    auto sum = ctx->NewBuilder();
    if (which == 0)
      sum.Split(in, channel).Split(weight, channel);
    else if (which == 1)
      sum.PartialSum(in).Broadcast(weight);
    else
      sum.Broadcast(in).PartialSum(weight);
    if (bias) sum.PartialSum(b);
    if (ones) sum.Broadcast(multiplier);
    if (adds) sum.PartialSum(add);
    sum.PartialSum(out).Build();
  }
  return Maybe<void>::Ok();
}

user_op::OpRegistry convolution(const char *name, int line, int dims) {
  user_op::OpRegistry op(name, __FILE__, line);
  op.Input("in")
      .Input("weight")
      .OptionalInput("bias")
      .OptionalInput("_add_to_output")
      .OptionalInput("bias_multiplier")
      .Output("out")
      .Attr<int32_t>("filters", 0)
      .Attr<Ints>("padding_before", {})
      .Attr<std::string>("data_format", "channels_first")
      .Attr<Ints>("kernel_size", {})
      .Attr<Ints>("strides", {})
      .Attr<Ints>("dilation_rate", {})
      .Attr<int32_t>("groups", 1)
      .Attr<std::string>("tuning_cache", "")
      .SetTensorDescInferFn([dims](InferContext *ctx) { return inferConv(ctx, dims); })
      .SetGetSbpFn(convSbp)
      // From shapes alone: the attributes speak of the whole, the shapes may be a device's piece.
      .SetComputeComplexityFn([](InferContext *ctx) -> Maybe<double> {
        return 2.0 * static_cast<double>(ctx->OutputShape("out", 0).elem_cnt()) *
               static_cast<double>(ctx->InputShape("weight", 0).Count(1));
      })
      .Tolerance(kFloat, 1e-4, 1e-5)
      .Doc("Convolution over " + std::to_string(dims) + " spatial dimension" + (dims > 1 ? "s" : "") +
           " (cross-correlation, as in every neural-network library): out[n, o, p] = bias[o] + sum over c, k of "
           "in[n, c, p * strides + k * dilation_rate - padding_before] * weight[o, c, k], with zeros outside in; "
           "plus _add_to_output when it is given. Each of `groups` groups of channels feeds its own filters. "
           "data_format channels_first: in and out are [N, C, spatial...], weight is [filters, C / groups, "
           "kernel...]; channels_last: [N, spatial..., C] and [filters, kernel..., C / groups]. Each side is padded "
           "by padding_before. Empty lists mean no padding, strides and dilation of 1; filters and kernel_size, when "
           "given, must agree with weight. bias_multiplier (a vector of ones that older graphs pass) and "
           "tuning_cache are ignored.");
  return op;
}

std::string last() { return "channels_last"; }

[[maybe_unused]] const user_op::UserOpRegisterTrigger conv1d =
    convolution("conv1d", __LINE__, 1)
        .Cases({Case("plain").In("in", {2, 3, 11}).In("weight", {5, 3, 3}).In("bias", {5}),
                Case("dilated")
                    .In("in", {1, 4, 17})
                    .In("weight", {6, 2, 3})
                    .Attr("groups", int32_t{2})
                    .Attr("strides", Ints{2})
                    .Attr("dilation_rate", Ints{2})
                    .Attr("padding_before", Ints{1}),
                Case("channels_last").In("in", {2, 9, 4}).In("weight", {3, 2, 4}).Attr("data_format", last())});

[[maybe_unused]] const user_op::UserOpRegisterTrigger conv2d =
    convolution("conv2d", __LINE__, 2)
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
                    .Attr("data_format", last()),
                Case("added").In("in", {1, 2, 4, 4}).In("weight", {3, 2, 1, 1}).In("_add_to_output", {1, 3, 4, 4}),
                Case("no_samples").In("in", {0, 2, 4, 4}).In("weight", {3, 2, 3, 3})});

[[maybe_unused]] const user_op::UserOpRegisterTrigger conv3d = convolution("conv3d", __LINE__, 3)
                                                                   .Cases({Case("plain")
                                                                               .In("in", {1, 2, 4, 5, 6})
                                                                               .In("weight", {3, 2, 2, 3, 3})
                                                                               .In("bias", {3})
                                                                               .Attr("padding_before", Ints{0, 1, 1}),
                                                                           Case("channels_last")
                                                                               .In("in", {1, 4, 4, 4, 2})
                                                                               .In("weight", {4, 2, 2, 2, 2})
                                                                               .Attr("strides", Ints{2, 1, 1})
                                                                               .Attr("data_format", last())});

} // namespace
} // namespace opc::ops
