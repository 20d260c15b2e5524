// The sizes of a convolution, checked: what its shape rule, its sharding rule and its kernels need to know.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Op.h"

#include <array>

namespace opc::ops {

/// A convolution over up to three spatial dimensions; the unused leading ones have size 1.
struct ConvGeometry {
  int dims = 2; // spatial dimensions of the op
  bool channelsLast = false;
  int64_t batch = 0, channels = 0, filters = 0, groups = 1;
  std::array<int64_t, 3> in{1, 1, 1}, out{1, 1, 1}, kernel{1, 1, 1}, stride{1, 1, 1}, dilation{1, 1, 1},
      padding{0, 0, 0};
  /// Elements between neighbours of batch, channel and the three spatial dimensions in a tensor of this layout.
  std::array<int64_t, 5> strides(int64_t tensorChannels, const std::array<int64_t, 3> &spatial) const;
};

/// Reads and checks the attributes and the shapes. The weight is [filters, channels / groups, kernel...] for
/// channels_first, [filters, kernel..., channels / groups] for channels_last. For kernels, `piece`: the shapes may be a
/// device's piece of what the attributes say; groups then follows from them, and filters is not compared.
Maybe<ConvGeometry> convGeometry(const user_op::TensorDesc &in, const user_op::TensorDesc &weight,
                                 const user_op::UserOpConfWrapper &conf, int dims, bool piece = false);

/// The same for a transposed convolution, as the convolution that it transposes: `in` is that one's out, and its `in`
/// and `channels` are the result's. The weight is [in's channels, filters / groups, kernel...] for channels_first,
/// [in's channels, kernel..., filters / groups] for channels_last.
Maybe<ConvGeometry> transposedGeometry(const user_op::TensorDesc &in, const user_op::TensorDesc &weight,
                                       const user_op::UserOpConfWrapper &conf, int dims, bool piece = false);

/// The weight of a convolution with this input and output, from conv_filter_grad's kernel_size and groups.
Maybe<Shape> filterShape(const user_op::TensorDesc &in, const user_op::TensorDesc &out,
                         const user_op::UserOpConfWrapper &conf, int dims);

/// The shape [batch, channels, spatial...] in the geometry's layout.
Shape convShape(const ConvGeometry &g, int64_t channels, const std::array<int64_t, 3> &spatial);

/// A list attribute of `dims` numbers of at least `least`, the default when it is empty.
Maybe<std::vector<int64_t>> spatialAttr(const user_op::UserOpConfWrapper &conf, const std::string &name, int dims,
                                        int64_t least, int64_t byDefault);
/// Whether the layout attribute says channels_last; an error when it says something unknown.
Maybe<bool> isChannelsLast(const user_op::UserOpConfWrapper &conf);

} // namespace opc::ops
