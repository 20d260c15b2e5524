// softmax, log_softmax and their gradients on GPUs.
// SPDX-License-Identifier: Apache-2.0
#include "CudaLaunch.h"
#include "support/Operator.h"

namespace opc::ops {
namespace {

using cuda::CudaLaunch;

/// A warp for each row of the last axis.
cuda::Dim3 gridOfRows(int64_t rows) {
  return {static_cast<uint32_t>(std::clamp<int64_t>((rows + 7) / 8, 1, 65535)), 1, 1};
}

template <class T> class SoftmaxCuda final : public BindingKernel {
public:
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    const Tensor &in = ctx->In("in");
    void *to = ctx->Out(ctx->outputs()[0].first).mut_raw_dptr();
    const void *from = in.raw_dptr();
    const Shape &shape = in.shape();
    const int64_t n = shape.At(shape.NumAxes() - 1), rows = n == 0 ? 0 : shape.elem_cnt() / n;
    const auto kernel =
        CudaLaunch::of(ctx->device_ctx()).function(ctx->op_type_name() + "_" + dataTypeName(GetDataType<T>::value));
    return bindTask([=](DeviceCtx *dev) {
      if (rows > 0) CudaLaunch::of(dev).run(kernel, gridOfRows(rows), {cuda::kBlock, 1, 1}, 0, from, to, rows, n);
    });
  }
};

template <class T> class SoftmaxGradCuda final : public BindingKernel {
public:
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    const Tensor &grad = ctx->In("dy");
    const void *y = ctx->In(ctx->inputs()[0].first).raw_dptr(), *dy = grad.raw_dptr();
    void *dx = ctx->Out("dx").mut_raw_dptr();
    const Shape &shape = grad.shape();
    const int64_t n = shape.At(shape.NumAxes() - 1), rows = n == 0 ? 0 : shape.elem_cnt() / n;
    const auto kernel =
        CudaLaunch::of(ctx->device_ctx()).function(ctx->op_type_name() + "_" + dataTypeName(GetDataType<T>::value));
    return bindTask([=](DeviceCtx *dev) {
      if (rows > 0) CudaLaunch::of(dev).run(kernel, gridOfRows(rows), {cuda::kBlock, 1, 1}, 0, y, dy, dx, rows, n);
    });
  }
};

const KernelOptions kOnGpu = KernelOptions().Device(DeviceType::kGPU);

REGISTER_KERNELS("softmax").Kernel<SoftmaxCuda, types::Floating>("in", kOnGpu);
REGISTER_KERNELS("log_softmax").Kernel<SoftmaxCuda, types::Floating>("in", kOnGpu);
REGISTER_KERNELS("softmax_grad").Kernel<SoftmaxGradCuda, types::Floating>("dy", kOnGpu);
REGISTER_KERNELS("log_softmax_grad").Kernel<SoftmaxGradCuda, types::Floating>("dy", kOnGpu);

} // namespace
} // namespace opc::ops
