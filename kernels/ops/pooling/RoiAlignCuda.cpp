// roi_align and its gradient on GPUs.
// SPDX-License-Identifier: Apache-2.0
#include "pooling/RoiAlign.h"
#include "pooling/RoiArguments.h"
#include "support/CudaTask.h"
#include "support/FunctionKernel.h"
#include "support/IndexWatch.h"

namespace opc::ops {
namespace {

RoiArguments argumentsOf(KernelBindContext *ctx) {
  const Tensor &x = ctx->In("x"), &indices = ctx->In("batch_indices");
  const RoiAlignment g = roiAlignment(*ctx, x.shape(), ctx->In("rois").shape());
  RoiArguments a{};
  a.x = x.raw_dptr();
  a.rois = ctx->In("rois").raw_dptr();
  a.indices = indices.raw_dptr();
  a.fault = watchIndices(ctx, "batch_indices", indices.shape(), g.images, "the images of x");
  a.images = g.images;
  a.channels = g.channels;
  a.regions = g.regions;
  a.rows = g.rows;
  a.columns = g.columns;
  a.isMax = g.isMax;
  a.isWide = indices.data_type() == kInt64;
  return a;
}

std::unique_ptr<BoundKernel> bindAlign(KernelBindContext *ctx) {
  RoiArguments a = argumentsOf(ctx);
  a.out = ctx->Out("y").mut_raw_dptr();
  const int64_t bins = a.regions * a.channels * a.rows.bins * a.columns.bins;
  return bindLaunch(ctx, kernelOf("roi_align", ctx->In("x").data_type()), bins, a);
}

bool isHalf(DataType type) { return GetSizeOfDataType(type) == 2; }

std::unique_ptr<BoundKernel> bindGrad(KernelBindContext *ctx) {
  const DataType type = ctx->In("x").data_type();
  RoiArguments a = argumentsOf(ctx);
  a.dy = ctx->In("dy").raw_dptr();
  a.out = ctx->Out("dx").mut_raw_dptr();
  a.sums = isHalf(type) ? ctx->Tmp<float>() : nullptr;
  return bindLaunch(ctx, kernelOf("roi_align_grad", type), a.images * a.channels, a);
}
size_t sumsSize(InferContext *ctx) {
  const TensorDesc &x = ctx->In("x");
  return isHalf(x.data_type()) ? static_cast<size_t>(x.shape().elem_cnt()) * sizeof(float) : 0;
}

REGISTER_KERNELS("roi_align").Kernel<OfFunction<bindAlign>::Kernel, types::Floating>("x", onGpu());
REGISTER_KERNELS("roi_align_grad")
    .Kernel<OfFunction<bindGrad>::Kernel, types::Floating>("x", onGpu().TmpSize(sumsSize));

} // namespace
} // namespace opc::ops
