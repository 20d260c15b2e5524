// The sizes of a convolution, checked: what its shape rule, its sharding rule and its kernels need to know.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/Images.h"

namespace opc::ops {

/// A convolution over up to three spatial dimensions; the unused leading ones have size 1.
struct ConvGeometry {
  int dims = 2; // spatial dimensions of the op
  bool channelsLast = false;
  int64_t batch = 0, channels = 0, filters = 0, groups = 1;
  Spatial in{1, 1, 1}, out{1, 1, 1}, kernel{1, 1, 1}, stride{1, 1, 1}, dilation{1, 1, 1}, padding{0, 0, 0};
  Shape inShape() const { return shapeOf({batch, channels, in}, dims, channelsLast); }
  Shape outShape() const { return shapeOf({batch, filters, out}, dims, channelsLast); }
  /// For kernels: the same convolution of the same memory, in rows as long as they can be (turnIntoRows). The shapes of
  /// its tensors are not the op's.
  ConvGeometry inRows() const;
  /// Elements between neighbours of batch, channel and the three spatial dimensions in a tensor of this layout.
  std::array<int64_t, 5> strides(int64_t tensorChannels, const Spatial &spatial) const;
};

/// What a device holds of a graph's tensors. For kernels: shapes may be a device's piece of what the attributes say;
/// groups then follows from them, and filters is not compared.
enum class Extent { kWhole, kPiece };

/// Reads and checks the attributes and the shapes. The weight is [filters, channels / groups, kernel...] for
/// channels_first, [filters, kernel..., channels / groups] for channels_last.
Maybe<ConvGeometry> convGeometry(const TensorDesc &in, const TensorDesc &weight, const UserOpConfWrapper &conf,
                                 int dims, Extent extent = Extent::kWhole);

/// The same for a transposed convolution, as the convolution that it transposes: `in` is that one's out, and its `in`
/// and `channels` are the result's. The weight is [in's channels, filters / groups, kernel...] for channels_first,
/// [in's channels, kernel..., filters / groups] for channels_last.
Maybe<ConvGeometry> transposedGeometry(const TensorDesc &in, const TensorDesc &weight, const UserOpConfWrapper &conf,
                                       int dims, Extent extent = Extent::kWhole);

/// The weight of a convolution with this input and output, from conv_filter_grad's kernel_size and groups.
Maybe<Shape> filterShape(const TensorDesc &in, const TensorDesc &out, const UserOpConfWrapper &conf, int dims);

} // namespace opc::ops
