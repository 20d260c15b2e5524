// bitwise_not on GPUs of the types that its scalar function does not serve.
// SPDX-License-Identifier: Apache-2.0
#include "support/CudaTask.h"
#include "support/FunctionKernel.h"
#include "support/Operator.h"

namespace opc::ops {
namespace {

std::unique_ptr<BoundKernel> bindInvert(KernelBindContext *ctx) {
  const Tensor &x = ctx->In("x");
  const int64_t n = x.shape().elem_cnt();
  return bindLaunch(ctx, kernelOf("bitwise_not", x.data_type()), n, x.raw_dptr(), ctx->Out("y").mut_raw_dptr(), n);
}
template <class> using Invert = FunctionKernel<bindInvert>;

REGISTER_KERNELS("bitwise_not")
    .Kernel<Invert, types::Of<bool, uint8_t, uint16_t, uint32_t, uint64_t>>("x", onGpu().Inplace("y", "x"));

} // namespace
} // namespace opc::ops
