// y = x, computed on GPUs by kernels with one fault each, which opc verify --device sim must find; and by one without.
// SPDX-License-Identifier: Apache-2.0
#include "opc/Op.h"

using namespace opc;
using namespace opc::user_op;

namespace {

constexpr int kBlock = 256;

enum Fault { kNone, kRace, kBeyond, kUnwritten, kWrong, kAstray };
constexpr int64_t kFarAway = int64_t{1} << 40; // elements: in no allocation of the device

/// Threads exchange their elements through shared memory.
template <Fault fault> __global__ void __launch_bounds__(kBlock) exchange(const float *x, float *y, int n) {
  __shared__ float tile[kBlock];
  const int begin = blockIdx.x * kBlock, mine = begin + threadIdx.x, other = begin + (threadIdx.x ^ 33);
  if (mine < n) tile[threadIdx.x] = x[fault == kBeyond ? mine + 1 : mine];
  if (fault != kRace) __syncthreads();
  if (other < n && !(fault == kUnwritten && other == n - 1)) {
    const float v = tile[threadIdx.x ^ 33];
    y[fault == kAstray ? other + kFarAway : other] = fault == kWrong ? v + 1 : v;
  }
}

Maybe<void> same(InferContext *ctx) {
  ctx->Out("y") = ctx->In("x");
  return Maybe<void>::Ok();
}

class OnCpu final : public OpKernel {
public:
  using OpKernel::Compute;
  void Compute(KernelComputeContext *ctx) const override {
    const Tensor &x = ctx->In("x");
    float *y = ctx->Out("y").mut_dptr<float>();
    for (int64_t i = 0; i < x.shape().elem_cnt(); ++i) y[i] = x.dptr<float>()[i];
  }
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
};

template <Fault fault> class OnGpu final : public OpKernel {
public:
  using OpKernel::Compute;
  void Compute(KernelComputeContext *ctx) const override {
    const Tensor &x = ctx->In("x");
    const int n = static_cast<int>(x.shape().elem_cnt());
    exchange<fault><<<(n + kBlock - 1) / kBlock, kBlock, 0, ctx->device_ctx()->cuda_stream()>>>(
        x.dptr<float>(), ctx->Out("y").mut_dptr<float>(), n);
  }
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
};

} // namespace

#define FAULTY(name, fault)                                                                                            \
  REGISTER_USER_OP(name).Input("x").Output("y").Pure().SetTensorDescInferFn(same).Sharding("a -> a").Cases(            \
      {Case("two_blocks").In("x", {512}).Types({kFloat})});                                                            \
  REGISTER_USER_KERNEL(name).SetCreateFn<OnCpu>().SetIsMatchedHob((HobDeviceType() == DeviceType::kCPU) &              \
                                                                  (HobDataType("x", 0) == kFloat));                    \
  REGISTER_USER_KERNEL(name).SetCreateFn<OnGpu<fault>>().SetIsMatchedHob((HobDeviceType() == DeviceType::kGPU) &       \
                                                                         (HobDataType("x", 0) == kFloat))

FAULTY("faulty_none", kNone);
FAULTY("faulty_race", kRace);
FAULTY("faulty_beyond", kBeyond);
FAULTY("faulty_unwritten", kUnwritten);
FAULTY("faulty_wrong", kWrong);
FAULTY("faulty_astray", kAstray);
