// Products of matrices and vectors on GPUs.
// SPDX-License-Identifier: Apache-2.0
#include "CudaPrecision.h"
#include "linear_algebra/MatmulArguments.h"
#include "linear_algebra/MatrixProduct.h"
#include "reduce/ReduceCuda.h"
#include "support/CudaTask.h"
#include "support/FunctionKernel.h"

namespace opc::ops {
namespace {

bool beginsWhole(const void *at) { return reinterpret_cast<uintptr_t>(at) % 16 == 0; }

/// How a product is computed: the kernel's name without its type, and the side of its tiles.
struct Tiling {
  const char *kernel;
  int64_t side;
};
/// Large tiles read least, where there are enough of them for a GPU's multiprocessors; all of the same type add up in
/// the same order, but for the matrix units, which add up in f32.
Tiling tilingOf(const MatmulArguments &p, DataType type, bool units) {
  constexpr int64_t kEnough = 64;
  // Enough of them, and most of each used.
  auto fits = [&](int64_t side) {
    const int64_t across = std::min((p.n + side - 1) / side, kEnough) * std::min(p.batches, kEnough);
    return p.m > side / 2 && p.n > side / 2 && (p.m + side - 1) / side * across >= kEnough;
  };
  if (units) {
    if (fits(128)) return {"matmul_units_wide", 128};
    if (p.m >= 32 && p.n >= 32) return {"matmul_units", 64};
  }
  if (type == DataType::kFloat && fits(128)) return {"matmul_wide_tiles", 128};
  return fits(64) ? Tiling{"matmul_tiles", 64} : Tiling{"matmul", 16};
}

std::unique_ptr<BoundKernel> bindProductOnGpu(KernelBindContext *ctx, DataType type, MatmulArguments p) {
  cuda::CudaLaunch &launch = cuda::CudaLaunch::of(ctx->device_ctx());
  const int64_t whole = 16 / static_cast<int64_t>(GetSizeOfDataType(type));
  p.wideA = beginsWhole(p.a) && (p.transA ? p.m : p.k) % whole == 0;
  p.wideB = beginsWhole(p.b) && (p.transB ? p.k : p.n) % whole == 0;
  p.wideOut = beginsWhole(p.out) && beginsWhole(p.add) && p.n % 4 == 0;
  const Tiling tiling = tilingOf(p, type, cuda::CudaPrecision::of(ctx->device_ctx()).takesMatrixUnits(type));
  const auto kernel = launch.function(kernelOf(tiling.kernel, type));
  auto tiles = [&](int64_t n) { return (n + tiling.side - 1) / tiling.side; };
  const cuda::Dim3 grid = cuda::gridOf(tiles(p.n) * tiles(p.m) * p.batches, INT32_MAX);
  return bindTask([=](DeviceCtx *dev) { cuda::CudaLaunch::of(dev).run(kernel, grid, {256, 1, 1}, 0, p); });
}

template <class T> class MatmulCuda final : public BindingKernel {
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    const Shape &givenA = ctx->In("a").shape(), &givenB = ctx->In("b").shape();
    const Shape a = matricesOf(givenA, true), b = matricesOf(givenB, false);
    const Shape out = productMatrices(givenA, givenB, ctx->Out("out").shape());
    MatmulArguments p{};
    p.a = ctx->In("a").raw_dptr();
    p.b = ctx->In("b").raw_dptr();
    p.add = ctx->Has("_add_to_output") ? ctx->In("_add_to_output").raw_dptr() : nullptr;
    p.out = ctx->Out("out").mut_raw_dptr();
    p.transA = isTransposed(givenA, ctx->Attr<bool>("transpose_a"));
    p.transB = isTransposed(givenB, ctx->Attr<bool>("transpose_b"));
    p.alpha = ctx->Attr<double>("alpha");
    p.m = out.At(out.NumAxes() - 2);
    p.n = out.At(out.NumAxes() - 1);
    p.k = a.At(a.NumAxes() - (p.transA ? 2 : 1));
    p.batches = out.Count(0, out.NumAxes() - 2);
    p.rank = static_cast<int32_t>(out.NumAxes() - 2);
    for (int32_t i = 0; i < p.rank; ++i) p.dims[i] = out.At(i);
    batchSteps(a, out, p.stepA);
    batchSteps(b, out, p.stepB);
    return bindProductOnGpu(ctx, GetDataType<T>::value, p);
  }
};

/// One product of matrices of these sizes, which lie one after the other.
MatmulArguments oneProduct(KernelBindContext *ctx, int64_t m, int64_t n, int64_t k) {
  MatmulArguments p{};
  p.a = ctx->In("a").raw_dptr();
  p.b = ctx->In("b").raw_dptr();
  p.out = ctx->Out("out").mut_raw_dptr();
  p.alpha = 1;
  p.m = m;
  p.n = n;
  p.k = k;
  p.batches = 1;
  return p;
}
/// A vector is a matrix of one row or column.
std::unique_ptr<BoundKernel> bindVector(KernelBindContext *ctx) {
  const Shape &a = ctx->In("a").shape(), &b = ctx->In("b").shape();
  return bindProductOnGpu(ctx, ctx->Out("out").data_type(),
                          oneProduct(ctx, a.NumAxes() == 2 ? a.At(0) : 1, b.NumAxes() == 2 ? b.At(1) : 1, b.At(0)));
}
std::unique_ptr<BoundKernel> bindGradB(KernelBindContext *ctx) {
  const Shape &a = ctx->In("a").shape(), &out = ctx->Out("out").shape();
  MatmulArguments p = oneProduct(ctx, out.At(0), out.At(1), a.Count(0, a.NumAxes() - 1));
  p.transA = true;
  p.alpha = ctx->Attr<double>("alpha");
  p.add = ctx->Has("_add_to_output") ? ctx->In("_add_to_output").raw_dptr() : nullptr;
  return bindProductOnGpu(ctx, ctx->Out("out").data_type(), p);
}
std::unique_ptr<BoundKernel> bindDot(KernelBindContext *ctx) {
  return reduce::bindWholeSum(ctx, "dot", {&ctx->In("x")}, &ctx->In("y"), ctx->Out("out"));
}
const KernelOptions kOnGpu = onGpu();

REGISTER_KERNELS("matmul").Kernel<MatmulCuda, ProductTypes>("out", kOnGpu);
REGISTER_KERNELS("batch_matmul").Kernel<MatmulCuda, ProductTypes>("out", kOnGpu);
REGISTER_KERNELS("broadcast_matmul").Kernel<MatmulCuda, ProductTypes>("out", kOnGpu);
REGISTER_KERNELS("matrix_vector_product").Kernel<OfFunction<bindVector>::Kernel, ProductTypes>("out", kOnGpu);
REGISTER_KERNELS("vector_matrix_product").Kernel<OfFunction<bindVector>::Kernel, ProductTypes>("out", kOnGpu);
REGISTER_KERNELS("broadcast_matmul_grad_b").Kernel<OfFunction<bindGradB>::Kernel, types::Floating>("out", kOnGpu);
REGISTER_KERNELS("dot").Kernel<OfFunction<bindDot>::Kernel, ProductTypes>("out", onGpu().TmpSize([](InferContext *ctx) {
  return reduce::wholeSumSize(ctx, "x");
}));

} // namespace
} // namespace opc::ops
