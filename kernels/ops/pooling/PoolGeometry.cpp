// Checks and sizes of poolings.
// SPDX-License-Identifier: Apache-2.0
#include "PoolGeometry.h"
#include "convolution/ConvGeometry.h"
#include "support/SbpRules.h"

namespace opc::ops {

using user_op::TensorDesc;
using user_op::UserOpConfWrapper;

namespace {

Maybe<PoolGeometry> outerGeometry(const TensorDesc &x, const UserOpConfWrapper &conf, int dims) {
  PoolGeometry g;
  g.dims = dims;
  g.channelsLast = JUST(isChannelsLast(conf));
  if (x.shape().NumAxes() != dims + 2)
    return Error::ShapeMismatch() << "x must have rank " << dims + 2 << ", "
                                  << (g.channelsLast ? "[batch, spatial..., channels]"
                                                     : "[batch, channels, spatial...]")
                                  << "; it is " << x.toString();
  g.batch = x.shape().At(0);
  g.channels = x.shape().At(g.channelsLast ? dims + 1 : 1);
  for (int i = 0; i < dims; ++i) g.in[static_cast<size_t>(3 - dims + i)] = x.shape().At(i + (g.channelsLast ? 1 : 2));
  return g;
}

} // namespace

Maybe<PoolGeometry> poolGeometry(const TensorDesc &x, const UserOpConfWrapper &conf, int dims, bool dilated) {
  PoolGeometry g = JUST(outerGeometry(x, conf, dims));
  if (conf.attr<std::vector<int32_t>>("kernel_size").empty())
    return Error::InvalidValueError().id("OPC0205")
           << "kernel_size is empty, expected " << dims << " element" << (dims > 1 ? "s" : "");
  const auto kernel = JUST(spatialAttr(conf, "kernel_size", dims, 1, 1));
  const bool ownStride = !conf.attr<std::vector<int32_t>>("stride").empty();
  const auto stride = ownStride ? JUST(spatialAttr(conf, "stride", dims, 1, 1)) : kernel;
  const auto before = JUST(spatialAttr(conf, "padding", dims, 0, 0));
  const bool ownAfter = !conf.attr<std::vector<int32_t>>("padding_after").empty();
  const auto after = ownAfter ? JUST(spatialAttr(conf, "padding_after", dims, 0, 0)) : before;
  const std::vector<int64_t> ones(static_cast<size_t>(dims), 1);
  const auto dilation = dilated ? JUST(spatialAttr(conf, "dilation", dims, 1, 1)) : ones;
  const bool ceil = conf.attr<bool>("ceil_mode");
  for (int i = 0; i < dims; ++i) {
    const size_t s = static_cast<size_t>(i), at = static_cast<size_t>(3 - dims + i);
    g.kernel[at] = kernel[s];
    g.stride[at] = stride[s];
    g.dilation[at] = dilation[s];
    g.before[at] = before[s];
    g.after[at] = after[s];
    for (int64_t p : {before[s], after[s]})
      if (2 * p > kernel[s])
        return Error::InvalidValueError().id("OPC0205") << "the padding of " << p << " in spatial dimension " << i
                                                        << " is more than half of the kernel_size " << kernel[s];
    const int64_t reach = dilation[s] * (kernel[s] - 1) + 1, padded = g.in[at] + before[s] + after[s];
    if (reach > padded)
      return Error::ShapeMismatch() << "the kernel spans " << reach << " in spatial dimension " << i
                                    << ", more than the padded input's " << padded << "; x is " << x.toString();
    g.out[at] = (padded - reach + (ceil ? stride[s] - 1 : 0)) / stride[s] + 1;
    // A window that begins beyond the input and its left padding holds nothing.
    if (ceil && (g.out[at] - 1) * stride[s] >= g.in[at] + before[s]) --g.out[at];
  }
  return g;
}

Maybe<PoolGeometry> adaptiveGeometry(const TensorDesc &x, const UserOpConfWrapper &conf, int dims) {
  PoolGeometry g = JUST(outerGeometry(x, conf, dims));
  const auto &size = conf.attr<std::vector<int64_t>>("output_size");
  if (size.size() != static_cast<size_t>(dims))
    return Error::InvalidValueError().id("OPC0205")
           << "output_size has " << size.size() << " elements, expected " << dims;
  for (int i = 0; i < dims; ++i) {
    const size_t at = static_cast<size_t>(3 - dims + i);
    g.out[at] = size[static_cast<size_t>(i)];
    if (g.out[at] < 1)
      return Error::InvalidValueError().id("OPC0205") << "output_size holds " << g.out[at] << ", expected 1 or more";
    if (g.in[at] < 1)
      return Error::ShapeMismatch() << "x is " << x.toString() << ": there is nothing to average in spatial dimension "
                                    << i;
  }
  return g;
}

Shape poolShape(const PoolGeometry &g) {
  DimVector d{g.batch};
  if (!g.channelsLast) d.push_back(g.channels);
  for (size_t i = static_cast<size_t>(3 - g.dims); i < 3; ++i) d.push_back(g.out[i]);
  if (g.channelsLast) d.push_back(g.channels);
  return Shape(d);
}

Maybe<void> poolSbp(user_op::SbpContext *ctx) {
  const int64_t rank = ctx->LogicalTensorDesc4InputArgNameAndIndex("x", 0).shape().NumAxes();
  const bool last = JUST(isChannelsLast(ctx->user_op_conf()));
  for (int64_t axis : {int64_t{0}, last ? rank - 1 : int64_t{1}})
    ctx->NewBuilder().Split(ctx->inputs(), axis).Split(ctx->outputs(), axis).Build();
  // Gradients are linear in dy, means in x; where the largest element is depends on all of x.
  if (ctx->has_input("dy", 0))
    addLinearSignature(ctx, {"dy"});
  else if (!ctx->user_op_conf().has_attr("return_indices"))
    addLinearSignature(ctx, {"x"});
  return Maybe<void>::Ok();
}

} // namespace opc::ops
