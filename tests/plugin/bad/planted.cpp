// Identities with a planted error each, which only one way of running shows; opc debug first-diff must name them.
// SPDX-License-Identifier: Apache-2.0
#include "opc/Op.h"

using namespace opc;
using namespace opc::user_op;

namespace {

Maybe<void> same(InferContext *ctx) {
  ctx->Out("y") = ctx->In("x");
  return Maybe<void>::Ok();
}

/// y = x, and y[0] = x[0] + 1 where Wrong says so.
template <class T, bool (*Wrong)(KernelComputeContext *)> class Identity : public OpKernel {
public:
  using OpKernel::Compute;
  void Compute(KernelComputeContext *ctx) const override {
    const Tensor &x = ctx->In("x");
    T *y = ctx->Out("y").mut_dptr<T>();
    const bool wrong = Wrong(ctx);
    for (int64_t i = 0; i < x.shape().elem_cnt(); ++i) y[i] = x.dptr<T>()[i];
    if (wrong) y[0] += 1;
  }
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
};
template <bool (*Wrong)(KernelComputeContext *)> struct Of {
  template <class T> class Kernel final : public Identity<T, Wrong> {};
};

bool inFloat(KernelComputeContext *ctx) { return ctx->In("x").data_type() == kFloat; }
bool withThreads(KernelComputeContext *ctx) { return ctx->device_ctx()->threads() > 1; }
bool inPlace(KernelComputeContext *ctx) { return ctx->In("x").dptr<char>() == ctx->Out("y").mut_dptr<char>(); }
bool onAPart(KernelComputeContext *ctx) { return ctx->In("x").shape().At(0) < 8; }

} // namespace

#define PLANTED(name, wrong)                                                                                           \
  REGISTER_USER_OP(name)                                                                                               \
      .Input("x")                                                                                                      \
      .Output("y")                                                                                                     \
      .Pure()                                                                                                          \
      .SetTensorDescInferFn(same)                                                                                      \
      .Sharding("a b -> a b")                                                                                          \
      .Kernel<Of<wrong>::Kernel, types::Of<float, double>>("x", KernelOptions().Inplace("y", "x"))

PLANTED("planted_float", inFloat);
PLANTED("planted_threads", withThreads);
PLANTED("planted_inplace", inPlace);
PLANTED("planted_part", onAPart);
