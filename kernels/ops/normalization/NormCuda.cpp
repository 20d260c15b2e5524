// layer_norm, rms_norm, group_norm, batch normalisation and their gradients on GPUs.
// SPDX-License-Identifier: Apache-2.0
#include "normalization/GroupShape.h"
#include "normalization/NormArguments.h"
#include "support/CudaTask.h"
#include "support/FunctionKernel.h"

namespace opc::ops::norm {
namespace {

using cuda::CudaLaunch;

const void *givenOf(KernelBindContext *ctx, const char *arg) {
  return ctx->Has(arg) ? ctx->In(arg).raw_dptr() : nullptr;
}
void *madeOf(KernelBindContext *ctx, const char *arg) { return ctx->Has(arg) ? ctx->Out(arg).mut_raw_dptr() : nullptr; }
NormVector vectorOf(KernelBindContext *ctx, const char *arg) {
  if (!ctx->Has(arg)) return {};
  return {const_cast<void *>(ctx->In(arg).raw_dptr()), ctx->In(arg).data_type() == ctx->Desc("x").data_type(), 0};
}

/// What all of them have.
NormArguments common(KernelBindContext *ctx) {
  NormArguments a{};
  a.x = ctx->In("x").raw_dptr();
  a.dy = givenOf(ctx, "dy");
  a.add = givenOf(ctx, "_add_to_output");
  a.gamma = vectorOf(ctx, "gamma");
  a.beta = vectorOf(ctx, "beta");
  a.elements = ctx->Desc("x").shape().elem_cnt();
  a.centered = 1;
  a.width = 1;
  return a;
}
int64_t atLeastOne(int64_t n) { return std::max<int64_t>(1, n); }

/// Rows of n elements, whose parameters repeat every `period`.
void placeRows(NormArguments *a, int64_t rows, int64_t n, int64_t period) {
  const int64_t width = atLeastOne(n);
  a->places = {1, atLeastOne(period), width, 1, 1, width, width};
  a->groups = {rows, n, 1, width, 0, width, 0};
  a->count = static_cast<double>(n);
}
void placeGroups(NormArguments *a, const GroupShape &s) {
  const int64_t spatial = atLeastOne(s.spatial), inner = s.first ? spatial : 1, channels = atLeastOne(s.channels);
  const int64_t own = atLeastOne(s.own), size = own * spatial;
  a->places = {inner, channels, channels * spatial, s.groups, inner, channels, own};
  a->groups = {s.samples * s.groups,          s.own * s.spatial,    s.groups, channels * spatial,
               own * (s.first ? spatial : 1), s.first ? size : own, channels};
  a->count = static_cast<double>(s.own * s.spatial);
}
void placeChannels(NormArguments *a, const NormShape &s) {
  const int64_t inner = atLeastOne(s.inner), channels = atLeastOne(s.channels);
  a->places = {inner, channels, channels * inner, 0, inner, channels, 1};
  a->count = static_cast<double>(s.outer * s.inner);
  a->width = s.inner == 1 ? 32 : 1;
}

class Launcher {
public:
  Launcher(KernelBindContext *ctx, const char *name)
      : kernel_(CudaLaunch::of(ctx->device_ctx())
                    .function(kernelOf(std::string("norm_") + name, ctx->Desc("x").data_type()))) {}
  void blocks(DeviceCtx *dev, int64_t n, const NormArguments &a) const {
    if (n > 0) CudaLaunch::of(dev).run(kernel_, cuda::gridOf(n), {cuda::kBlock, 1, 1}, 0, a);
  }
  void threads(DeviceCtx *dev, int64_t n, const NormArguments &a) const {
    if (n > 0) CudaLaunch::of(dev).run(kernel_, cuda::blocksFor(n), {cuda::kBlock, 1, 1}, 0, a);
  }
  /// A block for each `width` parameters.
  void parameters(DeviceCtx *dev, int64_t n, const NormArguments &a) const {
    blocks(dev, (n + a.width - 1) / a.width, a);
  }

private:
  cuda::CudaFunction kernel_;
};

// --- rows and groups ---

std::unique_ptr<BoundKernel> bindGroups(KernelBindContext *ctx, const char *name, const NormArguments &a) {
  return bindTask([=, launch = Launcher(ctx, name)](DeviceCtx *dev) { launch.blocks(dev, a.groups.groups, a); });
}

/// Statistics of no elements are NaN, as on the CPU.
std::unique_ptr<BoundKernel> bindLayerNorm(KernelBindContext *ctx) {
  NormArguments a = common(ctx);
  const Shape &shape = ctx->Desc("x").shape();
  const bool rms = ctx->Has("inv_rms");
  int64_t begin, params;
  if (rms) {
    begin = params = shape.NumAxes() - ctx->Attr<Shape>("normalized_shape").NumAxes();
    a.epsilon = static_cast<double>(ctx->Attr<float>("epsilon"));
    a.gamma = vectorOf(ctx, "weight");
  } else {
    begin = valueOf(axisOf<int64_t>(ctx, "begin_norm_axis", shape));
    params = valueOf(axisOf<int64_t>(ctx, "begin_params_axis", shape));
    a.epsilon = ctx->Attr<double>("epsilon");
  }
  a.centered = !rms;
  a.mean = madeOf(ctx, "mean");
  a.inverse = madeOf(ctx, rms ? "inv_rms" : "inv_variance");
  a.out = madeOf(ctx, "y");
  placeRows(&a, shape.Count(0, begin), shape.Count(begin), shape.Count(params));
  return bindGroups(ctx, "rows", a);
}

void addStatistics(KernelBindContext *ctx, NormArguments *a) {
  a->mean = const_cast<void *>(givenOf(ctx, "mean"));
  a->inverse = const_cast<void *>(givenOf(ctx, ctx->Has("inv_rms") ? "inv_rms" : "inv_variance"));
  a->centered = a->mean != nullptr;
}
/// Of a gradient of rows.
NormShape rowsOf(KernelBindContext *ctx) {
  const char *inverse = ctx->Has("inv_rms") ? "inv_rms" : "inv_variance";
  return NormShape::rowsFrom(ctx->Desc("x").shape(), ctx->Desc(inverse).shape().NumAxes());
}

std::unique_ptr<BoundKernel> bindLayerNormGrad(KernelBindContext *ctx) {
  NormArguments a = common(ctx);
  addStatistics(ctx, &a);
  a.out = madeOf(ctx, "dx");
  const char *gamma = ctx->Has("weight") ? "weight" : "gamma";
  a.gamma = vectorOf(ctx, gamma);
  const NormShape s = rowsOf(ctx);
  placeRows(&a, s.outer, s.inner, ctx->Has(gamma) ? ctx->Desc(gamma).shape().elem_cnt() : s.inner);
  return bindGroups(ctx, "rows_grad", a);
}

std::unique_ptr<BoundKernel> bindParameters(KernelBindContext *ctx, const NormArguments &a, int64_t parameters) {
  return bindTask(
      [=, launch = Launcher(ctx, "parameter_grad")](DeviceCtx *dev) { launch.parameters(dev, parameters, a); });
}

std::unique_ptr<BoundKernel> bindLayerNormParamGrad(KernelBindContext *ctx) {
  NormArguments a = common(ctx);
  addStatistics(ctx, &a);
  a.gammaDiff = madeOf(ctx, ctx->Has("inv_rms") ? "weight_grad" : "gamma_diff");
  a.betaDiff = madeOf(ctx, "beta_diff");
  const NormShape s = rowsOf(ctx);
  const Shape &shape = ctx->Desc("x").shape();
  const int64_t period =
      ctx->Has("inv_rms") ? s.inner : shape.Count(valueOf(axisOf<int64_t>(ctx, "begin_params_axis", shape)));
  placeRows(&a, s.outer, s.inner, period);
  a.width = 32;
  return bindParameters(ctx, a, period);
}

std::unique_ptr<BoundKernel> bindGroupNorm(KernelBindContext *ctx) {
  NormArguments a = common(ctx);
  a.mean = madeOf(ctx, "mean");
  a.inverse = madeOf(ctx, "inv_variance");
  a.out = madeOf(ctx, "y");
  a.epsilon = ctx->Attr<double>("epsilon");
  a.silu = ctx->Attr<std::string>("activation") == "silu";
  placeGroups(&a, GroupShape(ctx));
  return bindGroups(ctx, "rows", a);
}

std::unique_ptr<BoundKernel> bindGroupNormGrad(KernelBindContext *ctx) {
  NormArguments a = common(ctx);
  addStatistics(ctx, &a);
  a.out = madeOf(ctx, "dx");
  placeGroups(&a, GroupShape(ctx));
  return bindGroups(ctx, "rows_grad", a);
}

std::unique_ptr<BoundKernel> bindGroupNormParamGrad(KernelBindContext *ctx) {
  NormArguments a = common(ctx);
  addStatistics(ctx, &a);
  a.gammaDiff = madeOf(ctx, "dgamma");
  a.betaDiff = madeOf(ctx, "dbeta");
  const GroupShape s(ctx);
  placeGroups(&a, s);
  a.width = s.first && s.spatial > 1 ? 1 : 32;
  return bindParameters(ctx, a, s.channels);
}

// --- channels ---

/// Two vectors over the channels, of the statistics' type: what optional outputs do not hold.
size_t channelBytes(InferContext *ctx) {
  const Shape &x = ctx->In("x").shape();
  return static_cast<size_t>(2 * x.At(valueOf(axisOf<int32_t>(ctx, "axis", x)))) * sizeof(double);
}

std::unique_ptr<BoundKernel> bindBatchNorm(KernelBindContext *ctx) {
  NormArguments a = common(ctx);
  const NormShape s = shapeAroundAxis(ctx, "x");
  placeChannels(&a, s);
  a.epsilon = static_cast<double>(ctx->Attr<float>("epsilon"));
  a.momentum = static_cast<double>(ctx->Attr<float>("momentum"));
  a.training = ctx->Attr<bool>("training");
  double *own = ctx->Tmp<double>();
  a.mean = ctx->Has("mean") ? madeOf(ctx, "mean") : own;
  a.inverse = ctx->Has("inv_variance") ? madeOf(ctx, "inv_variance") : own + s.channels;
  if (ctx->Has("moving_mean")) {
    a.movingMean = vectorOf(ctx, "moving_mean");
    a.movingVariance = vectorOf(ctx, "moving_variance");
  }
  a.out = madeOf(ctx, "y");
  return bindTask([=, statistics = Launcher(ctx, "channel_statistics"), given = Launcher(ctx, "given_statistics"),
                   apply = Launcher(ctx, "apply_channels")](DeviceCtx *dev) {
    if (a.training)
      statistics.parameters(dev, s.channels, a);
    else
      given.threads(dev, s.channels, a);
    apply.threads(dev, a.elements, a);
  });
}

std::unique_ptr<BoundKernel> bindBatchNormGrad(KernelBindContext *ctx) {
  NormArguments a = common(ctx);
  addStatistics(ctx, &a);
  const NormShape s = shapeAroundAxis(ctx, "x");
  placeChannels(&a, s);
  a.training = ctx->Attr<bool>("training");
  const bool sums = a.training || ctx->Has("gamma_diff") || ctx->Has("beta_diff");
  double *own = ctx->Tmp<double>();
  a.gammaDiff = ctx->Has("gamma_diff") ? madeOf(ctx, "gamma_diff") : own;
  a.betaDiff = ctx->Has("beta_diff") ? madeOf(ctx, "beta_diff") : own + s.channels;
  a.out = madeOf(ctx, "dx");
  return bindTask(
      [=, parameters = Launcher(ctx, "parameter_grad"), apply = Launcher(ctx, "channels_grad")](DeviceCtx *dev) {
        if (sums) parameters.parameters(dev, s.channels, a);
        if (a.out) apply.threads(dev, a.elements, a);
      });
}

const KernelOptions kOnGpu = onGpu();

REGISTER_KERNELS("layer_norm").Kernel<OfFunction<bindLayerNorm>::Kernel, types::Floating>("x", kOnGpu);
REGISTER_KERNELS("rms_norm").Kernel<OfFunction<bindLayerNorm>::Kernel, types::Floating>("x", kOnGpu);
REGISTER_KERNELS("layer_norm_grad").Kernel<OfFunction<bindLayerNormGrad>::Kernel, types::Floating>("x", kOnGpu);
REGISTER_KERNELS("rms_norm_grad").Kernel<OfFunction<bindLayerNormGrad>::Kernel, types::Floating>("x", kOnGpu);
REGISTER_KERNELS("layer_norm_param_grad")
    .Kernel<OfFunction<bindLayerNormParamGrad>::Kernel, types::Floating>("x", kOnGpu);
REGISTER_KERNELS("rms_norm_param_grad")
    .Kernel<OfFunction<bindLayerNormParamGrad>::Kernel, types::Floating>("x", kOnGpu);
REGISTER_KERNELS("group_norm").Kernel<OfFunction<bindGroupNorm>::Kernel, types::Floating>("x", kOnGpu);
REGISTER_KERNELS("group_norm_grad").Kernel<OfFunction<bindGroupNormGrad>::Kernel, types::Floating>("x", kOnGpu);
REGISTER_KERNELS("group_norm_param_grad")
    .Kernel<OfFunction<bindGroupNormParamGrad>::Kernel, types::Floating>("x", kOnGpu);
REGISTER_KERNELS("normalization")
    .Kernel<OfFunction<bindBatchNorm>::Kernel, types::Floating>("x", KernelOptions(kOnGpu).TmpSize(channelBytes));
REGISTER_KERNELS("normalization_grad")
    .Kernel<OfFunction<bindBatchNormGrad>::Kernel, types::Floating>("x", KernelOptions(kOnGpu).TmpSize(channelBytes));

} // namespace
} // namespace opc::ops::norm
