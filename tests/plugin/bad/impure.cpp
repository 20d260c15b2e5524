// Operators that are not functions of their inputs and do not say so, one way each; opc verify must find every one.
// SPDX-License-Identifier: Apache-2.0
#include "opc/Op.h"

#include <chrono>
#include <cstdlib>
#include <ctime>
#include <random>
#include <thread>
#include <unistd.h>

using namespace opc;
using namespace opc::user_op;

namespace {

/// A kernel of one f32 input and output: y = x + Body(...) for every element.
template <float (*Body)(const float *, float *)> class Kernel final : public OpKernel {
public:
  using OpKernel::Compute;
  void Compute(KernelComputeContext *ctx) const override {
    const Tensor &x = ctx->In("x");
    float *y = ctx->Out("y").mut_dptr<float>();
    const float more = Body(x.dptr<float>(), y);
    for (int64_t i = 0; i < x.shape().elem_cnt(); ++i) y[i] = x.dptr<float>()[i] + more;
  }
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
};

Maybe<void> same(InferContext *ctx) {
  ctx->Out("y") = ctx->In("x");
  return Maybe<void>::Ok();
}

#define IMPURE_OP(name, ...)                                                                                           \
  REGISTER_USER_OP(name).Input("x").Output("y").SetTensorDescInferFn(same).Cases(                                      \
      {Case("one").In("x", Shape({4})).Types({kFloat})});                                                              \
  REGISTER_USER_KERNEL(name).SetCreateFn<__VA_ARGS__>().SetIsMatchedHob(HobDeviceType() == DeviceType::kCPU)

float counter(const float *, float *) {
  static int runs = 0;
  return static_cast<float>(runs++);
}
IMPURE_OP("i_counter", Kernel<counter>);

float pseudoRandom(const float *, float *) { return static_cast<float>(std::rand()); }
IMPURE_OP("i_rand", Kernel<pseudoRandom>);

float device(const float *, float *) { return static_cast<float>(std::random_device()() % 65536); }
IMPURE_OP("i_random_device", Kernel<device>);

float seconds(const float *, float *) { return static_cast<float>(std::time(nullptr) % 65536); }
IMPURE_OP("i_seconds", Kernel<seconds>);

float process(const float *, float *) { return static_cast<float>(::getpid() % 65536); }
IMPURE_OP("i_process", Kernel<process>);

float threads(const float *, float *) {
  static const auto first = std::this_thread::get_id();
  return std::this_thread::get_id() == first ? 0 : 1;
}
IMPURE_OP("i_thread", Kernel<threads>);

float keptPointer(const float *x, float *) {
  static const float *const first = x;
  return first[0];
}
IMPURE_OP("i_pointer", Kernel<keptPointer>);

bool hasRun = false;
float leaves(const float *, float *) { return hasRun = true, 0.0f; }
Maybe<void> unchanged(InferContext *ctx) { return same(ctx); }
REGISTER_USER_OP("i_order_left")
    .Input("x")
    .Output("y")
    .SetTensorDescInferFn(unchanged)
    .Cases({Case("one").In("x", Shape({4})).Types({kFloat})});
REGISTER_USER_KERNEL("i_order_left").SetCreateFn<Kernel<leaves>>().SetIsMatchedHob(HobDeviceType() == DeviceType::kCPU);
float finds(const float *, float *) { return hasRun ? 1 : 0; }
IMPURE_OP("i_order_found", Kernel<finds>);

class Remembers final : public OpKernel {
public:
  using OpKernel::Compute;
  void Compute(KernelComputeContext *ctx) const override {
    const Tensor &x = ctx->In("x");
    for (int64_t i = 0; i < x.shape().elem_cnt(); ++i)
      ctx->Out("y").mut_dptr<float>()[i] = x.dptr<float>()[i] + static_cast<float>(runs_);
    ++runs_;
  }
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }

private:
  mutable int runs_ = 0;
};
IMPURE_OP("i_member", Remembers);

class LeavesHalf final : public OpKernel {
public:
  using OpKernel::Compute;
  void Compute(KernelComputeContext *ctx) const override {
    const Tensor &x = ctx->In("x");
    for (int64_t i = 0; i < x.shape().elem_cnt(); i += 2) ctx->Out("y").mut_dptr<float>()[i] = x.dptr<float>()[i];
  }
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
};
IMPURE_OP("i_unwritten", LeavesHalf);

class WritesInput final : public OpKernel {
public:
  using OpKernel::Compute;
  void Compute(KernelComputeContext *ctx) const override {
    const Tensor &x = ctx->In("x");
    for (int64_t i = 0; i < x.shape().elem_cnt(); ++i) ctx->Out("y").mut_dptr<float>()[i] = x.dptr<float>()[i];
    const_cast<float *>(x.dptr<float>())[0] = -5;
  }
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
};
IMPURE_OP("i_in_place", WritesInput);

class Temporary final : public OpKernel {
public:
  using OpKernel::Compute;
  void Compute(KernelComputeContext *ctx) const override {
    const Tensor &x = ctx->In("x");
    const float *tmp = ctx->Tmp<float>();
    for (int64_t i = 0; i < x.shape().elem_cnt(); ++i)
      ctx->Out("y").mut_dptr<float>()[i] = x.dptr<float>()[i] + (tmp[0] == 0 ? 0.0f : 1.0f);
  }
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
};
REGISTER_USER_OP("i_workspace")
    .Input("x")
    .Output("y")
    .SetTensorDescInferFn(same)
    .Cases({Case("one").In("x", Shape({4})).Types({kFloat})});
REGISTER_USER_KERNEL("i_workspace")
    .SetCreateFn<Temporary>()
    .SetIsMatchedHob(HobDeviceType() == DeviceType::kCPU)
    .SetInferTmpSizeFn([](InferContext *) { return size_t{64}; });

// One that is what it seems.
float nothing(const float *, float *) { return 0; }
IMPURE_OP("p_pure", Kernel<nothing>);

} // namespace
