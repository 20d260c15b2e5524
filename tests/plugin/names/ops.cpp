// One operator under names that sound like something else.
// SPDX-License-Identifier: Apache-2.0
#include "oneflow/core/framework/framework.h"

namespace oneflow {
namespace {

Maybe<void> sameAsInput(user_op::InferContext *ctx) {
  *ctx->Shape4ArgNameAndIndex("y", 0) = *ctx->Shape4ArgNameAndIndex("x", 0);
  *ctx->Dtype4ArgNameAndIndex("y", 0) = *ctx->Dtype4ArgNameAndIndex("x", 0);
  return Maybe<void>::Ok();
}

/// y = 2 x.
class Twice final : public user_op::OpKernel {
private:
  void Compute(user_op::KernelComputeContext *ctx) const override {
    const user_op::Tensor *x = ctx->Tensor4ArgNameAndIndex("x", 0);
    user_op::Tensor *y = ctx->Tensor4ArgNameAndIndex("y", 0);
    for (int64_t i = 0; i < x->shape().elem_cnt(); ++i) y->mut_dptr<float>()[i] = 2 * x->dptr<float>()[i];
  }
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
};

#define TWICE(name)                                                                                                    \
  REGISTER_USER_OP(name).Input("x").Output("y").SetTensorDescInferFn(sameAsInput);                                     \
  REGISTER_USER_KERNEL(name).SetCreateFn<Twice>().SetIsMatchedHob(                                                     \
      (user_op::HobDeviceType() == DeviceType::kCPU) & (user_op::HobDataType("x", 0) == GetDataType<float>::value))

TWICE("my_max_pool_2d_grad");
TWICE("my_plain_max_pool2d");
TWICE("my_quite_plain_name");

} // namespace
} // namespace oneflow
