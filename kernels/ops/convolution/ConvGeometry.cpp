// Checks and sizes of convolutions.
// SPDX-License-Identifier: Apache-2.0
#include "ConvGeometry.h"

#include <algorithm>
#include <cstdint>

namespace opc::ops {

using user_op::TensorDesc;
using user_op::UserOpConfWrapper;

Maybe<std::vector<int64_t>> spatialAttr(const UserOpConfWrapper &conf, const std::string &name, int dims, int64_t least,
                                        int64_t byDefault) {
  const auto &given = conf.attr<std::vector<int32_t>>(name);
  if (given.empty()) return std::vector<int64_t>(static_cast<size_t>(dims), byDefault);
  if (given.size() != static_cast<size_t>(dims))
    return Error::InvalidValueError().id("OPC0205")
           << name << " has " << given.size() << " element" << (given.size() == 1 ? "" : "s") << ", expected " << dims
           << ", one a spatial dimension";
  for (int32_t v : given)
    if (v < least)
      return Error::InvalidValueError().id("OPC0205") << name << " holds " << v << ", expected " << least << " or more";
  return std::vector<int64_t>(given.begin(), given.end());
}

Maybe<bool> isChannelsLast(const UserOpConfWrapper &conf) {
  const std::string &format = conf.attr<std::string>("data_format");
  if (format == "channels_last") return true;
  if (format == "channels_first") return false;
  return Error::InvalidValueError().id("OPC0205")
         << "data_format is \"" << format << "\", expected \"channels_first\" or \"channels_last\"";
}

std::array<int64_t, 5> ConvGeometry::strides(int64_t c, const std::array<int64_t, 3> &s) const {
  const int64_t plane = s[0] * s[1] * s[2];
  if (channelsLast) return {plane * c, 1, s[1] * s[2] * c, s[2] * c, c};
  return {plane * c, plane, s[1] * s[2], s[2], 1};
}

Maybe<Shape> filterShape(const TensorDesc &in, const TensorDesc &out, const UserOpConfWrapper &conf, int dims) {
  const bool last = JUST(isChannelsLast(conf));
  for (const auto &[name, desc] : {std::pair{"x", &in}, std::pair{"dy", &out}})
    if (desc->shape().NumAxes() != dims + 2)
      return Error::ShapeMismatch() << name << " must have rank " << dims + 2 << "; it is " << desc->toString();
  if (conf.attr<std::vector<int32_t>>("kernel_size").empty())
    return Error::InvalidValueError().id("OPC0205") << "kernel_size is empty, expected " << dims << " elements";
  const auto kernel = JUST(spatialAttr(conf, "kernel_size", dims, 1, 1));
  const int64_t groups = conf.attr<int32_t>("groups"), channel = last ? dims + 1 : 1;
  const int64_t channels = in.shape().At(channel);
  if (groups < 1 || channels % groups != 0)
    return Error::InvalidValueError().id("OPC0205")
           << "groups is " << groups << ", which must divide x's " << channels << " channels";
  DimVector d{out.shape().At(channel)};
  if (!last) d.push_back(channels / groups);
  d.insert(d.end(), kernel.begin(), kernel.end());
  if (last) d.push_back(channels / groups);
  return Shape(d);
}

Shape convShape(const ConvGeometry &g, int64_t channels, const std::array<int64_t, 3> &spatial) {
  DimVector d{g.batch};
  if (!g.channelsLast) d.push_back(channels);
  for (int i = 3 - g.dims; i < 3; ++i) d.push_back(spatial[static_cast<size_t>(i)]);
  if (g.channelsLast) d.push_back(channels);
  return Shape(d);
}

namespace {

/// Layout, ranks and groups, and the lists of the attributes.
Maybe<ConvGeometry> commonGeometry(const TensorDesc &in, const TensorDesc &weight, const UserOpConfWrapper &conf,
                                   int dims) {
  ConvGeometry g;
  g.dims = dims;
  g.channelsLast = JUST(isChannelsLast(conf));
  const Shape &x = in.shape(), &w = weight.shape();
  const std::string layout = g.channelsLast ? "[batch, spatial..., channels]" : "[batch, channels, spatial...]";
  if (x.NumAxes() != dims + 2)
    return Error::ShapeMismatch() << "in must have rank " << dims + 2 << ", " << layout << "; it is " << in.toString();
  if (w.NumAxes() != dims + 2)
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
  g.batch = x.At(0);
  const auto kernel = JUST(spatialAttr(conf, "kernel_size", dims, 1, 0));
  const auto stride = JUST(spatialAttr(conf, "strides", dims, 1, 1));
  const auto dilation = JUST(spatialAttr(conf, "dilation_rate", dims, 1, 1));
  const auto padding = JUST(spatialAttr(conf, "padding_before", dims, 0, 0));
  for (int i = 0; i < dims; ++i) {
    const size_t s = static_cast<size_t>(i), at = static_cast<size_t>(3 - dims + i);
    g.kernel[at] = w.At(i + (g.channelsLast ? 1 : 2));
    g.stride[at] = stride[s];
    g.dilation[at] = dilation[s];
    g.padding[at] = padding[s];
    if (kernel[s] != 0 && kernel[s] != g.kernel[at])
      return Error::ShapeMismatch() << "kernel_size is " << kernel[s] << " in spatial dimension " << i
                                    << ", but weight, " << weight.toString() << ", has " << g.kernel[at];
    if (g.kernel[at] < 1) return Error::ShapeMismatch() << "weight, " << weight.toString() << ", has an empty kernel";
  }
  return g;
}

} // namespace

Maybe<ConvGeometry> convGeometry(const TensorDesc &in, const TensorDesc &weight, const UserOpConfWrapper &conf,
                                 int dims, bool piece) {
  ConvGeometry g = JUST(commonGeometry(in, weight, conf, dims));
  const Shape &x = in.shape(), &w = weight.shape();
  g.channels = x.At(g.channelsLast ? dims + 1 : 1);
  g.filters = w.At(0);
  const int64_t own = w.At(g.channelsLast ? dims + 1 : 1);
  if (piece && own > 0 && g.channels > 0) g.groups = g.channels / own;
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
  // The gradients of a convolution have no such attribute.
  const int64_t filters = !piece && conf.has_attr("filters") ? conf.attr<int32_t>("filters") : 0;
  if (filters != 0 && filters != g.filters)
    return Error::ShapeMismatch() << "filters is " << filters << ", but weight, " << weight.toString() << ", has "
                                  << g.filters;
  for (int i = 0; i < dims; ++i) {
    const size_t at = static_cast<size_t>(3 - dims + i);
    g.in[at] = x.At(i + (g.channelsLast ? 1 : 2));
    const int64_t reach = g.dilation[at] * (g.kernel[at] - 1) + 1, padded = g.in[at] + 2 * g.padding[at];
    if (reach > padded)
      return Error::ShapeMismatch().help("a padding_before of " + std::to_string((reach - g.in[at] + 1) / 2) +
                                         " would do")
             << "the kernel spans " << reach << " in spatial dimension " << i
             << (g.dilation[at] > 1
                     ? " (" + std::to_string(g.kernel[at]) + ", dilated by " + std::to_string(g.dilation[at]) + ")"
                     : "")
             << ", more than the padded input's " << padded << " (" << g.in[at] << " + 2 * " << g.padding[at] << ")";
    g.out[at] = (padded - reach) / g.stride[at] + 1;
  }
  return g;
}

Maybe<ConvGeometry> transposedGeometry(const TensorDesc &in, const TensorDesc &weight, const UserOpConfWrapper &conf,
                                       int dims, bool piece) {
  ConvGeometry g = JUST(commonGeometry(in, weight, conf, dims));
  const Shape &x = in.shape(), &w = weight.shape();
  g.filters = x.At(g.channelsLast ? dims + 1 : 1);
  if (w.At(0) != g.filters)
    return Error::ShapeMismatch() << "weight is for " << w.At(0) << " channels, in has " << g.filters << ": in is "
                                  << in.toString() << ", weight is " << weight.toString();
  if (g.filters % g.groups != 0)
    return Error::InvalidValueError().id("OPC0205")
           << "groups is " << g.groups << ", which must divide the input's " << g.filters << " channels";
  g.channels = w.At(g.channelsLast ? dims + 1 : 1) * g.groups;
  const int64_t filters = piece ? 0 : conf.attr<int32_t>("filters");
  if (filters != 0 && filters != g.channels)
    return Error::ShapeMismatch() << "filters is " << filters << ", but weight, " << weight.toString() << ", makes "
                                  << g.channels;
  const auto extra = JUST(spatialAttr(conf, "output_padding", dims, 0, 0));
  for (int i = 0; i < dims; ++i) {
    const size_t at = static_cast<size_t>(3 - dims + i);
    const int64_t more = extra[static_cast<size_t>(i)];
    if (more >= std::max(g.stride[at], g.dilation[at]))
      return Error::InvalidValueError().id("OPC0205")
             << "output_padding is " << more << " in spatial dimension " << i << ", expected less than the stride "
             << g.stride[at] << " or the dilation " << g.dilation[at];
    g.out[at] = x.At(i + (g.channelsLast ? 1 : 2));
    g.in[at] = (g.out[at] - 1) * g.stride[at] - 2 * g.padding[at] + g.dilation[at] * (g.kernel[at] - 1) + 1 + more;
    if (g.out[at] < 1 || g.in[at] < 1)
      return Error::ShapeMismatch() << "the result would have the size " << g.in[at] << " in spatial dimension " << i
                                    << "; in is " << in.toString() << ", weight is " << weight.toString();
  }
  return g;
}

} // namespace opc::ops
