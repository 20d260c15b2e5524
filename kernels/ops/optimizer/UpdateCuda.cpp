// sgd_update, momentum_update, adam_update and the corrections of adam's bias on GPUs.
// SPDX-License-Identifier: Apache-2.0
#include "CudaLaunch.h"
#include "optimizer/UpdateArguments.h"
#include "optimizer/UpdateOp.h"

namespace opc::ops::optimizer {
namespace {

using cuda::CudaLaunch;

DeviceScalar scalarOf(KernelBindContext *ctx, const char *arg, double otherwise) {
  if (!ctx->Has(arg)) return {nullptr, 0, 0, otherwise};
  return {ctx->In(arg).raw_dptr(), ctx->In(arg).data_type() == kDouble, 0, otherwise};
}
int32_t kindOf(DataType type) { return type == kFloat16 ? 1 : type == kBFloat16 ? 2 : 0; }
void *written(KernelBindContext *ctx, const char *arg) { return ctx->Out(arg).mut_raw_dptr(); }

UpdateArguments common(KernelBindContext *ctx) {
  UpdateArguments a{};
  a.n = ctx->In("model").shape().elem_cnt();
  a.model = written(ctx, "model");
  a.diff = ctx->In("model_diff").raw_dptr();
  a.diffKind = kindOf(ctx->In("model_diff").data_type());
  if (ctx->Has("model_copy")) {
    a.copy = written(ctx, "model_copy");
    a.copyKind = kindOf(ctx->In("model_copy").data_type());
  }
  if (ctx->Has("skip_if")) a.skipIf = static_cast<const int64_t *>(ctx->In("skip_if").raw_dptr());
  a.rate = scalarOf(ctx, "learning_rate", real(ctx, "learning_rate_val"));
  a.scaleBy = scalarOf(ctx, "scale_by_tensor", 1);
  a.rateScale = real(ctx, "learning_rate_scale");
  a.scale = ctx->Attr<double>("scale");
  a.l1 = real(ctx, "l1");
  a.l2 = real(ctx, "l2");
  a.weightDecay = real(ctx, "weight_decay");
  return a;
}
void addMomentum(KernelBindContext *ctx, UpdateArguments *a) {
  a->momentum = written(ctx, "momentum");
  a->beta = real(ctx, "beta");
  // Rounded as on the CPU, where both are of the model's type.
  a->keep = ctx->In("model").data_type() == kFloat ? static_cast<double>(1.0f - ctx->Attr<float>("dampening"))
                                                   : 1 - real(ctx, "dampening");
  a->nesterov = ctx->Attr<bool>("nesterov");
  a->maximize = ctx->Attr<bool>("maximize");
}
void addMoments(KernelBindContext *ctx, UpdateArguments *a) {
  a->m = written(ctx, "m");
  a->v = written(ctx, "v");
  if (ctx->Attr<bool>("amsgrad")) a->maxV = written(ctx, "max_v");
  a->beta1 = real(ctx, "beta1");
  a->beta2 = real(ctx, "beta2");
  a->rest1 = 1 - a->beta1;
  a->rest2 = 1 - a->beta2;
  a->epsilon = real(ctx, "epsilon");
  a->correction1 = a->correction2 = {nullptr, 0, 0, 1};
  if (!ctx->Attr<bool>("do_bias_correction")) return;
  a->correction1 = scalarOf(ctx, "bias_correction1", real(ctx, "bias_correction1_val"));
  a->correction2 = scalarOf(ctx, "bias_correction2", real(ctx, "bias_correction2_val"));
}

class UpdateCuda final : public BindingKernel {
public:
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    UpdateArguments a = common(ctx);
    if (ctx->op_type_name() == "momentum_update") addMomentum(ctx, &a);
    if (ctx->op_type_name() == "adam_update") addMoments(ctx, &a);
    const auto kernel = CudaLaunch::of(ctx->device_ctx())
                            .function(ctx->op_type_name() + "_" + dataTypeName(ctx->In("model").data_type()));
    return bindTask([=](DeviceCtx *dev) {
      if (a.n > 0) CudaLaunch::of(dev).run(kernel, cuda::blocksFor(a.n), {cuda::kBlock, 1, 1}, 0, a);
    });
  }
};

class FactorCuda final : public BindingKernel {
public:
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    const void *step = ctx->In("train_step").raw_dptr();
    void *out = ctx->Out("out").mut_raw_dptr();
    const double beta = real(ctx, "beta");
    const int32_t isDouble = ctx->Out("out").data_type() == kDouble;
    const auto kernel = CudaLaunch::of(ctx->device_ctx()).function("adam_bias_correction_factor");
    return bindTask(
        [=](DeviceCtx *dev) { CudaLaunch::of(dev).run(kernel, {1, 1, 1}, {32, 1, 1}, 0, step, beta, out, isDouble); });
  }
};

template <class> using Kernel = UpdateCuda;
const KernelOptions kOnGpu = KernelOptions().Device(DeviceType::kGPU);

REGISTER_KERNELS("sgd_update").Kernel<Kernel, ModelTypes>("model", kOnGpu);
REGISTER_KERNELS("momentum_update").Kernel<Kernel, ModelTypes>("model", kOnGpu);
REGISTER_KERNELS("adam_update").Kernel<Kernel, ModelTypes>("model", kOnGpu);
REGISTER_KERNELS("adam_bias_correction_factor").Kernel<FactorCuda>(kOnGpu);

} // namespace
} // namespace opc::ops::optimizer
