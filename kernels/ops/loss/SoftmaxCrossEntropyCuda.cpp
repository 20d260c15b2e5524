// The cross entropies of a softmax and their gradients on GPUs.
// SPDX-License-Identifier: Apache-2.0
#include "CudaLaunch.h"
#include "loss/LossRows.h"

namespace opc::ops::loss {
namespace {

using cuda::CudaLaunch;

/// "softmax_cross_entropy_f32", "sparse_softmax_cross_entropy_f32_i64".
std::string kernelName(KernelBindContext *ctx, DataType type) {
  std::string name = ctx->op_type_name() + "_" + dataTypeName(type);
  if (name.rfind("sparse", 0) == 0) name += std::string("_") + dataTypeName(ctx->In("label").data_type());
  return name;
}

std::unique_ptr<BoundKernel> bindRowsOf(const Shape &classes, cuda::CudaFunction kernel, const void *a, const void *b,
                                        void *c, void *d) {
  const int64_t n = classesOf(classes), rows = rowsOf(classes).elem_cnt();
  const cuda::Dim3 grid{static_cast<uint32_t>(std::clamp<int64_t>((rows + 7) / 8, 1, 65535)), 1, 1};
  return bindTask([=](DeviceCtx *dev) {
    if (rows > 0) CudaLaunch::of(dev).run(kernel, grid, {cuda::kBlock, 1, 1}, 0, a, b, c, d, rows, n);
  });
}

template <class T> class CrossEntropyCuda final : public BindingKernel {
public:
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    const auto kernel = CudaLaunch::of(ctx->device_ctx()).function(kernelName(ctx, GetDataType<T>::value));
    return bindRowsOf(ctx->In("prediction").shape(), kernel, ctx->In("prediction").raw_dptr(),
                      ctx->In("label").raw_dptr(), ctx->Out("prob").mut_raw_dptr(), ctx->Out("out").mut_raw_dptr());
  }
};

template <class T> class CrossEntropyGradCuda final : public BindingKernel {
public:
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    const auto kernel = CudaLaunch::of(ctx->device_ctx()).function(kernelName(ctx, GetDataType<T>::value));
    return bindRowsOf(ctx->In("prob").shape(), kernel, ctx->In("label").raw_dptr(), ctx->In("dy").raw_dptr(),
                      const_cast<void *>(ctx->In("prob").raw_dptr()), ctx->Out("prediction_diff").mut_raw_dptr());
  }
};

const KernelOptions kOnGpu = KernelOptions().Device(DeviceType::kGPU);

REGISTER_KERNELS("sparse_softmax_cross_entropy").Kernel<CrossEntropyCuda, types::Floating>("prediction", kOnGpu);
REGISTER_KERNELS("softmax_cross_entropy").Kernel<CrossEntropyCuda, types::Floating>("prediction", kOnGpu);
REGISTER_KERNELS("sparse_softmax_cross_entropy_grad").Kernel<CrossEntropyGradCuda, types::Floating>("prob", kOnGpu);
REGISTER_KERNELS("softmax_cross_entropy_grad").Kernel<CrossEntropyGradCuda, types::Floating>("prob", kOnGpu);

} // namespace
} // namespace opc::ops::loss
