// Wrong indices that device code finds, said as the CPU says them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "CudaLaunch.h"
#include "support/IndexCheck.h"

namespace opc::ops {

/// Where kernels of the op that is being bound report indices of `arg` outside [0, limit), the range of `into`.
inline cuda::IndexFault *watchIndices(user_op::KernelBindContext *ctx, const char *arg, const Shape &shape,
                                      int64_t limit, const char *into) {
  return cuda::CudaLaunch::of(ctx->device_ctx()).watch(*ctx, arg, [=](int64_t position, int64_t value) {
    return outsideText(arg, shape, position, value, limit, into);
  });
}

} // namespace opc::ops
