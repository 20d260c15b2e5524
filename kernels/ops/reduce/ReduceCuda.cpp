// reduce_* on GPUs.
// SPDX-License-Identifier: Apache-2.0
#include "reduce/ReduceCuda.h"
#include "reduce/ReduceOp.h"
#include "support/FunctionKernel.h"

namespace opc::ops::reduce {
namespace {

/// Neighbouring axes of one kind become one.
void addAxis(int64_t size, int64_t stride, int32_t *rank, int64_t *dims, int64_t *strides) {
  if (size == 1) return;
  if (*rank > 0 && strides[*rank - 1] == stride * size) {
    dims[*rank - 1] *= size;
    strides[*rank - 1] = stride;
    return;
  }
  dims[*rank] = size;
  strides[*rank] = stride;
  ++*rank;
}

/// Whether neighbouring elements go into one result, and enough of them for a block.
bool goesByRows(const ReduceArguments &a) {
  const bool innermostIsReduced =
      a.reducedRank > 0 && (a.keptRank == 0 || a.reducedStrides[a.reducedRank - 1] < a.keptStrides[a.keptRank - 1]);
  return innermostIsReduced && a.count > 8;
}
/// Blocks that sum a tensor.
int64_t partsOf(int64_t elements) { return std::clamp<int64_t>((elements + 4095) / 4096, 1, 512); }

} // namespace

ReduceArguments reduceArguments(const Tensor &in, Tensor &out, const std::vector<int64_t> &axes) {
  const Shape &shape = in.shape();
  const DimVector strides = rowMajorStrides(shape);
  ReduceArguments a{};
  a.in = in.raw_dptr();
  a.out = out.mut_raw_dptr();
  a.outputs = a.count = 1;
  for (int64_t i = 0; i < shape.NumAxes(); ++i) {
    const bool isReduced = std::binary_search(axes.begin(), axes.end(), i);
    (isReduced ? a.count : a.outputs) *= shape.At(i);
    const int64_t stride = strides[static_cast<size_t>(i)];
    isReduced ? addAxis(shape.At(i), stride, &a.reducedRank, a.reducedDims, a.reducedStrides)
              : addAxis(shape.At(i), stride, &a.keptRank, a.keptDims, a.keptStrides);
  }
  return a;
}

std::unique_ptr<BoundKernel> bindReduction(KernelBindContext *ctx, const std::string &name, DataType type,
                                           const ReduceArguments &a) {
  const bool rows = goesByRows(a);
  return bindGrid(ctx, kernelOf(name + (rows ? "_rows" : "_columns"), type), a.outputs,
                  rows ? cuda::gridOf(a.outputs) : cuda::blocksFor(a.outputs), a);
}

std::unique_ptr<BoundKernel> bindWholeSum(KernelBindContext *ctx, const std::string &name,
                                          const std::vector<const Tensor *> &x, const Tensor *y, Tensor &out) {
  const DataType type = x[0]->data_type();
  cuda::CudaLaunch &device = cuda::CudaLaunch::of(ctx->device_ctx());
  const cuda::CudaFunction parts = device.function(kernelOf(name + "_parts", type)),
                           sum = device.function(kernelOf("sum_parts", out.data_type()));
  std::vector<std::pair<const void *, int64_t>> inputs;
  for (const Tensor *t : x) inputs.emplace_back(t->raw_dptr(), t->shape().elem_cnt());
  const void *second = y ? y->raw_dptr() : nullptr;
  auto *tmp = ctx->Tmp<uint64_t>(); // each part has 8 bytes
  void *to = out.mut_raw_dptr();
  return bindTask([=](DeviceCtx *dev) {
    cuda::CudaLaunch &gpu = cuda::CudaLaunch::of(dev);
    int64_t count = 0;
    for (const auto &[data, n] : inputs) {
      const int64_t blocks = partsOf(n);
      gpu.run(parts, {static_cast<uint32_t>(blocks), 1, 1}, {cuda::kBlock, 1, 1}, 0, data, second,
              static_cast<void *>(tmp + count), n);
      count += blocks;
    }
    gpu.run(sum, {1, 1, 1}, {cuda::kBlock, 1, 1}, 0, static_cast<const void *>(tmp), count, to);
  });
}
size_t wholeSumSize(InferContext *ctx, const char *arg) {
  int64_t count = 0;
  for (int32_t i = 0; i < ctx->input_size(arg); ++i) count += partsOf(ctx->In(arg, i).shape().elem_cnt());
  return static_cast<size_t>(count) * sizeof(uint64_t);
}

namespace {

std::unique_ptr<BoundKernel> bindReduce(KernelBindContext *ctx) {
  const Tensor &in = ctx->In("input_tensor");
  const auto axes = valueOf(resolveAxes(ctx->Attr<std::vector<int32_t>>("axis"), in.shape().NumAxes()));
  ReduceArguments a = reduceArguments(in, ctx->Out("output_tensor"), axes);
  a.divisor = static_cast<double>(planOf(ctx, wholeShape(ctx, "input_tensor")).reduceCount); // in may be a piece
  return bindReduction(ctx, ctx->op_type_name(), in.data_type(), a);
}
std::unique_ptr<BoundKernel> bindSumLike(KernelBindContext *ctx) {
  const Tensor &x = ctx->In("x");
  const auto axes = valueOf(resolveAxes(ctx->Attr<std::vector<int32_t>>("axis"), x.shape().NumAxes()));
  return bindReduction(ctx, "reduce_sum", x.data_type(), reduceArguments(x, ctx->Out("y"), axes));
}
std::unique_ptr<BoundKernel> bindVar(KernelBindContext *ctx) {
  const Tensor &in = ctx->In("input");
  auto axes = valueOf(resolveAxes(ctx->Attr<std::vector<int32_t>>("dim"), in.shape().NumAxes(), "dim"));
  if (axes.empty())
    for (int64_t i = 0; i < in.shape().NumAxes(); ++i) axes.push_back(i);
  ReduceArguments a = reduceArguments(in, ctx->Out("output"), axes);
  // One element less for the unbiased estimate; of a single element it is NaN, as 0/0.
  const double count = static_cast<double>(a.count);
  a.divisor = ctx->Attr<bool>("unbiased") ? std::max(0.0, count - 1) : count;
  return bindReduction(ctx, "var", in.data_type(), a);
}
std::unique_ptr<BoundKernel> bindProdGrad(KernelBindContext *ctx) {
  const Tensor &x = ctx->In("x");
  const auto axes = valueOf(resolveAxes(ctx->Attr<std::vector<int32_t>>("axis"), x.shape().NumAxes()));
  const ReduceArguments a = reduceArguments(x, ctx->Out("dx"), axes);
  return bindLaunch(ctx, kernelOf("reduce_prod_grad", x.data_type()), a.outputs, a, ctx->In("dy").raw_dptr());
}
std::unique_ptr<BoundKernel> bindSquares(KernelBindContext *ctx) {
  std::vector<const Tensor *> x;
  for (int32_t i = 0; i < ctx->input_size("x"); ++i) x.push_back(&ctx->In("x", i));
  return bindWholeSum(ctx, "square_sum", x, nullptr, ctx->Out("y"));
}
std::unique_ptr<BoundKernel> bindCount(KernelBindContext *ctx) {
  return bindWholeSum(ctx, "count_not_finite", {&ctx->In("x")}, nullptr, ctx->Out("y"));
}

template <class> using Kernel = FunctionKernel<bindReduce>;
const KernelOptions kOnGpu = onGpu();
KernelOptions withParts() {
  return onGpu().TmpSize([](InferContext *ctx) { return wholeSumSize(ctx, "x"); });
}

REGISTER_KERNELS("reduce_sum").Kernel<Kernel, types::Numbers>("input_tensor", kOnGpu);
REGISTER_KERNELS("reduce_mean").Kernel<Kernel, types::Floating>("input_tensor", kOnGpu);
REGISTER_KERNELS("reduce_nansum").Kernel<Kernel, types::Floating>("input_tensor", kOnGpu);
REGISTER_KERNELS("reduce_max").Kernel<Kernel, types::Numbers>("input_tensor", kOnGpu);
REGISTER_KERNELS("reduce_min").Kernel<Kernel, types::Numbers>("input_tensor", kOnGpu);
REGISTER_KERNELS("reduce_prod").Kernel<Kernel, types::Numbers>("input_tensor", kOnGpu);
REGISTER_KERNELS("reduce_any")
    .Kernel<Kernel, Join<types::Of<bool, float, double>, types::Integers>>("input_tensor", kOnGpu);
REGISTER_KERNELS("reduce_all")
    .Kernel<Kernel, Join<types::Of<bool, float, double>, types::Integers>>("input_tensor", kOnGpu);
REGISTER_KERNELS("logsumexp").Kernel<Kernel, types::Floating>("input_tensor", kOnGpu);
REGISTER_KERNELS("reduce_sum_like").Kernel<OfFunction<bindSumLike>::Kernel, types::Numbers>("x", kOnGpu);
REGISTER_KERNELS("var").Kernel<OfFunction<bindVar>::Kernel, types::Floating>("input", kOnGpu);
REGISTER_KERNELS("reduce_prod_grad").Kernel<OfFunction<bindProdGrad>::Kernel, types::Floating>("x", kOnGpu);
REGISTER_KERNELS("square_sum").Kernel<OfFunction<bindSquares>::Kernel, types::Floating>("x", withParts());
REGISTER_KERNELS("multi_square_sum").Kernel<OfFunction<bindSquares>::Kernel, types::Floating>("x", withParts());
REGISTER_KERNELS("count_not_finite").Kernel<OfFunction<bindCount>::Kernel, types::Floating>("x", withParts());

} // namespace
} // namespace opc::ops::reduce
