// Upsamplings and their gradients on GPUs.
// SPDX-License-Identifier: Apache-2.0
#include "CudaLaunch.h"
#include "shape/UpsampleArguments.h"
#include "support/Operator.h"

namespace opc::ops {
namespace {

using cuda::CudaLaunch;

/// As the CPU's (shape/Upsample.h): a given scale counts as it is.
UpsampleAxis axisOf(int64_t in, int64_t out, bool align, double scale) {
  const double step = align       ? (out > 1 ? static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0.0)
                      : scale > 0 ? 1 / scale
                                  : static_cast<double>(in) / static_cast<double>(out);
  return {in, out, step};
}

/// kAligned: of an op that can align corners.
template <bool kAligned> class UpsampleCuda final : public BindingKernel {
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    const bool backward = ctx->Has("dy");
    const Shape &in = ctx->Desc("x").shape(), &out = ctx->Desc(backward ? "dy" : "y").shape();
    const bool sized = !ctx->Attr<std::vector<int64_t>>("output_size").empty();
    UpsampleArguments a{};
    if constexpr (kAligned) a.align = ctx->Attr<bool>("align_corners");
    a.from = ctx->In(backward ? "dy" : "x").raw_dptr();
    a.to = ctx->Out(backward ? "dx" : "y").mut_raw_dptr();
    a.planes = in.Count(0, 2);
    a.rows = axisOf(in.At(2), out.At(2), a.align, sized ? 0 : ctx->Attr<double>("height_scale"));
    a.columns = axisOf(in.At(3), out.At(3), a.align, sized ? 0 : ctx->Attr<double>("width_scale"));
    const int64_t count = (backward ? in : out).elem_cnt();
    const auto kernel = CudaLaunch::of(ctx->device_ctx())
                            .function(ctx->op_type_name() + "_" + dataTypeName(ctx->Desc("x").data_type()));
    return bindTask([=](DeviceCtx *dev) {
      if (count > 0) CudaLaunch::of(dev).run(kernel, cuda::blocksFor(count), {cuda::kBlock, 1, 1}, 0, a);
    });
  }
};

template <class> using Nearest = UpsampleCuda<false>;
template <class> using Smooth = UpsampleCuda<true>;
const KernelOptions kOnGpu = KernelOptions().Device(DeviceType::kGPU);

REGISTER_KERNELS("upsample_nearest_2d").Kernel<Nearest, types::Floating>("x", kOnGpu);
REGISTER_KERNELS("upsample_bilinear_2d").Kernel<Smooth, types::Floating>("x", kOnGpu);
REGISTER_KERNELS("upsample_bicubic_2d").Kernel<Smooth, types::Floating>("x", kOnGpu);
REGISTER_KERNELS("upsample_nearest_2d_grad").Kernel<Nearest, types::Floating>("dy", kOnGpu);
REGISTER_KERNELS("upsample_bilinear_2d_grad").Kernel<Smooth, types::Floating>("dy", kOnGpu);
REGISTER_KERNELS("upsample_bicubic_2d_grad").Kernel<Smooth, types::Floating>("dy", kOnGpu);

} // namespace
} // namespace opc::ops
