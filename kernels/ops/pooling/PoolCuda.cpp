// Poolings and their gradients on GPUs.
// SPDX-License-Identifier: Apache-2.0
#include "pooling/PoolArguments.h"
#include "pooling/PoolGeometry.h"
#include "support/CudaTask.h"
#include "support/FunctionKernel.h"
#include "support/IndexWatch.h"

namespace opc::ops {
namespace {

int64_t volume(const Spatial &s) { return s[0] * s[1] * s[2]; }

PoolArguments argumentsOf(KernelBindContext *ctx, const PoolGeometry &g, Pooling kind) {
  PoolArguments a{};
  a.planes = g.batch * g.channels;
  a.channels = g.channels;
  for (int i = 0; i < 3; ++i) {
    const auto at = static_cast<size_t>(i);
    a.in[i] = g.in[at], a.size[i] = g.out[at], a.kernel[i] = g.kernel[at];
    a.stride[i] = g.stride[at], a.dilation[i] = g.dilation[at];
    a.before[i] = g.before[at], a.after[i] = g.after[at];
  }
  a.channelsLast = g.channelsLast;
  a.adaptive = kind == Pooling::kAdaptive;
  if (kind == Pooling::kAvg) {
    a.withPadding = ctx->Attr<bool>("count_include_pad");
    a.divisor = ctx->Attr<int32_t>("divisor_override");
  }
  return a;
}

std::unique_ptr<BoundKernel> bindPool(KernelBindContext *ctx, const std::string &name, const PoolArguments &a,
                                      int64_t count, cuda::Dim3 grid) {
  return bindGrid(ctx, kernelOf(name, ctx->Desc("x").data_type()), count, grid, a);
}

template <Pooling kKind> std::unique_ptr<BoundKernel> bindPooling(KernelBindContext *ctx) {
  const PoolGeometry g = poolGeometry(ctx, kKind);
  PoolArguments a = argumentsOf(ctx, g, kKind);
  a.x = ctx->In("x").raw_dptr();
  a.out = ctx->Out("y").mut_raw_dptr();
  if (ctx->Has("indice")) a.indicesOut = ctx->Out("indice").mut_dptr<int64_t>();
  const int64_t count = a.planes * g.outPlane();
  return bindPool(ctx, kKind == Pooling::kMax ? "max_pool" : "avg_pool", a, count, cuda::blocksFor(count));
}

/// The elements of x that an element looks at when it gathers: those of each window that it is in.
bool isGathered(const PoolGeometry &g) {
  int64_t windows = 1;
  for (size_t i = 0; i < 3; ++i) windows *= std::min(g.out[i], g.dilation[i] * (g.kernel[i] - 1) / g.stride[i] + 1);
  return windows * volume(g.kernel) <= 1024;
}

template <Pooling kKind> std::unique_ptr<BoundKernel> bindPoolGrad(KernelBindContext *ctx) {
  const PoolGeometry g = poolGeometry(ctx, kKind);
  PoolArguments a = argumentsOf(ctx, g, kKind);
  a.dy = ctx->In("dy").raw_dptr();
  a.out = ctx->Out("dx").mut_raw_dptr();
  const int64_t count = a.planes * g.inPlane();
  if (kKind != Pooling::kMax) return bindPool(ctx, "avg_pool_grad", a, count, cuda::blocksFor(count));
  a.x = ctx->In("x").raw_dptr();
  if (ctx->Has("indice")) {
    a.indices = ctx->In("indice").dptr<int64_t>();
    a.fault = watchIndices(ctx, "indice", ctx->In("indice").shape(), g.inPlane(), "the positions of x");
  }
  if (!a.indices && isGathered(g)) return bindPool(ctx, "max_pool_grad_gather", a, count, cuda::blocksFor(count));
  const int64_t blocks = a.planes * ((g.inPlane() + 2047) / 2048);
  return bindPool(ctx, "max_pool_grad_scatter", a, count, cuda::gridOf(blocks));
}

template <class> using MaxPool = FunctionKernel<bindPooling<Pooling::kMax>>;
template <class> using AvgPool = FunctionKernel<bindPooling<Pooling::kAvg>>;
template <class> using AdaptivePool = FunctionKernel<bindPooling<Pooling::kAdaptive>>;
template <class> using MaxPoolGrad = FunctionKernel<bindPoolGrad<Pooling::kMax>>;
template <class> using AvgPoolGrad = FunctionKernel<bindPoolGrad<Pooling::kAvg>>;
template <class> using AdaptivePoolGrad = FunctionKernel<bindPoolGrad<Pooling::kAdaptive>>;

using MaxTypes = Join<types::Floating, types::Of<int32_t>>;
const KernelOptions kOnGpu = onGpu();

REGISTER_KERNELS("max_pool_1d").Kernel<MaxPool, MaxTypes>("x", kOnGpu);
REGISTER_KERNELS("max_pool_2d").Kernel<MaxPool, MaxTypes>("x", kOnGpu);
REGISTER_KERNELS("max_pool_3d").Kernel<MaxPool, MaxTypes>("x", kOnGpu);
REGISTER_KERNELS("avg_pool_1d").Kernel<AvgPool, types::Floating>("x", kOnGpu);
REGISTER_KERNELS("avg_pool_2d").Kernel<AvgPool, types::Floating>("x", kOnGpu);
REGISTER_KERNELS("avg_pool_3d").Kernel<AvgPool, types::Floating>("x", kOnGpu);
REGISTER_KERNELS("adaptive_avg_pool1d").Kernel<AdaptivePool, types::Floating>("x", kOnGpu);
REGISTER_KERNELS("adaptive_avg_pool2d").Kernel<AdaptivePool, types::Floating>("x", kOnGpu);
REGISTER_KERNELS("adaptive_avg_pool3d").Kernel<AdaptivePool, types::Floating>("x", kOnGpu);
REGISTER_KERNELS("max_pool_1d_grad").Kernel<MaxPoolGrad, types::Floating>("x", kOnGpu);
REGISTER_KERNELS("max_pool_2d_grad").Kernel<MaxPoolGrad, types::Floating>("x", kOnGpu);
REGISTER_KERNELS("max_pool_3d_grad").Kernel<MaxPoolGrad, types::Floating>("x", kOnGpu);
REGISTER_KERNELS("avg_pool_1d_grad").Kernel<AvgPoolGrad, types::Floating>("x", kOnGpu);
REGISTER_KERNELS("avg_pool_2d_grad").Kernel<AvgPoolGrad, types::Floating>("x", kOnGpu);
REGISTER_KERNELS("avg_pool_3d_grad").Kernel<AvgPoolGrad, types::Floating>("x", kOnGpu);
REGISTER_KERNELS("adaptive_avg_pool1d_grad").Kernel<AdaptivePoolGrad, types::Floating>("x", kOnGpu);
REGISTER_KERNELS("adaptive_avg_pool2d_grad").Kernel<AdaptivePoolGrad, types::Floating>("x", kOnGpu);
REGISTER_KERNELS("adaptive_avg_pool3d_grad").Kernel<AdaptivePoolGrad, types::Floating>("x", kOnGpu);

} // namespace
} // namespace opc::ops
