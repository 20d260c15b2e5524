// Sizes and attributes of images.
// SPDX-License-Identifier: Apache-2.0
#include "support/Images.h"

#include <algorithm>

namespace opc::ops {

Image imageOf(const Shape &shape, bool channelsLast) {
  const int64_t rank = shape.NumAxes(), first = channelsLast ? 1 : 2;
  Image image{shape.At(0), shape.At(channelAxis(channelsLast, rank))};
  for (int64_t i = 0; i < rank - 2; ++i) image.size[static_cast<size_t>(5 - rank + i)] = shape.At(first + i);
  return image;
}

Shape shapeOf(const Image &image, int dims, bool channelsLast) {
  DimVector d{image.batch};
  if (!channelsLast) d.push_back(image.channels);
  d.insert(d.end(), image.size.end() - dims, image.size.end());
  if (channelsLast) d.push_back(image.channels);
  return Shape(d);
}

Maybe<bool> isChannelsLast(const UserOpConfWrapper &conf, const char *attr) {
  const std::string &format = conf.attr<std::string>(attr);
  if (format == "channels_last") return true;
  if (format == "channels_first") return false;
  return Error::InvalidValueError().id("OPC0205")
         << attr << " is \"" << format << "\", expected \"channels_first\" or \"channels_last\"";
}

Maybe<int64_t> channelAxis(const SbpContext &ctx, const char *arg) {
  return channelAxis(JUST(isChannelsLast(ctx.user_op_conf())), ctx.In(arg).shape().NumAxes());
}

Maybe<AxisFactors> imageFactors(const SbpContext &ctx, const char *arg, const std::string &first,
                                const std::string &channel) {
  if (JUST(channelAxis(ctx, arg)) == 1) return AxisFactors{first, channel, ".."};
  return AxisFactors{first, "..", channel};
}

const char *layoutText(bool channelsLast) {
  return channelsLast ? "[batch, spatial..., channels]" : "[batch, channels, spatial...]";
}

void turnIntoRows(int dims, std::initializer_list<Spatial *> sizes, std::initializer_list<Spatial *> paddings,
                  std::initializer_list<Spatial *> steps) {
  const auto lastIs = [](std::initializer_list<Spatial *> lists, int64_t value) {
    return std::all_of(lists.begin(), lists.end(), [=](const Spatial *s) { return s->back() == value; });
  };
  for (int turn = 1; turn < dims && lastIs(sizes, 1) && lastIs(paddings, 0); ++turn)
    for (const auto &lists : {sizes, paddings, steps})
      for (Spatial *s : lists) std::rotate(s->end() - dims, s->end() - 1, s->end());
}

Maybe<Spatial> spatialAttr(const UserOpConfWrapper &conf, const std::string &name, int dims, int64_t least,
                           int64_t byDefault) {
  Spatial values{byDefault, byDefault, byDefault};
  const Ints &given = conf.attr<Ints>(name);
  if (given.empty()) return values;
  if (given.size() != static_cast<size_t>(dims))
    return Error::InvalidValueError().id("OPC0205")
           << name << " has " << given.size() << " element" << (given.size() == 1 ? "" : "s") << ", expected " << dims
           << ", one a spatial dimension";
  for (int32_t v : given)
    if (v < least)
      return Error::InvalidValueError().id("OPC0205") << name << " holds " << v << ", expected " << least << " or more";
  std::copy(given.begin(), given.end(), values.end() - dims);
  return values;
}

} // namespace opc::ops
