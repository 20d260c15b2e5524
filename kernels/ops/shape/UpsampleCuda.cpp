// Upsamplings and their gradients on GPUs.
// SPDX-License-Identifier: Apache-2.0
#include "shape/UpsampleArguments.h"
#include "support/CudaTask.h"
#include "support/FunctionKernel.h"
#include "support/Operator.h"

namespace opc::ops {
namespace {

/// As the CPU's (shape/Upsample.h): a given scale counts as it is.
UpsampleAxis axisOf(int64_t in, int64_t out, bool align, double scale) {
  const double step = align       ? (out > 1 ? static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0.0)
                      : scale > 0 ? 1 / scale
                                  : static_cast<double>(in) / static_cast<double>(out);
  return {in, out, step, scale};
}

/// kAligned: of an op that can align corners.
template <bool kAligned> std::unique_ptr<BoundKernel> bindUpsample(KernelBindContext *ctx) {
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
  return bindLaunch(ctx, kernelOf(ctx->op_type_name(), ctx->Desc("x").data_type()), (backward ? in : out).elem_cnt(),
                    a);
}

template <class> using Nearest = FunctionKernel<bindUpsample<false>>;
template <class> using Smooth = FunctionKernel<bindUpsample<true>>;
const KernelOptions kOnGpu = onGpu();

REGISTER_KERNELS("upsample_nearest_2d").Kernel<Nearest, types::Floating>("x", kOnGpu);
REGISTER_KERNELS("upsample_bilinear_2d").Kernel<Smooth, types::Floating>("x", kOnGpu);
REGISTER_KERNELS("upsample_bicubic_2d").Kernel<Smooth, types::Floating>("x", kOnGpu);
REGISTER_KERNELS("upsample_nearest_2d_grad").Kernel<Nearest, types::Floating>("dy", kOnGpu);
REGISTER_KERNELS("upsample_bilinear_2d_grad").Kernel<Smooth, types::Floating>("dy", kOnGpu);
REGISTER_KERNELS("upsample_bicubic_2d_grad").Kernel<Smooth, types::Floating>("dy", kOnGpu);

} // namespace
} // namespace opc::ops
