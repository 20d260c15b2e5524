// Images: tensors [batch, channels, spatial...] or [batch, spatial..., channels], as convolutions and poolings take
// them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/Operator.h"
#include "support/SbpRules.h"

#include <array>
#include <initializer_list>

namespace opc::ops {

using Ints = std::vector<int32_t>;

/// A number for each of up to three spatial dimensions; `dims` are used, the leading ones are not.
using Spatial = std::array<int64_t, 3>;
inline size_t firstSpatial(int dims) { return 3 - static_cast<size_t>(dims); }

/// The sizes of an image; unused spatial dimensions have size 1.
struct Image {
  int64_t batch = 0, channels = 0;
  Spatial size{1, 1, 1};
};
Image imageOf(const Shape &shape, bool channelsLast);
Shape shapeOf(const Image &image, int dims, bool channelsLast);

/// Whether the layout attribute says channels_last; an error when it says something unknown.
Maybe<bool> isChannelsLast(const UserOpConfWrapper &conf, const char *attr = "data_format");
inline int64_t channelAxis(bool channelsLast, int64_t rank) { return channelsLast ? rank - 1 : 1; }
/// That of an image that goes into an op.
Maybe<int64_t> channelAxis(const SbpContext &ctx, const char *arg);
/// The term of a tensor whose channels are where that image has them: its first axis, the channels, and spatial axes,
/// which stay whole.
Maybe<AxisFactors> imageFactors(const SbpContext &ctx, const char *arg, const std::string &first,
                                const std::string &channel);
/// "[batch, channels, spatial...]".
const char *layoutText(bool channelsLast);

/// Moves last spatial dimensions in which a kernel has nothing to walk over, of size 1 in all `sizes` and without
/// padding, before the others that are used: an image H x 1 becomes 1 x H, whose tensors lie the same in memory, in
/// either layout, and whose long rows are what loops and libraries are fast with. Not for shapes: those stay.
void turnIntoRows(int dims, std::initializer_list<Spatial *> sizes, std::initializer_list<Spatial *> paddings,
                  std::initializer_list<Spatial *> steps);

/// A list attribute of `dims` numbers of at least `least`, the default when it is empty. Unused dimensions have the
/// default, too.
Maybe<Spatial> spatialAttr(const UserOpConfWrapper &conf, const std::string &name, int dims, int64_t least,
                           int64_t byDefault);

} // namespace opc::ops
