// The sizes of a pooling, checked: what its shape rule and its kernels need to know.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/Images.h"

namespace opc::ops {

enum class Pooling { kMax, kAvg, kAdaptive };

/// A pooling over up to three spatial dimensions; the unused leading ones have size 1.
struct PoolGeometry {
  int dims = 2;
  bool channelsLast = false;
  int64_t batch = 0, channels = 0;
  Spatial in{1, 1, 1}, out{1, 1, 1}, kernel{1, 1, 1}, stride{1, 1, 1}, dilation{1, 1, 1};
  Spatial before{0, 0, 0}, after{0, 0, 0}; // padding
  int64_t inPlane() const { return in[0] * in[1] * in[2]; }
  int64_t outPlane() const { return out[0] * out[1] * out[2]; }
  /// For loops: the same pooling of the same memory, in rows as long as they can be (turnIntoRows); those of
  /// channels_last are over channels and gain nothing. The shapes of its tensors are not the op's.
  PoolGeometry inRows() const;
  Shape outShape() const { return shapeOf({batch, channels, out}, dims, channelsLast); }
};

/// Reads and checks x's type and the attributes. Of adaptive poolings: batch, channels, in and out.
Maybe<PoolGeometry> poolGeometry(const TensorDesc &x, const UserOpConfWrapper &conf, int dims, Pooling kind);
/// That of an op with the input x, inferred before.
PoolGeometry poolGeometry(const KernelContext *ctx, Pooling kind);

} // namespace opc::ops
