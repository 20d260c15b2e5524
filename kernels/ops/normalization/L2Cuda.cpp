// l2_normalize and its gradient on GPUs.
// SPDX-License-Identifier: Apache-2.0
#include "CudaLaunch.h"
#include "normalization/L2Arguments.h"
#include "normalization/NormShape.h"

namespace opc::ops::norm {
namespace {

using cuda::CudaLaunch;

template <bool kGrad> class L2Cuda final : public BindingKernel {
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
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
    const auto kernel =
        CudaLaunch::of(ctx->device_ctx())
            .function(ctx->op_type_name() + "_" + dataTypeName(ctx->In(kGrad ? "dy" : "x").data_type()));
    const int64_t blocks = (a.vectors + a.width - 1) / a.width;
    const cuda::Dim3 grid{static_cast<uint32_t>(std::clamp<int64_t>(blocks, 1, 65535)), 1, 1};
    return bindTask([=](DeviceCtx *dev) {
      if (a.vectors > 0) CudaLaunch::of(dev).run(kernel, grid, {cuda::kBlock, 1, 1}, 0, a);
    });
  }
};

template <class> using Forward = L2Cuda<false>;
template <class> using Backward = L2Cuda<true>;
const KernelOptions kOnGpu = KernelOptions().Device(DeviceType::kGPU);

REGISTER_KERNELS("l2_normalize").Kernel<Forward, types::Floating>("x", kOnGpu);
REGISTER_KERNELS("l2_normalize_grad").Kernel<Backward, types::Floating>("dy", kOnGpu);

} // namespace
} // namespace opc::ops::norm
