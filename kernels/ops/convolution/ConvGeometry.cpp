// Checks and sizes of convolutions.
// SPDX-License-Identifier: Apache-2.0
#include "ConvGeometry.h"

#include <cstdint>

namespace opc::ops {

std::array<int64_t, 5> ConvGeometry::strides(int64_t c, const Spatial &s) const {
  const int64_t plane = s[0] * s[1] * s[2];
  if (channelsLast) return {plane * c, 1, s[1] * s[2] * c, s[2] * c, c};
  return {plane * c, plane, s[1] * s[2], s[2], 1};
}

ConvGeometry ConvGeometry::inRows() const {
  ConvGeometry g = *this;
  turnIntoRows(dims, {&g.in, &g.out, &g.kernel}, {&g.padding}, {&g.stride, &g.dilation});
  return g;
}

Maybe<Shape> filterShape(const TensorDesc &in, const TensorDesc &out, const UserOpConfWrapper &conf, int dims) {
  const bool last = JUST(isChannelsLast(conf));
  for (const auto &[name, desc] : {std::pair{"x", &in}, std::pair{"dy", &out}})
    if (desc->shape().NumAxes() != dims + 2)
      return Error::ShapeMismatch() << name << " must have rank " << dims + 2 << "; it is " << desc->toString();
  if (conf.attr<Ints>("kernel_size").empty())
    return Error::InvalidValueError().id("OPC0205") << "kernel_size is empty, expected " << dims << " elements";
  const Spatial kernel = JUST(spatialAttr(conf, "kernel_size", dims, 1, 1));
  const int64_t groups = conf.attr<int32_t>("groups"), channels = imageOf(in.shape(), last).channels;
  if (groups < 1 || channels % groups != 0)
    return Error::InvalidValueError().id("OPC0205")
           << "groups is " << groups << ", which must divide x's " << channels << " channels";
  return shapeOf({imageOf(out.shape(), last).channels, channels / groups, kernel}, dims, last);
}

namespace {

/// Layout, ranks and groups, and the lists of the attributes.
Maybe<ConvGeometry> commonGeometry(const TensorDesc &in, const TensorDesc &weight, const UserOpConfWrapper &conf,
                                   int dims) {
  ConvGeometry g;
  g.dims = dims;
  g.channelsLast = JUST(isChannelsLast(conf));
  if (in.shape().NumAxes() != dims + 2)
    return Error::ShapeMismatch() << "in must have rank " << dims + 2 << ", " << layoutText(g.channelsLast)
                                  << "; it is " << in.toString();
  if (weight.shape().NumAxes() != dims + 2)
    return Error::ShapeMismatch() << "weight must have rank " << dims + 2 << "; it is " << weight.toString();
  // Empty tensors may have dimensions of any size; below this no product of two of them and an attribute overflows.
  for (const TensorDesc *desc : {&in, &weight})
    for (size_t axis = 1; axis < desc->shape().dim_vec().size(); ++axis)
      if (desc->shape().At(static_cast<int64_t>(axis)) > INT32_MAX)
        return Error::ShapeMismatch().id("OPC0206") << (desc == &in ? "in is " : "weight is ") << desc->toString()
                                                    << "; axis " << axis << " is over " << INT32_MAX;
  g.groups = conf.attr<int32_t>("groups");
  if (g.groups < 1)
    return Error::InvalidValueError().id("OPC0205") << "groups is " << g.groups << ", expected 1 or more";
  g.batch = in.shape().At(0);
  g.kernel = imageOf(weight.shape(), g.channelsLast).size;
  const Spatial kernel = JUST(spatialAttr(conf, "kernel_size", dims, 1, 0));
  g.stride = JUST(spatialAttr(conf, "strides", dims, 1, 1));
  g.dilation = JUST(spatialAttr(conf, "dilation_rate", dims, 1, 1));
  g.padding = JUST(spatialAttr(conf, "padding_before", dims, 0, 0));
  for (size_t i = firstSpatial(dims); i < 3; ++i) {
    if (kernel[i] != 0 && kernel[i] != g.kernel[i])
      return Error::ShapeMismatch() << "kernel_size is " << kernel[i] << " in spatial dimension "
                                    << i - firstSpatial(dims) << ", but weight, " << weight.toString() << ", has "
                                    << g.kernel[i];
    if (g.kernel[i] < 1) return Error::ShapeMismatch() << "weight, " << weight.toString() << ", has an empty kernel";
  }
  return g;
}

/// The attribute filters, 0 when the op has none (gradients) or it need not agree.
int64_t filtersOf(const UserOpConfWrapper &conf, Extent extent) {
  return extent == Extent::kWhole && conf.has_attr("filters") ? conf.attr<int32_t>("filters") : 0;
}

} // namespace

Maybe<ConvGeometry> convGeometry(const TensorDesc &in, const TensorDesc &weight, const UserOpConfWrapper &conf,
                                 int dims, Extent extent) {
  ConvGeometry g = JUST(commonGeometry(in, weight, conf, dims));
  const Image x = imageOf(in.shape(), g.channelsLast), w = imageOf(weight.shape(), g.channelsLast);
  g.channels = x.channels;
  g.filters = w.batch;
  g.in = x.size;
  const int64_t own = w.channels;
  if (extent == Extent::kPiece && own > 0 && g.channels > 0) g.groups = g.channels / own;
  if (g.channels % g.groups != 0 || g.filters % g.groups != 0)
    return Error::InvalidValueError().id("OPC0205")
           << "groups is " << g.groups << ", which must divide the input's " << g.channels
           << " channels and the weight's " << g.filters << " filters";
  if (own * g.groups != g.channels) {
    Error e = Error::ShapeMismatch() << "weight is for " << own << " channels" << (g.groups > 1 ? " a group" : "")
                                     << ", in has " << g.channels
                                     << (g.groups > 1 ? " in " + std::to_string(g.groups) + " groups" : "")
                                     << ": in is " << in.toString() << ", weight is " << weight.toString();
    std::string help = std::string("weight must be ") + (g.channelsLast ? "[filters, kernel..., channels / groups]"
                                                                        : "[filters, channels / groups, kernel...]");
    if (own > 0 && g.channels > 0 && g.channels % own == 0 && g.filters % (g.channels / own) == 0)
      help = "groups: " + std::to_string(g.channels / own) + " would fit";
    return std::move(e).help(help);
  }
  const int64_t filters = filtersOf(conf, extent);
  if (filters != 0 && filters != g.filters)
    return Error::ShapeMismatch() << "filters is " << filters << ", but weight, " << weight.toString() << ", has "
                                  << g.filters;
  for (size_t at = firstSpatial(dims); at < 3; ++at) {
    const int64_t reach = g.dilation[at] * (g.kernel[at] - 1) + 1, padded = g.in[at] + 2 * g.padding[at];
    if (reach > padded)
      return Error::ShapeMismatch().help("a padding_before of " + std::to_string((reach - g.in[at] + 1) / 2) +
                                         " would do")
             << "the kernel spans " << reach << " in spatial dimension " << at - firstSpatial(dims)
             << (g.dilation[at] > 1
                     ? " (" + std::to_string(g.kernel[at]) + ", dilated by " + std::to_string(g.dilation[at]) + ")"
                     : "")
             << ", more than the padded input's " << padded << " (" << g.in[at] << " + 2 * " << g.padding[at] << ")";
    g.out[at] = (padded - reach) / g.stride[at] + 1;
  }
  return g;
}

Maybe<ConvGeometry> transposedGeometry(const TensorDesc &in, const TensorDesc &weight, const UserOpConfWrapper &conf,
                                       int dims, Extent extent) {
  ConvGeometry g = JUST(commonGeometry(in, weight, conf, dims));
  const Image x = imageOf(in.shape(), g.channelsLast), w = imageOf(weight.shape(), g.channelsLast);
  g.filters = x.channels;
  g.out = x.size;
  if (w.batch != g.filters)
    return Error::ShapeMismatch() << "weight is for " << w.batch << " channels, in has " << g.filters << ": in is "
                                  << in.toString() << ", weight is " << weight.toString();
  if (g.filters % g.groups != 0)
    return Error::InvalidValueError().id("OPC0205")
           << "groups is " << g.groups << ", which must divide the input's " << g.filters << " channels";
  g.channels = w.channels * g.groups;
  const int64_t filters = filtersOf(conf, extent);
  if (filters != 0 && filters != g.channels)
    return Error::ShapeMismatch() << "filters is " << filters << ", but weight, " << weight.toString() << ", makes "
                                  << g.channels;
  const Spatial extra = JUST(spatialAttr(conf, "output_padding", dims, 0, 0));
  for (size_t at = firstSpatial(dims); at < 3; ++at) {
    const size_t i = at - firstSpatial(dims);
    const int64_t more = extra[at];
    if (more >= std::max(g.stride[at], g.dilation[at]))
      return Error::InvalidValueError().id("OPC0205")
             << "output_padding is " << more << " in spatial dimension " << i << ", expected less than the stride "
             << g.stride[at] << " or the dilation " << g.dilation[at];
    g.in[at] = (g.out[at] - 1) * g.stride[at] - 2 * g.padding[at] + g.dilation[at] * (g.kernel[at] - 1) + 1 + more;
    if (g.out[at] < 1 || g.in[at] < 1)
      return Error::ShapeMismatch() << "the result would have the size " << g.in[at] << " in spatial dimension " << i
                                    << "; in is " << in.toString() << ", weight is " << weight.toString();
  }
  return g;
}

} // namespace opc::ops
