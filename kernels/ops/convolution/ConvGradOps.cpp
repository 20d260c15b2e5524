// Definitions of conv_data_grad, conv_filter_grad and conv_bias_grad, and the gradient rules of all convolutions.
// SPDX-License-Identifier: Apache-2.0
#include "ConvGeometry.h"
#include "support/GradientSteps.h"

namespace opc::ops {
namespace {

using user_op::Case;
using user_op::InferContext;
using user_op::OpArg;
using user_op::TensorDesc;
using Ints = std::vector<int32_t>;

Maybe<int> spatialDims(const user_op::UserOpConfWrapper &conf) {
  const int32_t n = conf.attr<int32_t>("num_spatial_dims");
  if (n >= 1 && n <= 3) return static_cast<int>(n);
  return Error::InvalidValueError().id("OPC0205") << "num_spatial_dims is " << n << ", expected 1, 2 or 3";
}
Maybe<void> sameFloating(InferContext *ctx, const char *a, const char *b) {
  const TensorDesc x = ctx->InputTensorDesc(a, 0), y = ctx->InputTensorDesc(b, 0);
  if (!IsFloatingDataType(x.data_type()))
    return Error::TypeError().id("OPC0204").help("cast it to f32")
           << a << " is " << x.toString() << ", expected a floating type";
  if (x.data_type() != y.data_type())
    return Error::TypeError().id("OPC0204").help("cast one of them")
           << a << " is " << x.toString() << " and " << b << " is " << y.toString()
           << ": their element types must be the same";
  return Maybe<void>::Ok();
}
Maybe<void> checkDy(const TensorDesc &dy, const ConvGeometry &g, const char *of) {
  const Shape want = convShape(g, g.filters, g.out);
  if (dy.shape() == want) return Maybe<void>::Ok();
  return Error::ShapeMismatch() << "dy is " << dy.toString() << ", but the convolution of " << of << " gives "
                                << want.ToString();
}

Maybe<void> inferDataGrad(InferContext *ctx) {
  JUST(sameFloating(ctx, "dy", "filter"));
  const TensorDesc like = ctx->InputTensorDesc("x_like", 0), dy = ctx->InputTensorDesc("dy", 0);
  const ConvGeometry g = JUST(convGeometry(like, ctx->InputTensorDesc("filter", 0), ctx->user_op_conf(),
                                           JUST(spatialDims(ctx->user_op_conf()))));
  JUST(checkDy(dy, g, "x_like with filter"));
  const TensorDesc dx(like.shape(), dy.data_type());
  if (ctx->has_input("_add_to_output", 0) && ctx->InputTensorDesc("_add_to_output", 0) != dx)
    return Error::ShapeMismatch() << "_add_to_output is " << ctx->InputTensorDesc("_add_to_output", 0).toString()
                                  << ", expected " << dx.toString();
  *ctx->MutOutputTensorDesc("dx", 0) = dx;
  return Maybe<void>::Ok();
}

Maybe<void> inferFilterGrad(InferContext *ctx) {
  JUST(sameFloating(ctx, "dy", "x"));
  const TensorDesc dy = ctx->InputTensorDesc("dy", 0), x = ctx->InputTensorDesc("x", 0);
  const TensorDesc filter(JUST(filterShape(x, dy, ctx->user_op_conf(), JUST(spatialDims(ctx->user_op_conf())))),
                          dy.data_type());
  const ConvGeometry g = JUST(convGeometry(x, filter, ctx->user_op_conf(), JUST(spatialDims(ctx->user_op_conf()))));
  JUST(checkDy(dy, g, "x with such a filter"));
  *ctx->MutOutputTensorDesc("filter_diff", 0) = filter;
  return Maybe<void>::Ok();
}

Maybe<void> inferBiasGrad(InferContext *ctx) {
  const TensorDesc dy = ctx->InputTensorDesc("dy", 0);
  const int dims = JUST(spatialDims(ctx->user_op_conf()));
  if (!IsFloatingDataType(dy.data_type()))
    return Error::TypeError().id("OPC0204") << "dy is " << dy.toString() << ", expected a floating type";
  if (dy.shape().NumAxes() != dims + 2)
    return Error::ShapeMismatch() << "dy must have rank " << dims + 2 << "; it is " << dy.toString();
  const int64_t channel = JUST(isChannelsLast(ctx->user_op_conf())) ? dims + 1 : 1;
  *ctx->MutOutputTensorDesc("bias_diff", 0) = TensorDesc(Shape{dy.shape().At(channel)}, dy.data_type());
  return Maybe<void>::Ok();
}

Maybe<int64_t> channelAxis(user_op::SbpContext *ctx) {
  return JUST(isChannelsLast(ctx->user_op_conf())) ? ctx->Attr<int32_t>("num_spatial_dims") + 1 : int64_t{1};
}

Maybe<void> dataGradSbp(user_op::SbpContext *ctx) {
  const int64_t channel = JUST(channelAxis(ctx));
  const OpArg dy("dy", 0), filter("filter", 0), like("x_like", 0), add("_add_to_output", 0), dx("dx", 0);
  const bool adds = ctx->has_input("_add_to_output", 0);
  auto batch = ctx->NewBuilder();
  batch.Split(dy, 0).Broadcast(filter).Split(like, 0).Split(dx, 0);
  if (adds) batch.Split(add, 0);
  batch.Build();
  for (int which = 0; which < 2; ++which) {
    auto b = ctx->NewBuilder();
    if (which == 0)
      b.PartialSum(dy).Broadcast(filter);
    else
      b.Broadcast(dy).PartialSum(filter);
    b.Broadcast(like).PartialSum(dx);
    if (adds) b.PartialSum(add);
    b.Build();
  }
  if (const int64_t groups = ctx->Attr<int32_t>("groups"); groups != 1) {
    auto whole = ctx->NewBuilder();
    whole.Split(dy, channel).Split(filter, 0).Split(like, channel).Split(dx, channel);
    if (adds) whole.Split(add, channel);
    if (groups % ctx->parallel_num() == 0) whole.Build();
    return Maybe<void>::Ok();
  }
  auto filters = ctx->NewBuilder(), channels = ctx->NewBuilder();
  filters.Split(dy, channel).Split(filter, 0).Broadcast(like).PartialSum(dx);
  channels.Broadcast(dy).Split(filter, channel).Split(like, channel).Split(dx, channel);
  if (adds) {
    filters.PartialSum(add);
    channels.Split(add, channel);
  }
  filters.Build();
  channels.Build();
  return Maybe<void>::Ok();
}

Maybe<void> filterGradSbp(user_op::SbpContext *ctx) {
  const int64_t channel = JUST(channelAxis(ctx));
  const OpArg dy("dy", 0), x("x", 0), diff("filter_diff", 0);
  ctx->NewBuilder().Split(dy, 0).Split(x, 0).PartialSum(diff).Build();
  ctx->NewBuilder().PartialSum(dy).Broadcast(x).PartialSum(diff).Build();
  ctx->NewBuilder().Broadcast(dy).PartialSum(x).PartialSum(diff).Build();
  if (const int64_t groups = ctx->Attr<int32_t>("groups"); groups != 1) {
    if (groups % ctx->parallel_num() == 0)
      ctx->NewBuilder().Split(dy, channel).Split(x, channel).Split(diff, 0).Build();
    return Maybe<void>::Ok();
  }
  ctx->NewBuilder().Split(dy, channel).Broadcast(x).Split(diff, 0).Build();
  ctx->NewBuilder().Broadcast(dy).Split(x, channel).Split(diff, channel).Build();
  return Maybe<void>::Ok();
}

Maybe<void> biasGradSbp(user_op::SbpContext *ctx) {
  const int64_t channel = JUST(channelAxis(ctx));
  const OpArg dy("dy", 0), diff("bias_diff", 0);
  for (int64_t a = 0; a < ctx->Attr<int32_t>("num_spatial_dims") + 2; ++a) {
    if (a == channel)
      ctx->NewBuilder().Split(dy, a).Split(diff, 0).Build();
    else
      ctx->NewBuilder().Split(dy, a).PartialSum(diff).Build();
  }
  ctx->NewBuilder().PartialSum(dy).PartialSum(diff).Build();
  return Maybe<void>::Ok();
}

#define OPC_CONV_GRAD_ATTRS                                                                                            \
  RequiredAttr<int32_t>("num_spatial_dims")                                                                            \
      .Attr<Ints>("padding_before", {})                                                                                \
      .Attr<std::string>("data_format", "channels_first")                                                              \
      .Attr<Ints>("kernel_size", {})                                                                                   \
      .Attr<Ints>("strides", {})                                                                                       \
      .Attr<Ints>("dilation_rate", {})                                                                                 \
      .Attr<int32_t>("groups", 1)

std::string last() { return "channels_last"; }

REGISTER_USER_OP("conv_data_grad")
    .GradientOf("conv1d", "conv2d", "conv3d")
    .Input("dy")
    .Input("filter")
    .Input("x_like")
    .OptionalInput("_add_to_output")
    .Output("dx")
    .OPC_CONV_GRAD_ATTRS.SetTensorDescInferFn(inferDataGrad)
    .SetGetSbpFn(dataGradSbp)
    .SetComputeComplexityFn([](InferContext *ctx) -> Maybe<double> {
      const Shape &f = ctx->InputShape("filter", 0);
      return 2.0 * static_cast<double>(ctx->InputShape("dy", 0).elem_cnt()) * static_cast<double>(f.Count(1));
    })
    .Tolerance(kFloat, 1e-4, 1e-5)
    .Doc("The gradient of a convolution over num_spatial_dims dimensions by its input: dx, of the shape of x_like "
         "(whose values are not read), sums dy[n, o, p] * filter[o, c, k] over the o, p and k that used it; plus "
         "_add_to_output when it is given. The attributes are those of the convolution.")
    .Cases({Case("plain")
                .In("dy", {2, 4, 5, 4})
                .In("filter", {4, 3, 3, 3})
                .In("x_like", {2, 3, 5, 4})
                .Attr("num_spatial_dims", int32_t{2})
                .Attr("kernel_size", Ints{3, 3})
                .Attr("padding_before", Ints{1, 1}),
            Case("strided_groups")
                .In("dy", {1, 6, 3, 3})
                .In("filter", {6, 2, 2, 2})
                .In("x_like", {1, 4, 7, 6})
                .Attr("num_spatial_dims", int32_t{2})
                .Attr("kernel_size", Ints{2, 2})
                .Attr("strides", Ints{2, 2})
                .Attr("dilation_rate", Ints{2, 1})
                .Attr("groups", int32_t{2}),
            Case("last")
                .In("dy", {2, 4, 5})
                .In("filter", {5, 3, 2})
                .In("x_like", {2, 8, 2})
                .In("_add_to_output", {2, 8, 2})
                .Attr("num_spatial_dims", int32_t{1})
                .Attr("kernel_size", Ints{3})
                .Attr("strides", Ints{2})
                .Attr("padding_before", Ints{1})
                .Attr("data_format", last()),
            Case("volume")
                .In("dy", {1, 3, 2, 3, 2})
                .In("filter", {3, 2, 2, 2, 2})
                .In("x_like", {1, 2, 3, 4, 3})
                .Attr("num_spatial_dims", int32_t{3})
                .Attr("kernel_size", Ints{2, 2, 2})});

REGISTER_USER_OP("conv_filter_grad")
    .GradientOf("conv1d", "conv2d", "conv3d")
    .Input("dy")
    .Input("x")
    .Output("filter_diff")
    .OPC_CONV_GRAD_ATTRS.SetTensorDescInferFn(inferFilterGrad)
    .SetGetSbpFn(filterGradSbp)
    .SetComputeComplexityFn([](InferContext *ctx) -> Maybe<double> {
      const Shape &f = ctx->OutputShape("filter_diff", 0);
      return 2.0 * static_cast<double>(ctx->InputShape("dy", 0).elem_cnt()) * static_cast<double>(f.Count(1));
    })
    .Tolerance(kFloat, 1e-4, 1e-5)
    .Doc("The gradient of a convolution over num_spatial_dims dimensions by its weight: filter_diff[o, c, k] is the "
         "sum over samples n and positions p of dy[n, o, p] * x[n, c, p * strides + k * dilation_rate - "
         "padding_before]. kernel_size is needed; the attributes are those of the convolution.")
    .Cases({Case("plain")
                .In("dy", {2, 4, 5, 4})
                .In("x", {2, 3, 5, 4})
                .Attr("num_spatial_dims", int32_t{2})
                .Attr("kernel_size", Ints{3, 3})
                .Attr("padding_before", Ints{1, 1}),
            Case("strided_groups")
                .In("dy", {5, 6, 3, 3})
                .In("x", {5, 4, 7, 6})
                .Attr("num_spatial_dims", int32_t{2})
                .Attr("kernel_size", Ints{2, 2})
                .Attr("strides", Ints{2, 2})
                .Attr("dilation_rate", Ints{2, 1})
                .Attr("groups", int32_t{2}),
            Case("last")
                .In("dy", {2, 4, 5})
                .In("x", {2, 8, 2})
                .Attr("num_spatial_dims", int32_t{1})
                .Attr("kernel_size", Ints{3})
                .Attr("strides", Ints{2})
                .Attr("padding_before", Ints{1})
                .Attr("data_format", last()),
            Case("volume")
                .In("dy", {3, 3, 2, 3, 2})
                .In("x", {3, 2, 3, 4, 3})
                .Attr("num_spatial_dims", int32_t{3})
                .Attr("kernel_size", Ints{2, 2, 2})});

REGISTER_USER_OP("conv_bias_grad")
    .GradientOf("conv1d", "conv2d", "conv3d")
    .Input("dy")
    .Output("bias_diff")
    .Attr<std::string>("data_format", "channels_first")
    .RequiredAttr<int32_t>("num_spatial_dims")
    .SetTensorDescInferFn(inferBiasGrad)
    .SetGetSbpFn(biasGradSbp)
    .Doc("The gradient of a convolution by its bias: the sum of dy over samples and positions.")
    .Cases({Case("first").In("dy", {2, 3, 5, 4}).Attr("num_spatial_dims", int32_t{2}),
            Case("last").In("dy", {2, 6, 19}).Attr("num_spatial_dims", int32_t{1}).Attr("data_format", last()),
            Case("empty").In("dy", {0, 3, 4}).Attr("num_spatial_dims", int32_t{1})});

// --- rules -----------------------------------------------------------------------------------------------------------

Ints kernelOf(const Shape &weight, bool channelsLast) {
  const auto begin = weight.begin() + (channelsLast ? 1 : 2), end = weight.end() - (channelsLast ? 1 : 0);
  return Ints(begin, end);
}

std::string dataGrad(GradientRule &g, const std::string &dy, const std::string &filter, const Shape &weight,
                     const std::string &like, int dims, const char *suffix) {
  return g.add("conv_data_grad", suffix)
      .in("dy", dy)
      .in("filter", filter)
      .in("x_like", like)
      .attr("num_spatial_dims", static_cast<int32_t>(dims))
      .attr("kernel_size", kernelOf(weight, g.attr<std::string>("data_format") == "channels_last"))
      .same({"padding_before", "data_format", "strides", "dilation_rate", "groups"})
      .out("dx");
}
std::string filterGrad(GradientRule &g, const std::string &dy, const std::string &x, const Shape &weight, int dims,
                       const char *suffix) {
  return g.add("conv_filter_grad", suffix)
      .in("dy", dy)
      .in("x", x)
      .attr("num_spatial_dims", static_cast<int32_t>(dims))
      .attr("kernel_size", kernelOf(weight, g.attr<std::string>("data_format") == "channels_last"))
      .same({"padding_before", "data_format", "strides", "dilation_rate", "groups"})
      .out("filter_diff");
}
std::string convolved(GradientRule &g, const std::string &in, const std::string &weight, int dims, const char *suffix) {
  return g.add("conv" + std::to_string(dims) + "d", suffix)
      .in("in", in)
      .in("weight", weight)
      .same({"padding_before", "data_format", "strides", "dilation_rate", "groups"})
      .out();
}

void convGradient(GradientRule &g) {
  const Shape &weight = g.shape("weight");
  const int dims = static_cast<int>(weight.NumAxes()) - 2;
  if (g.needs("in")) g.bind("in", dataGrad(g, g.dy("out"), g.x("weight"), weight, g.x("in"), dims, "in"));
  if (g.needs("weight")) g.bind("weight", filterGrad(g, g.dy("out"), g.x("in"), weight, dims, "weight"));
  if (g.needs("bias"))
    g.bind("bias", g.add("conv_bias_grad", "bias")
                       .in("dy", g.dy("out"))
                       .attr("num_spatial_dims", static_cast<int32_t>(dims))
                       .same({"data_format"})
                       .out("bias_diff"));
  if (g.needs("_add_to_output")) g.bind("_add_to_output", g.dy("out"));
}
REGISTER_USER_OP_GRAD("conv1d").SetBackwardOpConfGenFn(gradientRule(convGradient));
REGISTER_USER_OP_GRAD("conv2d").SetBackwardOpConfGenFn(gradientRule(convGradient));
REGISTER_USER_OP_GRAD("conv3d").SetBackwardOpConfGenFn(gradientRule(convGradient));

/// dx is bilinear in dy and filter.
void dataGradGradient(GradientRule &g) {
  const int dims = g.attr<int32_t>("num_spatial_dims");
  if (g.needs("dy")) g.bind("dy", convolved(g, g.dy("dx"), g.x("filter"), dims, "dy"));
  if (g.needs("filter")) g.bind("filter", filterGrad(g, g.x("dy"), g.dy("dx"), g.shape("filter"), dims, "filter"));
  if (g.needs("_add_to_output")) g.bind("_add_to_output", g.dy("dx"));
}
REGISTER_USER_OP_GRAD("conv_data_grad").SetBackwardOpConfGenFn(gradientRule(dataGradGradient));

/// filter_diff is bilinear in dy and x.
void filterGradGradient(GradientRule &g) {
  const int dims = g.attr<int32_t>("num_spatial_dims");
  const Shape &filter = g.shape("filter_diff");
  if (g.needs("dy")) g.bind("dy", convolved(g, g.x("x"), g.dy("filter_diff"), dims, "dy"));
  if (g.needs("x")) g.bind("x", dataGrad(g, g.x("dy"), g.dy("filter_diff"), filter, g.x("x"), dims, "x"));
}
REGISTER_USER_OP_GRAD("conv_filter_grad").SetBackwardOpConfGenFn(gradientRule(filterGradGradient));

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

/// A transposed convolution is the convolution's gradient by its input: the gradient by in is the convolution of dout,
/// the one by weight has in and dout change places.
void deconvGradient(GradientRule &g) {
  const Shape &weight = g.shape("weight");
  const int dims = static_cast<int>(weight.NumAxes()) - 2;
  const Ints extra = g.attr<Ints>("output_padding"), strides = g.attr<Ints>("strides");
  for (size_t i = 0; i < extra.size(); ++i)
    if (extra[i] >= (strides.empty() ? 1 : strides[i]))
      throw ContractError("an output_padding as large as the stride has no gradient rule; pad the result instead");
  if (g.needs("in")) g.bind("in", convolved(g, g.dy("out"), g.x("weight"), dims, "in"));
  if (g.needs("weight")) g.bind("weight", filterGrad(g, g.x("in"), g.dy("out"), weight, dims, "weight"));
}
REGISTER_USER_OP_GRAD("deconv1d").SetBackwardOpConfGenFn(gradientRule(deconvGradient));
REGISTER_USER_OP_GRAD("deconv2d").SetBackwardOpConfGenFn(gradientRule(deconvGradient));
REGISTER_USER_OP_GRAD("deconv3d").SetBackwardOpConfGenFn(gradientRule(deconvGradient));

} // namespace
} // namespace opc::ops
