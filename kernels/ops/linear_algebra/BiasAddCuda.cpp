// bias_add on GPUs.
// SPDX-License-Identifier: Apache-2.0
#include "support/CudaTask.h"
#include "support/Operator.h"

namespace opc::ops {
namespace {

template <class T> class BiasAddCuda final : public BindingKernel {
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    const Shape &shape = ctx->In("a").shape();
    int64_t axis = ctx->Attr<int32_t>("axis");
    if (axis < 0) axis += shape.NumAxes();
    const void *a = ctx->In("a").raw_dptr(), *b = ctx->In("b").raw_dptr();
    void *out = ctx->Out("out").mut_raw_dptr();
    const int64_t n = shape.elem_cnt(), channels = shape.At(axis), inner = shape.Count(axis + 1);
    return bindLaunch(ctx, kernelOf("bias_add", GetDataType<T>::value), n, a, b, out, n, channels, inner);
  }
};

REGISTER_KERNELS("bias_add").Kernel<BiasAddCuda, types::Numbers>("out", onGpu().Inplace("out", "a"));

} // namespace
} // namespace opc::ops
