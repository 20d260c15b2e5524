// grid_sample, affine_grid and their gradients on GPUs.
// SPDX-License-Identifier: Apache-2.0
#include "shape/AffineGrid.h"
#include "shape/GridArguments.h"
#include "shape/GridSample.h"
#include "support/CudaTask.h"
#include "support/FunctionKernel.h"

namespace opc::ops {
namespace {

bool isHalf(DataType type) { return GetSizeOfDataType(type) == 2; }

GridSampleArguments sampling(KernelBindContext *ctx) {
  const Shape &in = ctx->In("input").shape(), &grid = ctx->In("grid").shape();
  GridSampleArguments a{};
  const auto given = [&](const char *arg) { return ctx->Has(arg) ? ctx->In(arg).raw_dptr() : nullptr; };
  a.input = given("input");
  a.grid = given("grid");
  a.doutput = given("doutput");
  a.ddinput = given("ddinput");
  a.ddgrid = given("ddgrid");
  a.batch = in.At(0);
  a.channels = in.At(1);
  a.height = in.At(2);
  a.width = in.At(3);
  a.pixels = grid.Count(1, 3);
  a.mode = static_cast<int32_t>(valueOf(interpolationOf(*ctx)));
  a.padding = static_cast<int32_t>(valueOf(paddingOf(*ctx)));
  a.align = ctx->Attr<bool>("align_corners");
  return a;
}

std::unique_ptr<BoundKernel> bindSample(KernelBindContext *ctx) {
  GridSampleArguments a = sampling(ctx);
  a.output = ctx->Out("output").mut_raw_dptr();
  return bindLaunch(ctx, kernelOf("grid_sample", ctx->In("input").data_type()), a.batch * a.pixels, a);
}

/// Planes for `image`, points for `point`; halves add up in the temporary buffer.
std::unique_ptr<BoundKernel> bindBoth(KernelBindContext *ctx, const char *image, const char *point, void *output) {
  GridSampleArguments a = sampling(ctx);
  a.dinput = ctx->Out("dinput").mut_raw_dptr();
  a.dgrid = ctx->Out("dgrid").mut_raw_dptr();
  const DataType type = ctx->In("input").data_type();
  GridSampleArguments planes = a;
  planes.output = isHalf(type) ? ctx->Tmp<float>() : nullptr;
  a.output = output;
  return inOrder(bindLaunch(ctx, kernelOf(image, type), a.batch * a.channels, planes),
                 bindLaunch(ctx, kernelOf(point, type), a.batch * a.pixels, a));
}
std::unique_ptr<BoundKernel> bindGrad(KernelBindContext *ctx) {
  return bindBoth(ctx, "grid_sample_image_grad", "grid_sample_point_grad", nullptr);
}
std::unique_ptr<BoundKernel> bindSecond(KernelBindContext *ctx) {
  return bindBoth(ctx, "grid_sample_image_second", "grid_sample_point_second", ctx->Out("ddoutput").mut_raw_dptr());
}
size_t sumsSize(InferContext *ctx) {
  const TensorDesc &input = ctx->In("input");
  return isHalf(input.data_type()) ? static_cast<size_t>(input.shape().elem_cnt()) * sizeof(float) : 0;
}

/// `grid` is the argument of the grid, whose axes may be split.
AffineGridArguments affine(KernelBindContext *ctx, const char *grid, const void *in, void *out) {
  const Shape &piece = ctx->Desc(grid).shape();
  AffineGridArguments a{};
  a.in = in;
  a.out = out;
  a.rank = static_cast<int32_t>(piece.NumAxes() - 2);
  a.batch = piece.At(0);
  a.pixels = piece.Count(1, a.rank + 1);
  a.align = ctx->Attr<bool>("align_corners");
  for (int32_t k = 0; k < a.rank; ++k) {
    const PieceRange range = pieceRange(ctx, grid, a.rank - k);
    a.begin[k] = range.begin;
    a.size[k] = range.size;
    a.whole[k] = range.whole;
  }
  return a;
}
std::unique_ptr<BoundKernel> bindAffine(KernelBindContext *ctx) {
  const Tensor &theta = ctx->In("theta");
  const AffineGridArguments a = affine(ctx, "grid", theta.raw_dptr(), ctx->Out("grid").mut_raw_dptr());
  return bindLaunch(ctx, kernelOf("affine_grid", theta.data_type()), a.batch * a.pixels, a);
}
std::unique_ptr<BoundKernel> bindAffineGrad(KernelBindContext *ctx) {
  const Tensor &dgrid = ctx->In("dgrid");
  const AffineGridArguments a = affine(ctx, "dgrid", dgrid.raw_dptr(), ctx->Out("dtheta").mut_raw_dptr());
  return bindWarps(ctx, kernelOf("affine_grid_grad", dgrid.data_type()), a.batch * a.rank * (a.rank + 1), a);
}

REGISTER_KERNELS("grid_sample").Kernel<OfFunction<bindSample>::Kernel, types::Floating>("input", onGpu());
REGISTER_KERNELS("grid_sample_grad")
    .Kernel<OfFunction<bindGrad>::Kernel, types::Floating>("input", onGpu().TmpSize(sumsSize));
REGISTER_KERNELS("grid_sample_grad_grad")
    .Kernel<OfFunction<bindSecond>::Kernel, types::Floating>("input", onGpu().TmpSize(sumsSize));
REGISTER_KERNELS("affine_grid").Kernel<OfFunction<bindAffine>::Kernel, types::Floating>("theta", onGpu());
REGISTER_KERNELS("affine_grid_grad").Kernel<OfFunction<bindAffineGrad>::Kernel, types::Floating>("dgrid", onGpu());

} // namespace
} // namespace opc::ops
