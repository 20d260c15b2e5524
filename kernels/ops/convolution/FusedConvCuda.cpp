// fused_conv2d on GPUs. The compiler makes it for the CPU; here it is for graphs that already have it.
// SPDX-License-Identifier: Apache-2.0
#include "ConvCuda.h"
#include "FusedConvolution.h"
#include "support/CudaTask.h"
#include "support/FunctionKernel.h"

namespace opc::ops {
namespace {

std::unique_ptr<BoundKernel> bindFusedConv(KernelBindContext *ctx) {
  const ConvGeometry g =
      valueOf(fusedGeometry(ctx->Desc("in"), ctx->Desc("weight"), ctx->user_op_conf(), Extent::kPiece));
  const auto floats = [&](const char *arg) { return ctx->Has(arg) ? ctx->In(arg).dptr<float>() : nullptr; };
  FusedConvArguments a{};
  a.conv = convArguments(g);
  ConvGeometry weight = g;
  weight.channelsLast = isChannelsLast(ctx->user_op_conf(), "weight_format").value();
  const std::array<int64_t, 5> steps = weight.strides(a.conv.own, g.kernel);
  std::copy(steps.begin(), steps.end(), a.conv.ws);
  a.conv.x = floats("in");
  a.conv.weight = floats("weight");
  a.conv.bias = floats("bias");
  a.conv.add = floats("_add_to_output");
  a.conv.out = ctx->Out("out").mut_raw_dptr();
  a.gamma = floats("gamma");
  a.beta = floats("beta");
  a.mean = floats("moving_mean");
  a.variance = floats("moving_variance");
  a.epsilon = static_cast<double>(ctx->Attr<float>("epsilon"));
  const ConvExtras::Activation activation = activationOf(ctx->user_op_conf()).value();
  a.activation = activation == ConvExtras::kRelu ? 1 : activation == ConvExtras::kClip ? 2 : 0;
  a.low = static_cast<float>(ctx->Attr<double>("activation_min"));
  a.high = static_cast<float>(ctx->Attr<double>("activation_max"));
  const int64_t rows = g.batch * volume(g.out), columns = a.conv.perGroup, count = rows * g.filters;
  const bool tiles = columns >= kFewColumns;
  const auto kernel = cuda::CudaLaunch::of(ctx->device_ctx())
                          .function(std::string("fused_conv_") + (tiles ? "tiles_" : "elements_") +
                                    (g.channelsLast ? "last" : "first"));
  const cuda::Dim3 grid = tiles ? gridOfTiles(rows, columns, g.groups) : cuda::blocksFor(count);
  return bindTask([=](DeviceCtx *dev) {
    if (count > 0) cuda::CudaLaunch::of(dev).run(kernel, grid, {cuda::kBlock, 1, 1}, 0, a);
  });
}

REGISTER_KERNELS("fused_conv2d").Kernel<FunctionKernel<bindFusedConv>>(onGpu().When(HobDataType("in", 0) == kFloat));

} // namespace
} // namespace opc::ops
