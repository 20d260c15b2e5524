// Operators with effects: states, sources, sinks; and what kernels may not do: change shapes, end the process.
// SPDX-License-Identifier: Apache-2.0
#include "opc/Op.h"

#include <cstdlib>
#include <fstream>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace opc;
using namespace opc::user_op;

namespace {

Maybe<void> same(InferContext *ctx) {
  ctx->Out("y") = ctx->In("x");
  return Maybe<void>::Ok();
}
Maybe<void> oneFloat(InferContext *ctx) {
  *ctx->Shape4ArgNameAndIndex("y", 0) = Shape({1});
  *ctx->Dtype4ArgNameAndIndex("y", 0) = kFloat;
  return Maybe<void>::Ok();
}

/// How often this kernel has run.
class Count final : public OpKernelState {
public:
  int runs = 0;
};

/// In OneFlow's style of v0.3: the state is the second argument, the overrides are private.
template <bool kHasInput> class Counts final : public OpKernel {
public:
  std::shared_ptr<OpKernelState> CreateOpKernelState(KernelInitContext *) const override {
    return std::make_shared<Count>();
  }

private:
  void Compute(KernelComputeContext *ctx, OpKernelState *state) const override {
    Tensor *y = ctx->Tensor4ArgNameAndIndex("y", 0);
    const float run = static_cast<float>(++dynamic_cast<Count *>(state)->runs);
    for (int64_t i = 0; i < y->shape().elem_cnt(); ++i)
      y->mut_dptr<float>()[i] = run + (kHasInput ? ctx->Tensor4ArgNameAndIndex("x", 0)->dptr<float>()[i] : 0.0f);
  }
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
};
REGISTER_USER_OP("e_counts").Input("x").Output("y").SetTensorDescInferFn(same);
REGISTER_USER_KERNEL("e_counts").SetCreateFn<Counts<true>>().SetIsMatchedHob(HobDeviceType() == DeviceType::kCPU);
REGISTER_USER_OP("e_source").Output("y").SetTensorDescInferFn(oneFloat);
REGISTER_USER_KERNEL("e_source").SetCreateFn<Counts<false>>().SetIsMatchedHob(HobDeviceType() == DeviceType::kCPU);

template <void (*Body)(KernelComputeContext *)> class Kernel final : public OpKernel {
  void Compute(KernelComputeContext *ctx) const override { Body(ctx); }
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return true; }
};
#define KERNEL(op, body)                                                                                               \
  REGISTER_USER_KERNEL(op).SetCreateFn<Kernel<body>>().SetIsMatchedHob(HobDeviceType() == DeviceType::kCPU)

void copies(KernelComputeContext *ctx) {
  for (int64_t i = 0; i < ctx->In("x").shape().elem_cnt(); ++i)
    ctx->Out("y").mut_dptr<float>()[i] = ctx->In("x").dptr<float>()[i];
}

/// A source without a state: what it gives is its own affair all the same.
void staticCount(KernelComputeContext *ctx) {
  static int runs = 0;
  ctx->Out("y").mut_dptr<float>()[0] = static_cast<float>(++runs);
}
REGISTER_USER_OP("e_plain_source").Output("y").SetTensorDescInferFn(oneFloat);
KERNEL("e_plain_source", staticCount);
/// The same, said to be pure.
REGISTER_USER_OP("e_pure_source").Output("y").SetTensorDescInferFn(oneFloat).Pure();
KERNEL("e_pure_source", staticCount);

void writesFile(KernelComputeContext *ctx) {
  std::ofstream(ctx->Attr<std::string>("path"), std::ios::app) << ctx->In("x").dptr<float>()[0] << "\n";
}
REGISTER_USER_OP("e_sink").Input("x").Attr<std::string>("path").SetTensorDescInferFn([](InferContext *) {
  return Maybe<void>::Ok();
});
KERNEL("e_sink", writesFile);

REGISTER_USER_OP("e_stops").Input("x").Output("y").SetTensorDescInferFn(same).SetOutputArgModifyFn(
    [](GetOutputArgModifier get, const UserOpConfWrapper &) { get("y", 0)->set_requires_grad(false); });
KERNEL("e_stops", copies);

REGISTER_USER_OP("e_dynamic").Input("x").Output("y").SetTensorDescInferFn([](InferContext *ctx) -> Maybe<void> {
  ctx->Out("y") = ctx->In("x");
  ctx->Out("y").set_is_dynamic(true);
  return Maybe<void>::Ok();
});
KERNEL("e_dynamic", copies);

void shrinks(KernelComputeContext *ctx) {
  copies(ctx);
  ctx->Out("y").mut_shape()->Set(0, 1);
}
REGISTER_USER_OP("e_shrinks").Input("x").Output("y").SetTensorDescInferFn(same);
KERNEL("e_shrinks", shrinks);

void leaves(KernelComputeContext *) { std::exit(0); }
REGISTER_USER_OP("e_exits").Input("x").Output("y").SetTensorDescInferFn(same);
KERNEL("e_exits", leaves);
void aborts(KernelComputeContext *) { std::abort(); }
REGISTER_USER_OP("e_aborts").Input("x").Output("y").SetTensorDescInferFn(same);
KERNEL("e_aborts", aborts);
void strays(KernelComputeContext *) { *reinterpret_cast<volatile int *>(16) = 1; }
REGISTER_USER_OP("e_strays").Input("x").Output("y").SetTensorDescInferFn(same);
KERNEL("e_strays", strays);
void ends(KernelComputeContext *) { _exit(0); }
void forks(KernelComputeContext *ctx) {
  const pid_t child = fork();
  if (child == 0) _exit(7);
  int status = 0;
  if (waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7) copies(ctx);
}
void leavesQuickly(KernelComputeContext *) { std::quick_exit(0); }
REGISTER_USER_OP("e_leaves").Input("x").Output("y").SetTensorDescInferFn(same);
KERNEL("e_leaves", leavesQuickly);
REGISTER_USER_OP("e_ends").Input("x").Output("y").SetTensorDescInferFn(same);
KERNEL("e_ends", ends);
REGISTER_USER_OP("e_forks").Input("x").Output("y").SetTensorDescInferFn(same);
KERNEL("e_forks", forks);
void endsApart(KernelComputeContext *) {
  std::thread([] { _exit(0); }).join();
}
REGISTER_USER_OP("e_ends_apart").Input("x").Output("y").SetTensorDescInferFn(same);
KERNEL("e_ends_apart", endsApart);
REGISTER_USER_OP("e_ends_early").Input("x").Output("y").SetTensorDescInferFn([](InferContext *) -> Maybe<void> {
  _exit(3);
});

void checks(KernelComputeContext *ctx) { CHECK_EQ(ctx->In("x").shape().At(0), 12345) << "rows"; }
REGISTER_USER_OP("e_checks").Input("x").Output("y").SetTensorDescInferFn(same);
KERNEL("e_checks", checks);
REGISTER_USER_OP("e_checks_shape").Input("x").Output("y").SetTensorDescInferFn([](InferContext *ctx) -> Maybe<void> {
  CHECK_EQ_OR_RETURN(ctx->In("x").shape().At(0), 12345) << "rows";
  return same(ctx);
});
KERNEL("e_checks_shape", copies);

/// Seed and step.
void position(KernelComputeContext *ctx) {
  ctx->Out("y").mut_dptr<float>()[0] = static_cast<float>(ctx->device_ctx()->position().seed);
  ctx->Out("y").mut_dptr<float>()[1] = static_cast<float>(ctx->device_ctx()->position().step);
}
REGISTER_USER_OP("e_position").Output("y").SetTensorDescInferFn([](InferContext *ctx) -> Maybe<void> {
  *ctx->Shape4ArgNameAndIndex("y", 0) = Shape({2});
  *ctx->Dtype4ArgNameAndIndex("y", 0) = kFloat;
  return Maybe<void>::Ok();
});
KERNEL("e_position", position);

} // namespace
