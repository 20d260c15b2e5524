// softmax, log_softmax and their gradients on GPUs.
// SPDX-License-Identifier: Apache-2.0
#include "support/CudaTask.h"
#include "support/Operator.h"

namespace opc::ops {
namespace {

template <class T> class SoftmaxCuda final : public BindingKernel {
public:
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    const Tensor &in = ctx->In("in");
    void *to = ctx->Out(ctx->outputs()[0].first).mut_raw_dptr();
    const void *from = in.raw_dptr();
    const Shape &shape = in.shape();
    const int64_t n = shape.At(shape.NumAxes() - 1), rows = n == 0 ? 0 : shape.elem_cnt() / n;
    return bindWarps(ctx, kernelOf(ctx->op_type_name(), GetDataType<T>::value), rows, from, to, rows, n);
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
    return bindWarps(ctx, kernelOf(ctx->op_type_name(), GetDataType<T>::value), rows, y, dy, dx, rows, n);
  }
};

const KernelOptions kOnGpu = onGpu();

REGISTER_KERNELS("softmax").Kernel<SoftmaxCuda, types::Floating>("in", kOnGpu);
REGISTER_KERNELS("log_softmax").Kernel<SoftmaxCuda, types::Floating>("in", kOnGpu);
REGISTER_KERNELS("softmax_grad").Kernel<SoftmaxGradCuda, types::Floating>("dy", kOnGpu);
REGISTER_KERNELS("log_softmax_grad").Kernel<SoftmaxGradCuda, types::Floating>("dy", kOnGpu);

} // namespace
} // namespace opc::ops
