// The sizes of a pooling, checked: what its shape rule and its kernels need to know.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Op.h"

#include <array>

namespace opc::ops {

/// A pooling over up to three spatial dimensions; the unused leading ones have size 1.
struct PoolGeometry {
  int dims = 2;
  bool channelsLast = false;
  int64_t batch = 0, channels = 0;
  std::array<int64_t, 3> in{1, 1, 1}, out{1, 1, 1}, kernel{1, 1, 1}, stride{1, 1, 1}, dilation{1, 1, 1};
  std::array<int64_t, 3> before{0, 0, 0}, after{0, 0, 0}; // padding
  int64_t inPlane() const { return in[0] * in[1] * in[2]; }
  int64_t outPlane() const { return out[0] * out[1] * out[2]; }
};

/// Reads and checks x's type and the attributes of max_pool_Nd (`dilated`) or avg_pool_Nd.
Maybe<PoolGeometry> poolGeometry(const user_op::TensorDesc &x, const user_op::UserOpConfWrapper &conf, int dims,
                                 bool dilated);
/// The same for adaptive_avg_poolNd: batch, channels, in and out.
Maybe<PoolGeometry> adaptiveGeometry(const user_op::TensorDesc &x, const user_op::UserOpConfWrapper &conf, int dims);
Shape poolShape(const PoolGeometry &g);

/// "dims" spatial dimensions cannot be cut, batch and channels can: Split signatures of all arguments alike.
Maybe<void> poolSbp(user_op::SbpContext *ctx);

} // namespace opc::ops
