// matmul, batch_matmul and broadcast_matmul on GPUs.
// SPDX-License-Identifier: Apache-2.0
#include "CudaLaunch.h"
#include "linear_algebra/MatmulArguments.h"
#include "linear_algebra/MatrixProduct.h"

namespace opc::ops {
namespace {

/// How far apart the matrices of an operand are along each axis of the result's batch.
void batchSteps(const Shape &operand, const Shape &out, int64_t *steps) {
  const int64_t rank = out.NumAxes() - 2, own = operand.NumAxes() - 2;
  const int64_t matrix = operand.At(own) * operand.At(own + 1);
  for (int64_t i = 0; i < rank; ++i) {
    const int64_t axis = i - (rank - own);
    steps[i] = axis >= 0 && operand.At(axis) != 1 ? operand.Count(axis + 1, own) * matrix : 0;
  }
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
    cuda::CudaLaunch &device = cuda::CudaLaunch::of(ctx->device_ctx());
    const auto kernel = device.function(std::string("matmul_") + dataTypeName(GetDataType<T>::value));
    auto tiles = [](int64_t n, int64_t limit) {
      return static_cast<uint32_t>(std::clamp<int64_t>((n + 15) / 16, 1, limit));
    };
    const cuda::Dim3 grid{tiles(p.n, INT32_MAX), tiles(p.m, 65535),
                          static_cast<uint32_t>(std::clamp<int64_t>(p.batches, 1, 65535))};
    return bindTask([=](DeviceCtx *dev) { cuda::CudaLaunch::of(dev).run(kernel, grid, {16, 16, 1}, 0, p); });
  }
};

const KernelOptions kOnGpu = KernelOptions().Device(DeviceType::kGPU);

REGISTER_KERNELS("matmul").Kernel<MatmulCuda, ProductTypes>("out", kOnGpu);
REGISTER_KERNELS("batch_matmul").Kernel<MatmulCuda, ProductTypes>("out", kOnGpu);
REGISTER_KERNELS("broadcast_matmul").Kernel<MatmulCuda, ProductTypes>("out", kOnGpu);

} // namespace
} // namespace opc::ops
