// The smallest plugin: y = 2 x. Its binaries of all versions are kept in the folders beside it.
// SPDX-License-Identifier: Apache-2.0
#include "opc/Kernel.h"
#include "opc/Op.h"

namespace {

using namespace opc;

REGISTER_USER_OP("compat_twice")
    .Input("in")
    .Output("out")
    .SetTensorDescInferFn([](user_op::InferContext *ctx) -> Maybe<void> {
      *ctx->Shape4ArgNameAndIndex("out", 0) = *ctx->Shape4ArgNameAndIndex("in", 0);
      *ctx->Dtype4ArgNameAndIndex("out", 0) = *ctx->Dtype4ArgNameAndIndex("in", 0);
      return Maybe<void>::Ok();
    });

class TwiceKernel final : public user_op::OpKernel {
  void Compute(user_op::KernelComputeContext *ctx) const override {
    const user_op::Tensor *in = ctx->Tensor4ArgNameAndIndex("in", 0);
    float *out = ctx->Tensor4ArgNameAndIndex("out", 0)->mut_dptr<float>();
    for (int64_t i = 0; i < in->shape().elem_cnt(); ++i) out[i] = 2 * in->dptr<float>()[i];
  }
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
};

REGISTER_USER_KERNEL("compat_twice")
    .SetCreateFn<TwiceKernel>()
    .SetIsMatchedHob(user_op::HobDataType("out", 0) == kFloat);

} // namespace
