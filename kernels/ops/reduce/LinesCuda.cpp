// cumsum, cumprod, linear_scan, cumprod_grad, sort, arg_sort and top_k on GPUs.
// SPDX-License-Identifier: Apache-2.0
#include "reduce/LineArguments.h"
#include "support/CudaTask.h"
#include "support/ElementBytes.h"
#include "support/FunctionKernel.h"
#include "support/Operator.h"

#include <bit>

namespace opc::ops::reduce {
namespace {

/// The lines along attribute dim of a tensor.
ScanArguments linesOf(KernelBindContext *ctx, const std::vector<const char *> &inputs, const char *output) {
  const Shape &shape = ctx->In(inputs[0]).shape();
  const int64_t axis = valueOf(resolveAxis(ctx->Attr<int64_t>("dim"), shape.NumAxes()));
  ScanArguments a{};
  for (size_t i = 0; i < inputs.size(); ++i) a.in[i] = ctx->In(inputs[i]).raw_dptr();
  a.out = ctx->Out(output).mut_raw_dptr();
  a.n = shape.At(axis);
  a.inner = shape.Count(axis + 1);
  a.lines = a.n == 0 ? 0 : shape.Count(0, axis) * a.inner;
  return a;
}

std::unique_ptr<BoundKernel> bindCumsum(KernelBindContext *ctx) {
  const ScanArguments a = linesOf(ctx, {"x"}, "y");
  const DataType type = ctx->In("x").data_type();
  // Neighbouring lines for neighbouring threads, or else neighbouring elements.
  if (a.inner >= 32) return bindLaunch(ctx, kernelOf("cumsum", type), a.lines, a);
  return bindWarps(ctx, kernelOf("cumsum_warp", type), a.lines, a);
}
std::unique_ptr<BoundKernel> bindCumprod(KernelBindContext *ctx) {
  const ScanArguments a = linesOf(ctx, {"x"}, "y");
  return bindLaunch(ctx, kernelOf("cumprod", ctx->In("x").data_type()), a.lines, a);
}
std::unique_ptr<BoundKernel> bindLinearScan(KernelBindContext *ctx) {
  ScanArguments a = linesOf(ctx, {"a", "b"}, "y");
  a.isReverse = ctx->Attr<bool>("reverse");
  return bindLaunch(ctx, kernelOf("linear_scan", ctx->In("a").data_type()), a.lines, a);
}
std::unique_ptr<BoundKernel> bindCumprodGrad(KernelBindContext *ctx) {
  const ScanArguments a = linesOf(ctx, {"dy", "output", "input"}, "dx");
  return bindLaunch(ctx, kernelOf("cumprod_grad", ctx->In("dy").data_type()), a.lines, a);
}

// --- sort ------------------------------------------------------------------------------------------------------------

/// Room for the positions before and after a merge.
size_t positionsSize(InferContext *ctx) {
  return static_cast<size_t>(ctx->In("in").shape().elem_cnt()) * 2 * sizeof(int32_t);
}

/// The positions of each row in order: where they are after the task, in `result` if it is given.
std::unique_ptr<BoundKernel> bindPositions(KernelBindContext *ctx, bool isDescending, int32_t *result,
                                           const int32_t **positions) {
  const Tensor &in = ctx->In("in");
  const int64_t all = in.shape().elem_cnt();
  SortArguments a{};
  a.n = in.shape().At(in.shape().NumAxes() - 1);
  if (a.n > INT32_MAX)
    throw ContractError("the sorted axis has " + std::to_string(a.n) +
                        " entries; on a GPU there are at most 2^31 - 1, and the CPU takes more");
  a.in = in.raw_dptr();
  a.rows = a.n == 0 ? 0 : all / a.n;
  a.isDescending = isDescending;
  a.width = static_cast<int32_t>(std::min<int64_t>(
      SortArguments::kChunk, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(1, a.n))))));
  int32_t *tmp = ctx->Tmp<int32_t>();
  int merges = 0;
  for (int64_t run = a.width; run < a.n; run *= 2) ++merges;
  int32_t *last = result ? result : tmp + all, *other = tmp; // which the passes write in turn
  a.to = merges % 2 == 0 ? last : other;
  *positions = last;
  const int64_t chunks = a.rows * ((a.n + a.width - 1) / a.width);
  cuda::CudaLaunch &device = cuda::CudaLaunch::of(ctx->device_ctx());
  const cuda::CudaFunction sort = device.function(kernelOf("sort_chunks", in.data_type())),
                           merge = device.function(kernelOf("merge_runs", in.data_type()));
  return bindTask([=](DeviceCtx *dev) {
    if (a.rows == 0) return;
    cuda::CudaLaunch &gpu = cuda::CudaLaunch::of(dev);
    SortArguments now = a;
    gpu.run(sort, {static_cast<uint32_t>(std::min<int64_t>(chunks, 65535)), 1, 1}, {cuda::kBlock, 1, 1}, 0, now);
    for (now.run = a.width; now.run < a.n; now.run *= 2) {
      now.from = now.to;
      now.to = now.to == last ? other : last;
      gpu.run(merge, cuda::blocksFor(all), {cuda::kBlock, 1, 1}, 0, now);
    }
  });
}
bool isDescending(KernelBindContext *ctx) { return ctx->Attr<std::string>("direction") == "DESCENDING"; }

std::unique_ptr<BoundKernel> bindSort(KernelBindContext *ctx) {
  const Tensor &in = ctx->In("in");
  const int32_t *positions = nullptr;
  auto order = bindPositions(ctx, isDescending(ctx), nullptr, &positions);
  const int64_t all = in.shape().elem_cnt(), n = in.shape().At(in.shape().NumAxes() - 1);
  return inOrder(std::move(order), bindLaunch(ctx, kernelOf("sorted", elementSize(in)), all, in.raw_dptr(), positions,
                                              ctx->Out("out").mut_raw_dptr(), all, n));
}
std::unique_ptr<BoundKernel> bindArgSort(KernelBindContext *ctx) {
  const int32_t *positions = nullptr;
  return bindPositions(ctx, isDescending(ctx), ctx->Out("out").mut_dptr<int32_t>(), &positions);
}
std::unique_ptr<BoundKernel> bindTopK(KernelBindContext *ctx) {
  const int32_t *positions = nullptr;
  auto order = bindPositions(ctx, true, nullptr, &positions);
  Tensor &out = ctx->Out("out");
  const int64_t n = ctx->In("in").shape().At(out.shape().NumAxes() - 1), k = out.shape().At(out.shape().NumAxes() - 1),
                items = out.shape().elem_cnt();
  return inOrder(std::move(order),
                 bindLaunch(ctx, "first_positions", items, positions, out.mut_dptr<int64_t>(), items, n, k));
}

KernelOptions inplace() { return onGpu().Inplace("y", "x"); }

REGISTER_KERNELS("cumsum").Kernel<OfFunction<bindCumsum>::Kernel, types::Numbers>("x", inplace());
REGISTER_KERNELS("cumprod").Kernel<OfFunction<bindCumprod>::Kernel, types::Numbers>("x", inplace());
REGISTER_KERNELS("linear_scan").Kernel<OfFunction<bindLinearScan>::Kernel, types::Floating>("a", onGpu());
REGISTER_KERNELS("cumprod_grad").Kernel<OfFunction<bindCumprodGrad>::Kernel, types::Floating>("dy", onGpu());
REGISTER_KERNELS("sort").Kernel<OfFunction<bindSort>::Kernel, types::Numbers>("in", onGpu().TmpSize(positionsSize));
REGISTER_KERNELS("arg_sort")
    .Kernel<OfFunction<bindArgSort>::Kernel, types::Numbers>("in", onGpu().TmpSize(positionsSize));
REGISTER_KERNELS("top_k").Kernel<OfFunction<bindTopK>::Kernel, types::Numbers>("in", onGpu().TmpSize(positionsSize));

} // namespace
} // namespace opc::ops::reduce
