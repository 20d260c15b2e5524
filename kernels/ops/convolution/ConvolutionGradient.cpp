// Gradient rules of the convolutions and of their transposes; conv_data_grad and conv_filter_grad and their rules.
// SPDX-License-Identifier: Apache-2.0
#include "ConvOp.h"
#include "support/GradientSteps.h"

namespace opc::ops {
namespace {

// --- rules -----------------------------------------------------------------------------------------------------------

/// A backward op with the attributes of a convolution, but for kernel_size.
GradientOp &windowed(GradientOp &op) {
  return op.same({"padding_before", "data_format", "strides", "dilation_rate", "groups"});
}
/// One that has the kernel of `weight`, too.
GradientOp gradientOf(GradientRule &g, const char *type, const Shape &weight, const char *suffix) {
  const bool last = g.attr<std::string>("data_format") == "channels_last";
  GradientOp op = g.add(type, suffix);
  op.attr("num_spatial_dims", static_cast<int32_t>(weight.NumAxes() - 2))
      .attr("kernel_size", Ints(weight.begin() + (last ? 1 : 2), weight.end() - (last ? 1 : 0)));
  windowed(op);
  return op;
}

std::string dataGrad(GradientRule &g, const std::string &dy, const std::string &filter, const Shape &weight,
                     const std::string &like, const char *suffix) {
  return gradientOf(g, "conv_data_grad", weight, suffix).in("dy", dy).in("filter", filter).in("x_like", like).out("dx");
}
std::string filterGrad(GradientRule &g, const std::string &dy, const std::string &x, const Shape &weight,
                       const char *suffix) {
  return gradientOf(g, "conv_filter_grad", weight, suffix).in("dy", dy).in("x", x).out("filter_diff");
}
std::string convolved(GradientRule &g, const std::string &in, const std::string &weight, int64_t rank,
                      const char *suffix) {
  const char *const types[] = {"conv1d", "conv2d", "conv3d"};
  GradientOp op = g.add(types[rank - 3], suffix);
  return windowed(op).in("in", in).in("weight", weight).out();
}

void convGradient(GradientRule &g) {
  const Shape &weight = g.shape("weight");
  if (g.needs("in")) g.bind("in", dataGrad(g, g.dy("out"), g.x("weight"), weight, g.x("in"), "in"));
  if (g.needs("weight")) g.bind("weight", filterGrad(g, g.dy("out"), g.x("in"), weight, "weight"));
  if (g.needs("bias"))
    g.bind("bias", g.add("conv_bias_grad", "bias")
                       .in("dy", g.dy("out"))
                       .attr("num_spatial_dims", static_cast<int32_t>(weight.NumAxes() - 2))
                       .same({"data_format"})
                       .out("bias_diff"));
  if (g.needs("_add_to_output")) g.bind("_add_to_output", g.dy("out"));
}
REGISTER_USER_OP_GRAD("conv1d").SetBackwardOpConfGenFn(gradientRule(convGradient));
REGISTER_USER_OP_GRAD("conv2d").SetBackwardOpConfGenFn(gradientRule(convGradient));
REGISTER_USER_OP_GRAD("conv3d").SetBackwardOpConfGenFn(gradientRule(convGradient));

/// A transposed convolution is the convolution's gradient by its input: the gradient by in is the convolution of dout,
/// the one by weight has in and dout change places.
void deconvGradient(GradientRule &g) {
  const Shape &weight = g.shape("weight");
  const Ints extra = g.attr<Ints>("output_padding"), strides = g.attr<Ints>("strides");
  for (size_t i = 0; i < extra.size(); ++i)
    if (extra[i] >= (strides.empty() ? 1 : strides[i]))
      throw ContractError("an output_padding as large as the stride has no gradient rule; pad the result instead");
  if (g.needs("in")) g.bind("in", convolved(g, g.dy("out"), g.x("weight"), weight.NumAxes(), "in"));
  if (g.needs("weight")) g.bind("weight", filterGrad(g, g.x("in"), g.dy("out"), weight, "weight"));
}
REGISTER_USER_OP_GRAD("deconv1d").SetBackwardOpConfGenFn(gradientRule(deconvGradient));
REGISTER_USER_OP_GRAD("deconv2d").SetBackwardOpConfGenFn(gradientRule(deconvGradient));
REGISTER_USER_OP_GRAD("deconv3d").SetBackwardOpConfGenFn(gradientRule(deconvGradient));

// --- what both gradients share ---------------------------------------------------------------------------------------

/// The geometry of the convolution of `x` with `weight`, and that it gives dy.
Maybe<ConvGeometry> checkedGeometry(InferContext *ctx, const TensorDesc &x, const TensorDesc &weight, const char *of) {
  const ConvGeometry g = JUST(convGeometry(x, weight, ctx->user_op_conf(), JUST(numSpatialDims(ctx))));
  const TensorDesc dy = ctx->In("dy");
  if (dy.shape() == g.outShape()) return g;
  return Error::ShapeMismatch() << "dy is " << dy.toString() << ", but the convolution of " << of << " gives "
                                << g.outShape().ToString();
}
ConvGeometry geometryOf(KernelBindContext *ctx, const char *x, const char *weight) {
  return valueOf(convGeometry(ctx->Desc(x), ctx->Desc(weight), ctx->user_op_conf(),
                              ctx->Attr<int32_t>("num_spatial_dims"), Extent::kPiece));
}

void gradDefinition(OpRegistry &op) {
  op.GradientOf("conv1d", "conv2d", "conv3d")
      .RequiredAttr<int32_t>("num_spatial_dims")
      .With(convArgs)
      .Tolerance(kFloat, 1e-4, 1e-5);
}

/// The four samples of either op with their attributes.
std::vector<Case> withWindows(Case plain, Case stridedGroups, Case last, Case volume) {
  plain.Attr("num_spatial_dims", int32_t{2}).Attr("kernel_size", Ints{3, 3}).Attr("padding_before", Ints{1, 1});
  stridedGroups.Attr("num_spatial_dims", int32_t{2})
      .Attr("kernel_size", Ints{2, 2})
      .Attr("strides", Ints{2, 2})
      .Attr("dilation_rate", Ints{2, 1})
      .Attr("groups", int32_t{2});
  last.Attr("num_spatial_dims", int32_t{1})
      .Attr("kernel_size", Ints{3})
      .Attr("strides", Ints{2})
      .Attr("padding_before", Ints{1})
      .Attr("data_format", std::string("channels_last"));
  volume.Attr("num_spatial_dims", int32_t{3}).Attr("kernel_size", Ints{2, 2, 2});
  return {plain, stridedGroups, last, volume};
}

// --- conv_data_grad --------------------------------------------------------------------------------------------------

Maybe<void> inferDataGrad(InferContext *ctx) {
  JUST(checkTypes(ctx, {"dy", "filter"}));
  const TensorDesc like = ctx->In("x_like");
  JUST(checkedGeometry(ctx, like, ctx->In("filter"), "x_like with filter"));
  const TensorDesc dx(like.shape(), ctx->In("dy").data_type());
  JUST(expectIn(ctx, "_add_to_output", dx));
  return setOut(ctx, "dx", dx);
}

Maybe<ShardingRule> dataGradSharding(const SbpContext &ctx) {
  const ChannelFactors f = channelFactors(ctx);
  const AxisFactors dy = JUST(imageFactors(ctx, "dy", "n", f.filters));
  const AxisFactors filter = JUST(imageFactors(ctx, "dy", f.filters, f.ofFilter));
  const AxisFactors dx = JUST(imageFactors(ctx, "dy", "n", f.channels));
  const AxisFactors sums = f.sums.empty() ? AxisFactors() : AxisFactors{f.filters};
  return withSums(sums, shardingRule({dy, filter, unread(dx), added(dx)}, {dx}, Linear({0}), Linear({1})));
}

template <class T> class ConvDataGradKernel final : public StagedKernel<T> {
  std::unique_ptr<BoundKernel> BindStaged(KernelBindContext *ctx, StagedTensors<T> &staged) const override {
    const ConvGeometry g = geometryOf(ctx, "x_like", "filter");
    const bool mayFilter = g.dims == 2 && ctx->Attr<bool>("winograd");
    return bindConvolution(ctx, staged, g, ConvDirection::kData, "dy", "filter", "dx", mayFilter);
  }
};

REGISTER_USER_OP("conv_data_grad")
    .With(TensorArgs{{"dy", "filter", "x_like"}, {"dx"}})
    .OptionalInput("_add_to_output")
    .With(gradDefinition)
    .With(filteringArg)
    .SetTensorDescInferFn(inferDataGrad)
    .Sharding(dataGradSharding)
    .SetComputeComplexityFn(convOperations("dy", "filter"))
    .Doc("The gradient of a convolution over num_spatial_dims dimensions by its input: dx, of the shape of x_like "
         "(whose values are not read), sums dy[n, o, p] * filter[o, c, k] over the o, p and k that used it; plus "
         "_add_to_output when it is given. The attributes are those of the convolution." +
         std::string(kFilteringDoc))
    .Cases(withWindows(
        Case("plain").In("dy", {2, 4, 5, 4}).In("filter", {4, 3, 3, 3}).In("x_like", {2, 3, 5, 4}),
        Case("strided_groups").In("dy", {1, 6, 3, 3}).In("filter", {6, 2, 2, 2}).In("x_like", {1, 4, 7, 6}),
        Case("last")
            .In("dy", {2, 4, 5})
            .In("filter", {5, 3, 2})
            .In("x_like", {2, 8, 2})
            .In("_add_to_output", {2, 8, 2}),
        Case("volume").In("dy", {1, 3, 2, 3, 2}).In("filter", {3, 2, 2, 2, 2}).In("x_like", {1, 2, 3, 4, 3})))
    .Kernel<ConvDataGradKernel, types::Floating>("dy");

/// dx is bilinear in dy and filter.
void dataGradGradient(GradientRule &g) {
  const Shape &filter = g.shape("filter");
  if (g.needs("dy")) g.bind("dy", convolved(g, g.dy("dx"), g.x("filter"), filter.NumAxes(), "dy"));
  if (g.needs("filter")) g.bind("filter", filterGrad(g, g.x("dy"), g.dy("dx"), filter, "filter"));
  if (g.needs("_add_to_output")) g.bind("_add_to_output", g.dy("dx"));
}
REGISTER_USER_OP_GRAD("conv_data_grad").SetBackwardOpConfGenFn(gradientRule(dataGradGradient));

// --- conv_filter_grad ------------------------------------------------------------------------------------------------

Maybe<void> inferFilterGrad(InferContext *ctx) {
  JUST(checkTypes(ctx, {"dy", "x"}));
  const TensorDesc dy = ctx->In("dy"), x = ctx->In("x");
  const int dims = JUST(numSpatialDims(ctx));
  const TensorDesc filter(JUST(filterShape(x, dy, ctx->user_op_conf(), dims)), dy.data_type());
  JUST(checkedGeometry(ctx, x, filter, "x with such a filter"));
  return setOut(ctx, "filter_diff", filter);
}

Maybe<ShardingRule> filterGradSharding(const SbpContext &ctx) {
  const ChannelFactors f = channelFactors(ctx);
  const AxisFactors dy = JUST(imageFactors(ctx, "dy", "n", f.filters));
  const AxisFactors x = JUST(imageFactors(ctx, "dy", "n", f.channels));
  const AxisFactors diff = JUST(imageFactors(ctx, "dy", f.filters, f.ofFilter));
  return shardingRule({dy, x}, {diff}, Sum("n"), Linear({0}), Linear({1}));
}

template <class T> class ConvFilterGradKernel final : public StagedKernel<T> {
  std::unique_ptr<BoundKernel> BindStaged(KernelBindContext *ctx, StagedTensors<T> &staged) const override {
    const ConvGeometry g = geometryOf(ctx, "x", "filter_diff").inRows();
    const T *dy = staged.in("dy"), *x = staged.in("x");
    T *diff = staged.out("filter_diff");
    if constexpr (std::is_same_v<T, float>)
      if (g.batch > 0)
        return bindTask([library = DnnlFilterGradient(g, x, dy, diff)](DeviceCtx *d) mutable { library.run(d); });
    return bindTask([=, direct = DirectConvolution<T>(g)](DeviceCtx *d) { direct.filterGradient(d, x, dy, diff); });
  }
};

REGISTER_USER_OP("conv_filter_grad")
    .With(TensorArgs{{"dy", "x"}, {"filter_diff"}})
    .With(gradDefinition)
    .With(rules(inferFilterGrad, filterGradSharding))
    .SetComputeComplexityFn(convOperations("dy", "filter_diff"))
    .Doc("The gradient of a convolution over num_spatial_dims dimensions by its weight: filter_diff[o, c, k] is the "
         "sum over samples n and positions p of dy[n, o, p] * x[n, c, p * strides + k * dilation_rate - "
         "padding_before]. kernel_size is needed; the attributes are those of the convolution.")
    .Cases(withWindows(Case("plain").In("dy", {2, 4, 5, 4}).In("x", {2, 3, 5, 4}),
                       Case("strided_groups").In("dy", {5, 6, 3, 3}).In("x", {5, 4, 7, 6}),
                       Case("last").In("dy", {2, 4, 5}).In("x", {2, 8, 2}),
                       Case("volume").In("dy", {3, 3, 2, 3, 2}).In("x", {3, 2, 3, 4, 3})))
    .Kernel<ConvFilterGradKernel, types::Floating>("dy");

/// filter_diff is bilinear in dy and x.
void filterGradGradient(GradientRule &g) {
  const Shape &filter = g.shape("filter_diff");
  if (g.needs("dy")) g.bind("dy", convolved(g, g.x("x"), g.dy("filter_diff"), filter.NumAxes(), "dy"));
  if (g.needs("x")) g.bind("x", dataGrad(g, g.x("dy"), g.dy("filter_diff"), filter, g.x("x"), "x"));
}
REGISTER_USER_OP_GRAD("conv_filter_grad").SetBackwardOpConfGenFn(gradientRule(filterGradGradient));

} // namespace
} // namespace opc::ops
