// Exact products and convolutions of 8-bit integers on GPUs.
// SPDX-License-Identifier: Apache-2.0
#include "convolution/ConvCuda.h"
#include "convolution/ConvOp.h"
#include "linear_algebra/MatrixProduct.h"
#include "quantization/FusedInteger.h"
#include "quantization/QuantizationArguments.h"
#include "support/CudaTask.h"
#include "support/FunctionKernel.h"

namespace opc::ops {
namespace {

ByteOperand operandOf(KernelBindContext *ctx, const std::string &arg) {
  ByteOperand o{ctx->In(arg).raw_dptr(), nullptr, ctx->In(arg).data_type() == kInt8, 0};
  const std::string zero = arg + "_zero_point";
  if (ctx->Has(zero)) {
    o.zero = ctx->In(zero).raw_dptr();
    o.isZeroVector = ctx->In(zero).shape().elem_cnt() > 1;
  }
  return o;
}

FinishArguments finishOf(KernelBindContext *ctx) {
  FinishArguments f{};
  if (!ctx->Has("scale")) return f;
  const DataType type = ctx->Attr<DataType>("dtype");
  f.scale = ctx->In("scale").dptr<float>();
  f.isScaleVector = ctx->In("scale").shape().elem_cnt() > 1;
  f.kind = type == kFloat ? 2 : type == kInt8;
  f.relu = ctx->Attr<bool>("relu");
  if (!ctx->Has("zero_point")) return f;
  f.zero = ctx->In("zero_point").raw_dptr();
  f.isZeroVector = ctx->In("zero_point").shape().elem_cnt() > 1;
  return f;
}

/// Sums alone have channels_first images.
template <bool kFused> class IntegerConvCuda final : public BindingKernel {
  static ConvGeometry geometry(KernelBindContext *ctx) {
    const TensorDesc &in = ctx->Desc("in"), &weight = ctx->Desc("weight");
    if constexpr (kFused) return valueOf(fusedIntegerGeometry(in, weight, ctx->user_op_conf(), Extent::kPiece));
    return valueOf(convGeometry(in, weight, ctx->user_op_conf(), spatialDims(in), Extent::kPiece));
  }
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    const ConvGeometry g = geometry(ctx);
    IntegerConvArguments a{convArguments(g), operandOf(ctx, "in"), operandOf(ctx, "weight"), finishOf(ctx)};
    ConvGeometry first = g;
    first.channelsLast = false;
    const std::array<int64_t, 5> steps = first.strides(a.conv.own, g.kernel);
    std::copy(steps.begin(), steps.end(), a.conv.ws);
    if (ctx->Has("bias")) a.conv.bias = ctx->In("bias").raw_dptr();
    a.conv.out = ctx->Out("out").mut_raw_dptr();
    const int64_t rows = g.batch * volume(g.out), columns = a.conv.perGroup, count = rows * g.filters;
    const bool tiles = columns >= kFewColumns;
    return bindGrid(ctx, tiles ? "integer_conv_tiles" : "integer_conv_elements", count,
                    tiles ? gridOfTiles(rows, columns, g.groups) : cuda::blocksFor(count), a);
  }
};

std::unique_ptr<BoundKernel> bindIntegerMatmul(KernelBindContext *ctx) {
  const Shape &out = ctx->Out("out").shape(), &left = ctx->In("a").shape();
  IntegerMatmulArguments a{};
  a.a = operandOf(ctx, "a");
  a.b = operandOf(ctx, "b");
  if (ctx->Has("bias")) a.bias = ctx->In("bias").dptr<int32_t>();
  a.out = ctx->Out("out").mut_raw_dptr();
  a.finish = finishOf(ctx);
  a.rank = static_cast<int32_t>(out.NumAxes() - 2);
  a.m = out.At(a.rank);
  a.n = out.At(a.rank + 1);
  a.k = left.At(left.NumAxes() - 1);
  a.batches = out.Count(0, a.rank);
  a.transB = ctx->Attr<bool>("transpose_b");
  for (int32_t i = 0; i < a.rank; ++i) a.dims[i] = out.At(i);
  batchSteps(left, out, a.stepA);
  batchSteps(ctx->In("b").shape(), out, a.stepB);
  return bindGrid(ctx, "integer_matmul_tiles", out.elem_cnt(), gridOfTiles(a.m, a.n, a.batches), a);
}

REGISTER_KERNELS("integer_conv1d").Kernel<IntegerConvCuda<false>>(onGpu());
REGISTER_KERNELS("integer_conv2d").Kernel<IntegerConvCuda<false>>(onGpu());
REGISTER_KERNELS("integer_conv3d").Kernel<IntegerConvCuda<false>>(onGpu());
REGISTER_KERNELS("integer_matmul").Kernel<FunctionKernel<bindIntegerMatmul>>(onGpu());
REGISTER_KERNELS("fused_integer_conv2d").Kernel<IntegerConvCuda<true>>(onGpu());
REGISTER_KERNELS("fused_integer_matmul").Kernel<FunctionKernel<bindIntegerMatmul>>(onGpu());

} // namespace
} // namespace opc::ops
