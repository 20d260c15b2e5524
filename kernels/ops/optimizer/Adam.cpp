// adam_update and the ops that correct the bias of its means.
// SPDX-License-Identifier: Apache-2.0
#include "optimizer/Moments.h"
#include "support/CudaTask.h"
#include "support/FunctionKernel.h"

#include <cmath>

namespace opc::ops::optimizer {
namespace {

template <class T> struct Adam : Moments<T> {
  explicit Adam(KernelBindContext *ctx)
      : Moments<T>(ctx), most(ctx->Attr<bool>("amsgrad") ? stateOf<T>(ctx, "max_v") : nullptr) {}
  template <class Threads> void run(Threads *dev, const Update<T> &u) const {
    const double rate = u.learningRate();
    const T step = static_cast<T>(rate / this->correction1.get()),
            unit = static_cast<T>(1 / std::sqrt(this->correction2.get())),
            decay = static_cast<T>(rate * static_cast<double>(u.weightDecay()));
    const auto update = [&](auto denominator) {
      u.update(dev, [=, a = Moments<T>(*this)](int64_t i, T model, T g) {
        const T m = a.takeM(i, g), v = a.takeV(i, g);
        return model - step * (m / (std::sqrt(denominator(i, v)) * unit + a.epsilon)) - decay * model;
      });
    };
    if (!most) return update([](int64_t, T v) { return v; });
    update([all = most](int64_t i, T v) { return all[i] = std::max(all[i], v); });
  }
  T *most;
};
template <class T> using AdamKernel = ElementwiseUpdate<T, Adam>;

const std::vector<std::string> kAdamState = {"m", "v", "max_v"};

Maybe<void> inferAdam(InferContext *ctx) {
  if (ctx->Attr<bool>("amsgrad") && !ctx->Has("max_v"))
    return (Error("OPC0202") << "amsgrad is true and max_v is not given").help("give max_v a variable like v");
  return inferUpdate(ctx, kAdamState);
}

REGISTER_USER_OP("adam_update")
    .With(modelInputs)
    .OptionalInput("model_copy")
    .With(rateInputs)
    .With(momentInputs)
    .OptionalInput("max_v")
    .With(updates(kAdamState))
    .With(momentAttrs)
    .Attr<bool>("amsgrad", false)
    .Attr<bool>("do_bias_correction", true)
    .SetTensorDescInferFn(inferAdam)
    .Doc(std::string(kCommonDoc) +
         "m = beta1 * m + (1 - beta1) * gradient; v = beta2 * v + (1 - beta2) * gradient^2; model -= rate / "
         "bias_correction1 * m / (sqrt(v / bias_correction2) + epsilon) + rate * weight_decay * model. With amsgrad "
         "the largest v so far (max_v) stands for v. The bias corrections are 1 - beta^(step + 1) "
         "(adam_bias_correction_factor), or the attributes, 1 by default; do_bias_correction false ignores them. "
         "weight_decay is decoupled (torch.optim.AdamW); l2 is torch.optim.Adam's. In graphs of OneFlow 0.3 "
         "learning_rate carries the corrections (adam_bias_correction_learning_rate), and epsilon stands beside the "
         "uncorrected sqrt(v).")
    .Cases({momentCase("plain", {5, 7}).In("learning_rate", kFloat, {1}, 0, 1).Attr("epsilon", 1e-8f),
            momentCase("corrected", {2100})
                .In("learning_rate", kFloat, {1}, 0, 1)
                .In("bias_correction1", kFloat, {1}, 0.1, 1)
                .In("bias_correction2", kFloat, {1}, 0.1, 1)
                .Attr("beta1", 0.75f)
                .Attr("beta2", 0.5f)
                .Attr("epsilon", 0.01f)
                .Attr("weight_decay", 0.1f)
                .Attr("l2", 0.1f),
            momentCase("amsgrad", {37})
                .In("max_v", {37}, 0, 1)
                .Attr("learning_rate_val", 0.25f)
                .Attr("bias_correction1_val", 0.5f)
                .Attr("bias_correction2_val", 0.25f)
                .Attr("epsilon", 1e-4f)
                .Attr("amsgrad", true),
            momentCase("uncorrected", {37})
                .Attr("learning_rate_val", 0.25f)
                .Attr("bias_correction1_val", 0.5f)
                .Attr("bias_correction2_val", 0.25f)
                .Attr("epsilon", 1e-4f)
                .Attr("do_bias_correction", false)})
    .Kernel<AdamKernel, ModelTypes>("model");

// --- the corrections -------------------------------------------------------------------------------------------------

Maybe<void> inferFactor(InferContext *ctx) {
  JUST(checkScalar(ctx, "train_step", kInt64));
  return setOut(ctx, "out", TensorDesc(ctx->In("train_step").shape(), JUST(rateType(ctx))));
}

Maybe<void> inferCorrectedRate(InferContext *ctx) {
  JUST(checkScalar(ctx, "learning_rate", kFloat, kDouble));
  JUST(checkScalar(ctx, "train_step", kInt64));
  return setOut(ctx, "out", ctx->In("learning_rate"));
}

double correction(double beta, int64_t step) { return 1 - std::pow(beta, static_cast<double>(step) + 1); }

std::unique_ptr<BoundKernel> bindFactor(KernelBindContext *ctx) {
  const int64_t *step = ctx->In("train_step").dptr<int64_t>();
  if (isOnGpu(ctx))
    return bindSingle(ctx, "adam_bias_correction_factor", step, real(ctx, "beta"), ctx->Out("out").mut_raw_dptr(),
                      static_cast<int32_t>(ctx->Out("out").data_type() == kDouble));
  return bindTask(
      [=, out = &ctx->Out("out"), beta = real(ctx, "beta")](DeviceCtx *) { putScalar(out, correction(beta, *step)); });
}

std::unique_ptr<BoundKernel> bindCorrectedRate(KernelBindContext *ctx) {
  const RunScalar rate(ctx, "learning_rate", 0);
  const int64_t *step = ctx->In("train_step").dptr<int64_t>();
  Tensor *out = &ctx->Out("out");
  const double beta1 = real(ctx, "beta1"), beta2 = real(ctx, "beta2");
  if (isOnGpu(ctx))
    return bindSingle(ctx, "adam_bias_correction_learning_rate", ctx->In("learning_rate").raw_dptr(), step, beta1,
                      beta2, out->mut_raw_dptr(), static_cast<int32_t>(out->data_type() == kDouble));
  return bindTask([=](DeviceCtx *) {
    putScalar(out, rate.get() * std::sqrt(correction(beta2, *step)) / correction(beta1, *step));
  });
}

REGISTER_USER_OP("adam_bias_correction_factor")
    .With(TensorArgs{{"train_step"}, {"out"}})
    .Attr<float>("beta", 0.9f)
    .Attr<DataType>("dtype", kFloat)
    .SetTensorDescInferFn(inferFactor)
    .NoGrad("it depends on the step alone")
    .Doc("out = 1 - beta^(train_step + 1), for bias_correction1 and bias_correction2 of adam_update and lamb_update. "
         "dtype: f32, or f64 for models of f64.")
    .Cases({Case("f32").In("train_step", kInt64, {1}, 0, 20),
            Case("f64").In("train_step", kInt64, {1}, 0, 20).Attr("beta", 0.999f).Attr("dtype", kDouble)})
    .With(onCpuAndGpu<FunctionKernel<bindFactor>>());

REGISTER_USER_OP("adam_bias_correction_learning_rate")
    .With(TensorArgs{{"learning_rate", "train_step"}, {"out"}})
    .Attr<float>("beta1", 0.9f)
    .Attr<float>("beta2", 0.999f)
    .SetTensorDescInferFn(inferCorrectedRate)
    .NoGrad("it depends on the step alone")
    .Doc("out = learning_rate * sqrt(1 - beta2^(train_step + 1)) / (1 - beta1^(train_step + 1)): the rate that makes "
         "an adam_update without corrections a corrected one.")
    .Cases({Case("plain").In("learning_rate", {1}, 0, 1).In("train_step", kInt64, {1}, 0, 20).Types({kFloat, kDouble})})
    .With(onCpuAndGpu<FunctionKernel<bindCorrectedRate>>());

} // namespace
} // namespace opc::ops::optimizer
