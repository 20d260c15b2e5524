// Checks and sizes of poolings.
// SPDX-License-Identifier: Apache-2.0
#include "PoolGeometry.h"

namespace opc::ops {
namespace {

/// A list attribute that stands for another one when it is empty.
Maybe<Spatial> spatialAttrOr(const UserOpConfWrapper &conf, const char *name, int dims, int64_t least,
                             const Spatial &other) {
  return conf.attr<Ints>(name).empty() ? other : JUST(spatialAttr(conf, name, dims, least, least));
}

Maybe<void> placeWindows(PoolGeometry &g, const TensorDesc &x, const UserOpConfWrapper &conf, bool dilated) {
  const int dims = g.dims;
  if (conf.attr<Ints>("kernel_size").empty())
    return Error::InvalidValueError().id("OPC0205")
           << "kernel_size is empty, expected " << dims << " element" << (dims > 1 ? "s" : "");
  g.kernel = JUST(spatialAttr(conf, "kernel_size", dims, 1, 1));
  g.stride = JUST(spatialAttrOr(conf, "stride", dims, 1, g.kernel));
  g.before = JUST(spatialAttr(conf, "padding", dims, 0, 0));
  g.after = JUST(spatialAttrOr(conf, "padding_after", dims, 0, g.before));
  if (dilated) g.dilation = JUST(spatialAttr(conf, "dilation", dims, 1, 1));
  const bool ceil = conf.attr<bool>("ceil_mode");
  for (size_t at = firstSpatial(dims); at < 3; ++at) {
    const size_t i = at - firstSpatial(dims);
    for (int64_t p : {g.before[at], g.after[at]})
      if (2 * p > g.kernel[at])
        return Error::InvalidValueError().id("OPC0205") << "the padding of " << p << " in spatial dimension " << i
                                                        << " is more than half of the kernel_size " << g.kernel[at];
    const int64_t reach = g.dilation[at] * (g.kernel[at] - 1) + 1, padded = g.in[at] + g.before[at] + g.after[at];
    const int64_t beyond = ceil ? g.stride[at] - 1 : 0; // what the last window may lack
    if (reach > padded + beyond)
      return Error::ShapeMismatch() << "the kernel spans " << reach << " in spatial dimension " << i
                                    << ", more than the padded input's " << padded << "; x is " << x.toString();
    g.out[at] = (padded - reach + beyond) / g.stride[at] + 1;
    // A window that begins beyond the input and its left padding holds nothing.
    if (ceil && (g.out[at] - 1) * g.stride[at] >= g.in[at] + g.before[at]) --g.out[at];
  }
  return Maybe<void>::Ok();
}

Maybe<void> placeAdaptive(PoolGeometry &g, const TensorDesc &x, const UserOpConfWrapper &conf) {
  const auto &size = conf.attr<std::vector<int64_t>>("output_size");
  if (size.size() != static_cast<size_t>(g.dims))
    return Error::InvalidValueError().id("OPC0205")
           << "output_size has " << size.size() << " elements, expected " << g.dims;
  for (size_t i = 0; i < size.size(); ++i) {
    const size_t at = firstSpatial(g.dims) + i;
    g.out[at] = size[i];
    if (g.out[at] < 1)
      return Error::InvalidValueError().id("OPC0205") << "output_size holds " << g.out[at] << ", expected 1 or more";
    if (g.in[at] < 1)
      return Error::ShapeMismatch() << "x is " << x.toString() << ": there is nothing to average in spatial dimension "
                                    << i;
  }
  return Maybe<void>::Ok();
}

} // namespace

Maybe<PoolGeometry> poolGeometry(const TensorDesc &x, const UserOpConfWrapper &conf, int dims, Pooling kind) {
  PoolGeometry g;
  g.dims = dims;
  g.channelsLast = JUST(isChannelsLast(conf));
  if (x.shape().NumAxes() != dims + 2)
    return Error::ShapeMismatch() << "x must have rank " << dims + 2 << ", " << layoutText(g.channelsLast) << "; it is "
                                  << x.toString();
  const Image image = imageOf(x.shape(), g.channelsLast);
  g.batch = image.batch;
  g.channels = image.channels;
  g.in = image.size;
  if (kind == Pooling::kAdaptive)
    JUST(placeAdaptive(g, x, conf));
  else
    JUST(placeWindows(g, x, conf, kind == Pooling::kMax));
  return g;
}

PoolGeometry PoolGeometry::inRows() const {
  PoolGeometry g = *this;
  if (!channelsLast) turnIntoRows(dims, {&g.in, &g.out, &g.kernel}, {&g.before, &g.after}, {&g.stride, &g.dilation});
  return g;
}

PoolGeometry poolGeometry(const KernelContext *ctx, Pooling kind) {
  const TensorDesc &x = ctx->Desc("x");
  return valueOf(poolGeometry(x, ctx->user_op_conf(), static_cast<int>(x.shape().NumAxes()) - 2, kind));
}

} // namespace opc::ops
