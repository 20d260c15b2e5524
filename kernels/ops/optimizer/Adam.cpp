// adam_update and the ops that correct the bias of its means.
// SPDX-License-Identifier: Apache-2.0
#include "optimizer/UpdateOp.h"

#include <cmath>

namespace opc::ops::optimizer {
namespace {

template <class T> class AdamKernel final : public UpdateKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    T *m = stateOf<T>(ctx, "m"), *v = stateOf<T>(ctx, "v"), *most = stateOf<T>(ctx, "max_v");
    if (!ctx->Attr<bool>("amsgrad")) most = nullptr;
    const bool corrected = ctx->Attr<bool>("do_bias_correction");
    auto correction = [&](const char *arg, const char *attr) {
      const Tensor *t = ctx->Tensor4ArgNameAndIndex(arg, 0);
      return corrected ? RunScalar(t, t ? 1 : static_cast<double>(ctx->Attr<float>(attr))) : RunScalar(nullptr, 1);
    };
    const RunScalar c1 = correction("bias_correction1", "bias_correction1_val"),
                    c2 = correction("bias_correction2", "bias_correction2_val");
    const double beta1 = static_cast<double>(ctx->Attr<float>("beta1")),
                 beta2 = static_cast<double>(ctx->Attr<float>("beta2"));
    const T b1 = static_cast<T>(beta1), b2 = static_cast<T>(beta2);
    const T r1 = static_cast<T>(1 - beta1), r2 = static_cast<T>(1 - beta2);
    const T epsilon = static_cast<T>(ctx->Attr<float>("epsilon"));
    return user_op::bindTask([=, u = Update<T>(ctx)](DeviceCtx *dev) {
      if (!u.wanted()) return;
      T *model = u.model();
      const auto gradient = u.gradient();
      const double rate = u.learningRate();
      const T step = static_cast<T>(rate / c1.get()), unit = static_cast<T>(1 / std::sqrt(c2.get())),
              decay = static_cast<T>(rate * static_cast<double>(u.weightDecay()));
      u.forPieces(dev, [&](int64_t begin, int64_t end, const T *diff) {
        auto pass = [&](auto denominator) {
          OPC_EACH_ELEMENT
          for (int64_t i = begin; i < end; ++i) {
            const T g = gradient(diff[i - begin], model[i]);
            const T nextM = b1 * m[i] + r1 * g, nextV = b2 * v[i] + r2 * (g * g);
            m[i] = nextM;
            v[i] = nextV;
            model[i] =
                model[i] - step * (nextM / (std::sqrt(denominator(i, nextV)) * unit + epsilon)) - decay * model[i];
          }
        };
        if (most)
          pass([&](int64_t i, T nextV) { return most[i] = std::max(most[i], nextV); });
        else
          pass([](int64_t, T nextV) { return nextV; });
        u.copyModel(begin, end);
      });
    });
  }
};

Maybe<void> inferAdam(InferContext *ctx) {
  if (ctx->Attr<bool>("amsgrad") && !ctx->has_input("max_v", 0))
    return (Error("OPC0202") << "amsgrad is true and max_v is not given").help("give max_v a variable like v");
  return inferUpdate(ctx, {"m", "v", "max_v"});
}

user_op::Case adamCase(const char *name, Shape shape) {
  return user_op::Case(name).In("model", shape).In("model_diff", shape).In("m", shape).In("v", shape, 0, 1);
}

REGISTER_USER_OP("adam_update")
    .Input("model")
    .Input("model_diff")
    .OptionalInput("model_copy")
    .OptionalInput("learning_rate")
    .OptionalInput("scale_by_tensor")
    .OptionalInput("skip_if")
    .OptionalInput("bias_correction1")
    .OptionalInput("bias_correction2")
    .Input("m")
    .Input("v")
    .OptionalInput("max_v")
    .OPC_UPDATE_ATTRS()
    .Attr<float>("bias_correction1_val", 1.0f)
    .Attr<float>("bias_correction2_val", 1.0f)
    .Attr<float>("beta1", 0.9f)
    .Attr<float>("beta2", 0.999f)
    .Attr<float>("epsilon", 1e-8f)
    .Attr<bool>("amsgrad", false)
    .Attr<bool>("do_bias_correction", true)
    .SetTensorDescInferFn(inferAdam)
    .SetGetSbpFn(splitUpdate)
    .SetInputArgModifyFn(writesModelAnd({"m", "v", "max_v"}))
    .NoGrad("it updates a variable")
    .Doc(std::string(kCommonDoc) +
         "m = beta1 * m + (1 - beta1) * gradient; v = beta2 * v + (1 - beta2) * gradient^2; model -= rate / "
         "bias_correction1 * m / (sqrt(v / bias_correction2) + epsilon) + rate * weight_decay * model. With amsgrad "
         "the largest v so far (max_v) stands for v. The bias corrections are 1 - beta^(step + 1) "
         "(adam_bias_correction_factor), or the attributes, 1 by default; do_bias_correction false ignores them. "
         "weight_decay is decoupled (torch.optim.AdamW); l2 is torch.optim.Adam's. In graphs of OneFlow 0.3 "
         "learning_rate carries the corrections (adam_bias_correction_learning_rate), and epsilon stands beside the "
         "uncorrected sqrt(v).")
    .Cases({adamCase("plain", {5, 7}).In("learning_rate", kFloat, {1}, 0, 1).Attr("epsilon", 1e-8f),
            adamCase("corrected", {2100})
                .In("learning_rate", kFloat, {1}, 0, 1)
                .In("bias_correction1", kFloat, {1}, 0.1, 1)
                .In("bias_correction2", kFloat, {1}, 0.1, 1)
                .Attr("beta1", 0.75f)
                .Attr("beta2", 0.5f)
                .Attr("epsilon", 0.01f)
                .Attr("weight_decay", 0.1f)
                .Attr("l2", 0.1f),
            adamCase("amsgrad", {37})
                .In("max_v", {37}, 0, 1)
                .Attr("learning_rate_val", 0.25f)
                .Attr("bias_correction1_val", 0.5f)
                .Attr("bias_correction2_val", 0.25f)
                .Attr("epsilon", 1e-4f)
                .Attr("amsgrad", true),
            adamCase("uncorrected", {37})
                .Attr("learning_rate_val", 0.25f)
                .Attr("bias_correction1_val", 0.5f)
                .Attr("bias_correction2_val", 0.25f)
                .Attr("epsilon", 1e-4f)
                .Attr("do_bias_correction", false)});
OPC_UPDATE_KERNELS("adam_update", AdamKernel);

// --- the corrections -------------------------------------------------------------------------------------------------

Maybe<void> oneElement(InferContext *ctx, const char *arg, DataType type, DataType orType) {
  const TensorDesc &d = ctx->InputTensorDesc(arg, 0);
  if (d.shape().elem_cnt() != 1)
    return Error::ShapeMismatch() << arg << " is " << d.toString() << ", it should have one element";
  if (d.data_type() != type && d.data_type() != orType)
    return Error::TypeError() << arg << " is " << dataTypeName(d.data_type()) << ", it should be "
                              << dataTypeName(type);
  return Maybe<void>::Ok();
}

Maybe<void> inferFactor(InferContext *ctx) {
  if (auto ok = oneElement(ctx, "train_step", kInt64, kInt64); !ok.IsOk()) return ok;
  const DataType type = ctx->Attr<DataType>("dtype");
  if (type != kFloat && type != kDouble)
    return Error::TypeError() << "dtype is " << dataTypeName(type) << ", it should be f32 or f64";
  const Shape shape = ctx->InputShape("train_step", 0);
  *ctx->TensorDesc4ArgNameAndIndex("out", 0) = TensorDesc(shape, type);
  return Maybe<void>::Ok();
}

Maybe<void> inferCorrectedRate(InferContext *ctx) {
  if (auto ok = oneElement(ctx, "learning_rate", kFloat, kDouble); !ok.IsOk()) return ok;
  if (auto ok = oneElement(ctx, "train_step", kInt64, kInt64); !ok.IsOk()) return ok;
  const TensorDesc rate = ctx->InputTensorDesc("learning_rate", 0);
  *ctx->TensorDesc4ArgNameAndIndex("out", 0) = rate;
  return Maybe<void>::Ok();
}

double correction(double beta, int64_t step) { return 1 - std::pow(beta, static_cast<double>(step) + 1); }

void putScalar(Tensor *out, double value) {
  if (out->data_type() == kDouble)
    *out->mut_dptr<double>() = value;
  else
    *out->mut_dptr<float>() = static_cast<float>(value);
}

class FactorKernel final : public BindingKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    const int64_t *step = ctx->Tensor4ArgNameAndIndex("train_step", 0)->dptr<int64_t>();
    Tensor *out = ctx->Tensor4ArgNameAndIndex("out", 0);
    const double beta = static_cast<double>(ctx->Attr<float>("beta"));
    return user_op::bindTask([=](DeviceCtx *) { putScalar(out, correction(beta, *step)); });
  }
};

class CorrectedRateKernel final : public BindingKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    const RunScalar rate(ctx->Tensor4ArgNameAndIndex("learning_rate", 0), 0);
    const int64_t *step = ctx->Tensor4ArgNameAndIndex("train_step", 0)->dptr<int64_t>();
    Tensor *out = ctx->Tensor4ArgNameAndIndex("out", 0);
    const double beta1 = static_cast<double>(ctx->Attr<float>("beta1")),
                 beta2 = static_cast<double>(ctx->Attr<float>("beta2"));
    return user_op::bindTask([=](DeviceCtx *) {
      putScalar(out, rate.get() * std::sqrt(correction(beta2, *step)) / correction(beta1, *step));
    });
  }
};

REGISTER_USER_OP("adam_bias_correction_factor")
    .Input("train_step")
    .Output("out")
    .Attr<float>("beta", 0.9f)
    .Attr<DataType>("dtype", kFloat)
    .SetTensorDescInferFn(inferFactor)
    .NoGrad("it depends on the step alone")
    .Doc("out = 1 - beta^(train_step + 1), for bias_correction1 and bias_correction2 of adam_update and lamb_update. "
         "dtype: f32, or f64 for models of f64.")
    .Cases({user_op::Case("f32").In("train_step", kInt64, {1}, 0, 20),
            user_op::Case("f64").In("train_step", kInt64, {1}, 0, 20).Attr("beta", 0.999f).Attr("dtype", kDouble)});
OPC_ANY_TYPE_CPU_KERNEL("adam_bias_correction_factor", FactorKernel);

REGISTER_USER_OP("adam_bias_correction_learning_rate")
    .Input("learning_rate")
    .Input("train_step")
    .Output("out")
    .Attr<float>("beta1", 0.9f)
    .Attr<float>("beta2", 0.999f)
    .SetTensorDescInferFn(inferCorrectedRate)
    .NoGrad("it depends on the step alone")
    .Doc("out = learning_rate * sqrt(1 - beta2^(train_step + 1)) / (1 - beta1^(train_step + 1)): the rate that makes "
         "an adam_update without corrections a corrected one.")
    .Cases({user_op::Case("plain")
                .In("learning_rate", {1}, 0, 1)
                .In("train_step", kInt64, {1}, 0, 20)
                .Types({kFloat, kDouble})});
OPC_ANY_TYPE_CPU_KERNEL("adam_bias_correction_learning_rate", CorrectedRateKernel);

} // namespace
} // namespace opc::ops::optimizer
