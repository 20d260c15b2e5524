// Operators that break the SDK's contract, one way each; every one must become an error that names the op.
// SPDX-License-Identifier: Apache-2.0
#include "opc/Op.h"

#include <stdexcept>

using namespace opc;
using namespace opc::user_op;

namespace {
Maybe<void> sameAsX(InferContext *ctx) {
  *ctx->Shape4ArgNameAndIndex("y", 0) = *ctx->Shape4ArgNameAndIndex("x", 0);
  *ctx->Dtype4ArgNameAndIndex("y", 0) = *ctx->Dtype4ArgNameAndIndex("x", 0);
  return Maybe<void>::Ok();
}

template <void (*Body)(KernelComputeContext *)> class Kernel final : public OpKernel {
public:
  using OpKernel::Compute;
  void Compute(KernelComputeContext *ctx) const override { Body(ctx); }
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
};

void readsDouble(KernelComputeContext *ctx) {
  const double *x = ctx->Tensor4ArgNameAndIndex("x", 0)->dptr<double>();
  ctx->Tensor4ArgNameAndIndex("y", 0)->mut_dptr<float>()[0] = static_cast<float>(x[0]);
}
REGISTER_USER_OP("bad_dtype").Input("x").Output("y").SetTensorDescInferFn(sameAsX);
REGISTER_USER_KERNEL("bad_dtype")
    .SetCreateFn<Kernel<readsDouble>>()
    .SetIsMatchedHob(HobDeviceType() == DeviceType::kCPU);

void readsAbsent(KernelComputeContext *ctx) {
  const float *bias = ctx->Tensor4ArgNameAndIndex("bias", 0)->dptr<float>();
  ctx->Tensor4ArgNameAndIndex("y", 0)->mut_dptr<float>()[0] = bias[0];
}
REGISTER_USER_OP("bad_optional").Input("x").OptionalInput("bias").Output("y").SetTensorDescInferFn(sameAsX);
REGISTER_USER_KERNEL("bad_optional")
    .SetCreateFn<Kernel<readsAbsent>>()
    .SetIsMatchedHob(HobDeviceType() == DeviceType::kCPU);

void writesInput(KernelComputeContext *ctx) { ctx->Tensor4ArgNameAndIndex("x", 0)->mut_dptr<float>()[0] = 1; }
REGISTER_USER_OP("bad_write").Input("x").Output("y").SetTensorDescInferFn(sameAsX);
REGISTER_USER_KERNEL("bad_write")
    .SetCreateFn<Kernel<writesInput>>()
    .SetIsMatchedHob(HobDeviceType() == DeviceType::kCPU);

void throwsText(KernelComputeContext *) { throw std::runtime_error("the kernel gave up"); }
REGISTER_USER_OP("bad_throw").Input("x").Output("y").SetTensorDescInferFn(sameAsX);
REGISTER_USER_KERNEL("bad_throw")
    .SetCreateFn<Kernel<throwsText>>()
    .SetIsMatchedHob(HobDeviceType() == DeviceType::kCPU);

template <class Throw> void throwsInLoop(KernelComputeContext *ctx, Throw &&give) {
  ctx->device_ctx()->parallelFor(1 << 20, 1 << 10, [&](int64_t, int64_t end) {
    if (end == 1 << 20) give();
  });
}
void checksInLoop(KernelComputeContext *ctx) {
  throwsInLoop(ctx, [] { CHECK(1 == 2) << "the piece is odd"; });
}
REGISTER_USER_OP("bad_check_in_loop").Input("x").Output("y").SetTensorDescInferFn(sameAsX);
REGISTER_USER_KERNEL("bad_check_in_loop")
    .SetCreateFn<Kernel<checksInLoop>>()
    .SetIsMatchedHob(HobDeviceType() == DeviceType::kCPU);

void throwsInLoop(KernelComputeContext *ctx) {
  throwsInLoop(ctx, [] { throw std::runtime_error("the piece gave up"); });
}
REGISTER_USER_OP("bad_throw_in_loop").Input("x").Output("y").SetTensorDescInferFn(sameAsX);
REGISTER_USER_KERNEL("bad_throw_in_loop")
    .SetCreateFn<Kernel<throwsInLoop>>()
    .SetIsMatchedHob(HobDeviceType() == DeviceType::kCPU);

void throwsNumber(KernelComputeContext *) { throw 42; }
REGISTER_USER_OP("bad_throw_number").Input("x").Output("y").SetTensorDescInferFn(sameAsX);
REGISTER_USER_KERNEL("bad_throw_number")
    .SetCreateFn<Kernel<throwsNumber>>()
    .SetIsMatchedHob(HobDeviceType() == DeviceType::kCPU);

REGISTER_USER_OP("bad_rank").Input("x").Output("y").SetTensorDescInferFn([](InferContext *ctx) -> Maybe<void> {
  *ctx->Shape4ArgNameAndIndex("y", 0) = Shape(DimVector(40, 1));
  *ctx->Dtype4ArgNameAndIndex("y", 0) = kFloat;
  return Maybe<void>::Ok();
});

REGISTER_USER_OP("bad_negative").Input("x").Output("y").SetTensorDescInferFn([](InferContext *ctx) -> Maybe<void> {
  *ctx->Shape4ArgNameAndIndex("y", 0) = Shape(DimVector{3, -5});
  *ctx->Dtype4ArgNameAndIndex("y", 0) = kFloat;
  return Maybe<void>::Ok();
});

REGISTER_USER_OP("bad_index").Input("x", 2).Output("y").SetTensorDescInferFn([](InferContext *ctx) -> Maybe<void> {
  *ctx->Shape4ArgNameAndIndex("y", 0) = *ctx->Shape4ArgNameAndIndex("x", 7);
  *ctx->Dtype4ArgNameAndIndex("y", 0) = *ctx->Dtype4ArgNameAndIndex("x", 0);
  return Maybe<void>::Ok();
});

REGISTER_USER_OP("bad_rule").Input("x").Output("y").SetTensorDescInferFn([](InferContext *) -> Maybe<void> {
  throw std::runtime_error("the rule gave up");
});

REGISTER_USER_OP("bad_attr")
    .Input("x")
    .Output("y")
    .Attr<float>("scale", 1.0f)
    .SetTensorDescInferFn([](InferContext *ctx) -> Maybe<void> {
      CHECK_GT_OR_RETURN(ctx->Attr<double>("scale"), 0.0);
      return sameAsX(ctx);
    });

REGISTER_USER_OP("no_kernel").Input("x").Output("y").SetTensorDescInferFn(sameAsX);
} // namespace
