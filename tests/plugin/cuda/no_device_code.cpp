// A kernel for GPUs whose device code is in no build of opc, as every one is in a build without nvcc.
// SPDX-License-Identifier: Apache-2.0
#include "CudaLaunch.h"
#include "opc/Op.h"

using namespace opc;
using namespace opc::user_op;

namespace {

Maybe<void> same(InferContext *ctx) {
  ctx->Out("y") = ctx->In("x");
  return Maybe<void>::Ok();
}

class Kernel final : public OpKernel {
public:
  using OpKernel::Compute;
  void Compute(KernelComputeContext *ctx) const override {
    cuda::CudaLaunch::of(ctx->device_ctx()).function("a_kernel_of_no_build");
  }
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
};

} // namespace

REGISTER_USER_OP("no_device_code").Input("x").Output("y").Pure().SetTensorDescInferFn(same).Sharding("a b -> a b");
REGISTER_USER_KERNEL("no_device_code").SetCreateFn<Kernel>().SetIsMatchedHob(HobDeviceType() == DeviceType::kGPU);
