// l2_normalize and its gradient on GPUs.
// SPDX-License-Identifier: Apache-2.0
#include "normalization/L2Arguments.h"
#include "normalization/NormShape.h"
#include "support/CudaTask.h"
#include "support/FunctionKernel.h"

namespace opc::ops::norm {
namespace {

template <bool kGrad> std::unique_ptr<BoundKernel> bindL2(KernelBindContext *ctx) {
  const NormShape s = shapeAroundAxis(ctx, kGrad ? "dy" : "x");
  L2Arguments a{};
  if (kGrad) {
    a.dy = ctx->In("dy").raw_dptr();
    a.y = ctx->In("y").raw_dptr();
    a.sums = const_cast<void *>(ctx->In("square_x_sum").raw_dptr());
  } else {
    a.x = ctx->In("x").raw_dptr();
    a.sums = ctx->Out("square_x_sum").mut_raw_dptr();
  }
  a.out = ctx->Out(kGrad ? "dx" : "y").mut_raw_dptr();
  a.vectors = s.outer * s.inner;
  a.n = s.channels;
  a.inner = std::max<int64_t>(1, s.inner);
  a.epsilon = static_cast<double>(ctx->Attr<float>("epsilon"));
  a.width = s.inner > 1 ? 32 : 1;
  return bindGrid(ctx, kernelOf(ctx->op_type_name(), ctx->In(kGrad ? "dy" : "x").data_type()), a.vectors,
                  cuda::gridOf((a.vectors + a.width - 1) / a.width), a);
}

template <class> using Forward = FunctionKernel<bindL2<false>>;
template <class> using Backward = FunctionKernel<bindL2<true>>;
const KernelOptions kOnGpu = onGpu();

REGISTER_KERNELS("l2_normalize").Kernel<Forward, types::Floating>("x", kOnGpu);
REGISTER_KERNELS("l2_normalize_grad").Kernel<Backward, types::Floating>("dy", kOnGpu);

} // namespace
} // namespace opc::ops::norm
