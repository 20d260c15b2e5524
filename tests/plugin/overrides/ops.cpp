// Ops with the names of built-in ones that do something else, their gradient among them.
// SPDX-License-Identifier: Apache-2.0
#include "oneflow/core/framework/framework.h"

namespace oneflow {
namespace {

Maybe<void> sameAsInput(user_op::InferContext *ctx) {
  *ctx->Shape4ArgNameAndIndex("y", 0) = *ctx->Shape4ArgNameAndIndex("x", 0);
  return Maybe<void>::Ok();
}

/// y = factor x, where the built-in op is something else.
template <int factor> class Times final : public user_op::OpKernel {
private:
  void Compute(user_op::KernelComputeContext *ctx) const override {
    const user_op::Tensor *x = ctx->Tensor4ArgNameAndIndex("x", 0);
    user_op::Tensor *y = ctx->Tensor4ArgNameAndIndex("y", 0);
    for (int64_t i = 0; i < x->shape().elem_cnt(); ++i) y->mut_dptr<float>()[i] = factor * x->dptr<float>()[i];
  }
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
};
#define TIMES(name, factor)                                                                                            \
  REGISTER_USER_OP(name).Input("x").Output("y").SetTensorDescInferFn(sameAsInput);                                     \
  REGISTER_USER_KERNEL(name).SetCreateFn<Times<factor>>().SetIsMatchedHob(                                             \
      (user_op::HobDeviceType() == DeviceType::kCPU) & (user_op::HobDataType("x", 0) == DataType::kFloat))

// relu is 10 x. Its gradient is made of this library's relu_grad, which is 7 x and has other arguments than the
// built-in's.
TIMES("relu", 10);
TIMES("relu_grad", 7);
REGISTER_USER_OP_GRAD("relu").SetBackwardOpConfGenFn([](user_op::BackwardOpConfContext *ctx) {
  const std::string name = ctx->FwOp().op_name() + "_grad";
  ctx->DefineOp(name, [&](user_op::BackwardOpBuilder &builder) {
    return builder.OpTypeName("relu_grad").InputBind("x", ctx->FwOp().output_grad("y", 0)).Output("y").Build();
  });
  ctx->FwOp().InputGradBind(user_op::OpArg("x", 0),
                            [&]() -> const std::string & { return ctx->GetOp(name).output("y", 0); });
});

// Something new beside them keeps its name.
TIMES("times_three", 3);

} // namespace
} // namespace oneflow
