// Quantisation, and exact products and convolutions of 8-bit integers, on GPUs.
// SPDX-License-Identifier: Apache-2.0
#include "Quantized.h"
#include "quantization/QuantizationArguments.h"
#include "support/CudaTask.h"
#include "support/FunctionKernel.h"

namespace opc::ops {
namespace {

/// In the order of QuantizedTensor.
int32_t kindOf(DataType type) {
  switch (type) {
  case kUInt8: return 0;
  case kInt8: return 1;
  case kUInt16: return 2;
  case kInt16: return 3;
  default: return 4;
  }
}

/// What the three have; `quantized` is the argument of integers.
QuantizationArguments argumentsOf(KernelBindContext *ctx, const Tensor &quantized) {
  const ScaleRuns runs(ctx->In("in").shape(), ctx->In("scale").shape(), ctx->Attr<int32_t>("axis"));
  QuantizationArguments a{};
  a.from = ctx->In("in").raw_dptr();
  a.scale = ctx->In("scale").raw_dptr();
  a.to = ctx->Out("out").mut_raw_dptr();
  a.quantized = {const_cast<void *>(quantized.raw_dptr()), kindOf(quantized.data_type()), 0};
  if (ctx->Has("zero_point")) {
    const Tensor &zero = ctx->In("zero_point");
    a.zero = {const_cast<void *>(zero.raw_dptr()), kindOf(zero.data_type()), 0};
  }
  a.n = ctx->In("in").shape().elem_cnt();
  a.length = std::max<int64_t>(1, runs.length);
  a.scales = std::max<int64_t>(1, runs.scales);
  return a;
}

std::unique_ptr<BoundKernel> bindQuantize(KernelBindContext *ctx) {
  const QuantizationArguments a = argumentsOf(ctx, ctx->Out("out"));
  return bindLaunch(ctx, kernelOf(ctx->op_type_name(), ctx->In("in").data_type()), a.n, a);
}
std::unique_ptr<BoundKernel> bindDequantize(KernelBindContext *ctx) {
  const QuantizationArguments a = argumentsOf(ctx, ctx->In("in"));
  return bindLaunch(ctx, kernelOf(ctx->op_type_name(), ctx->In("scale").data_type()), a.n, a);
}

constexpr int64_t kRangeBlocks = 256;

std::unique_ptr<BoundKernel> bindDynamicQuantize(KernelBindContext *ctx) {
  cuda::CudaLaunch &device = cuda::CudaLaunch::of(ctx->device_ctx());
  DynamicQuantizationArguments a{};
  a.in = ctx->In("in").dptr<float>();
  a.n = ctx->In("in").shape().elem_cnt();
  a.ranges = ctx->Tmp<float>();
  a.scale = ctx->Out("scale").mut_dptr<float>();
  a.out = ctx->Out("out").mut_dptr<uint8_t>();
  a.zero = ctx->Out("zero_point").mut_dptr<uint8_t>();
  const cuda::Dim3 grid = cuda::blocksFor(a.n, kRangeBlocks);
  a.blocks = grid.x;
  return bindTask([=, ranges = device.function("dynamic_quantize_ranges"),
                   steps = device.function("dynamic_quantize_steps")](DeviceCtx *dev) {
    cuda::CudaLaunch::of(dev).run(ranges, grid, {cuda::kBlock, 1, 1}, 0, a);
    cuda::CudaLaunch::of(dev).run(steps, cuda::blocksFor(a.n), {cuda::kBlock, 1, 1}, 0, a);
  });
}
size_t rangeBytes(InferContext *) { return 2 * kRangeBlocks * sizeof(float); }

template <class> using Quantize = FunctionKernel<bindQuantize>;
template <class> using Dequantize = FunctionKernel<bindDequantize>;

REGISTER_KERNELS("quantize_linear").Kernel<Quantize, types::Floating>("in", onGpu());
REGISTER_KERNELS("requantize").Kernel<FunctionKernel<bindQuantize>>(onGpu());
REGISTER_KERNELS("dequantize_linear").Kernel<Dequantize, types::Floating>("scale", onGpu());
REGISTER_KERNELS("dynamic_quantize_linear").Kernel<FunctionKernel<bindDynamicQuantize>>(onGpu().TmpSize(rangeBytes));

} // namespace
} // namespace opc::ops
