// rmsprop_update and adagrad_update.
// SPDX-License-Identifier: Apache-2.0
#include "optimizer/UpdateOp.h"

#include <cmath>

namespace opc::ops::optimizer {
namespace {

template <class T> class RmsPropKernel final : public UpdateKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    T *square = stateOf<T>(ctx, "mean_square"), *mean = stateOf<T>(ctx, "mean_gradient");
    if (!ctx->Attr<bool>("centered")) mean = nullptr;
    const double rateOfDecay = static_cast<double>(ctx->Attr<float>("decay_rate"));
    const T keep = static_cast<T>(rateOfDecay), take = static_cast<T>(1 - rateOfDecay);
    const T epsilon = static_cast<T>(ctx->Attr<float>("epsilon"));
    return user_op::bindTask([=, u = Update<T>(ctx)](DeviceCtx *dev) {
      if (!u.wanted()) return;
      T *model = u.model();
      const auto gradient = u.gradient();
      const T rate = static_cast<T>(u.learningRate()), decay = rate * u.weightDecay();
      u.forPieces(dev, [&](int64_t begin, int64_t end, const T *diff) {
        auto pass = [&](auto variance) {
          OPC_EACH_ELEMENT
          for (int64_t i = begin; i < end; ++i) {
            const T g = gradient(diff[i - begin], model[i]), next = keep * square[i] + take * (g * g);
            square[i] = next;
            model[i] = model[i] - rate * (g / std::sqrt(variance(i, g, next) + epsilon)) - decay * model[i];
          }
        };
        if (mean)
          pass([&](int64_t i, T g, T next) {
            const T m = keep * mean[i] + take * g;
            mean[i] = m;
            return next - m * m;
          });
        else
          pass([](int64_t, T, T next) { return next; });
      });
    });
  }
};

template <class T> class AdagradKernel final : public UpdateKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    T *sum = stateOf<T>(ctx, "sum");
    const Tensor *step = ctx->Tensor4ArgNameAndIndex("train_step", 0);
    const RunScalar trainStep(step, step ? 0 : static_cast<double>(ctx->Attr<int32_t>("train_step_val")));
    const double rateDecay = static_cast<double>(ctx->Attr<float>("lr_decay"));
    const T epsilon = static_cast<T>(ctx->Attr<float>("epsilon"));
    return user_op::bindTask([=, u = Update<T>(ctx)](DeviceCtx *dev) {
      if (!u.wanted()) return;
      T *model = u.model();
      const auto gradient = u.gradient();
      const T rate = static_cast<T>(u.learningRate() / (1 + trainStep.get() * rateDecay)),
              decay = rate * u.weightDecay();
      u.forPieces(dev, [&](int64_t begin, int64_t end, const T *diff) {
        OPC_EACH_ELEMENT
        for (int64_t i = begin; i < end; ++i) {
          const T g = gradient(diff[i - begin], model[i]), next = sum[i] + g * g;
          sum[i] = next;
          model[i] = model[i] - rate * (g / (std::sqrt(next) + epsilon)) - decay * model[i];
        }
      });
    });
  }
};

Maybe<void> inferRmsProp(InferContext *ctx) {
  if (ctx->Attr<bool>("centered") && !ctx->has_input("mean_gradient", 0))
    return (Error("OPC0202") << "centered is true and mean_gradient is not given")
        .help("give mean_gradient a variable like mean_square");
  return inferUpdate(ctx, {"mean_square", "mean_gradient"});
}

REGISTER_USER_OP("rmsprop_update")
    .Input("model")
    .Input("model_diff")
    .OptionalInput("learning_rate")
    .OptionalInput("scale_by_tensor")
    .OptionalInput("skip_if")
    .Input("mean_square")
    .OptionalInput("mean_gradient")
    .OPC_UPDATE_ATTRS()
    .Attr<bool>("centered", false)
    .Attr<float>("epsilon", 1e-8f)
    .Attr<float>("decay_rate", 0.99f)
    .SetTensorDescInferFn(inferRmsProp)
    .SetGetSbpFn(splitUpdate)
    .SetInputArgModifyFn(writesModelAnd({"mean_square", "mean_gradient"}))
    .NoGrad("it updates a variable")
    .Doc(std::string(kCommonDoc) +
         "mean_square = decay_rate * mean_square + (1 - decay_rate) * gradient^2; model -= rate * (gradient / "
         "sqrt(mean_square + epsilon) + weight_decay * model). With centered, mean_gradient is the mean of the "
         "gradient in the same way and its square is taken off mean_square. epsilon stands under the root; in "
         "torch.optim.RMSprop beside it.")
    .Cases({user_op::Case("plain")
                .In("model", {5, 7})
                .In("model_diff", {5, 7})
                .In("mean_square", {5, 7}, 0.5, 1)
                .In("learning_rate", kFloat, {1}, 0, 1)
                .Attr("epsilon", 1e-4f)
                .Attr("weight_decay", 0.1f),
            user_op::Case("centered")
                .In("model", {37})
                .In("model_diff", {37})
                .In("mean_square", {37}, 0.5, 1)
                .In("mean_gradient", {37}, -0.5, 0.5)
                .Attr("learning_rate_val", 0.5f)
                .Attr("epsilon", 0.01f)
                .Attr("decay_rate", 0.9f)
                .Attr("centered", true)});
OPC_UPDATE_KERNELS("rmsprop_update", RmsPropKernel);

REGISTER_USER_OP("adagrad_update")
    .Input("model")
    .Input("model_diff")
    .OptionalInput("learning_rate")
    .OptionalInput("scale_by_tensor")
    .OptionalInput("skip_if")
    .OptionalInput("train_step")
    .Input("sum")
    .Attr<int32_t>("train_step_val", 0)
    .OPC_UPDATE_ATTRS()
    .Attr<float>("lr_decay", 0.0f)
    .Attr<float>("epsilon", 1e-10f)
    .SetTensorDescInferFn([](InferContext *ctx) { return inferUpdate(ctx, {"sum"}); })
    .SetGetSbpFn(splitUpdate)
    .SetInputArgModifyFn(writesModelAnd({"sum"}))
    .NoGrad("it updates a variable")
    .Doc(std::string(kCommonDoc) +
         "sum += gradient^2; model -= r * (gradient / (sqrt(sum) + epsilon) + weight_decay * model), where r = rate "
         "/ (1 + train_step * lr_decay) and train_step is 0 in the first step (train_step_val without a tensor). As "
         "torch.optim.Adagrad, with decoupled weight decay.")
    .Cases({user_op::Case("plain")
                .In("model", {5, 7})
                .In("model_diff", {5, 7})
                .In("sum", {5, 7}, 0, 1)
                .In("learning_rate", kFloat, {1}, 0, 1)
                .Attr("epsilon", 1e-6f),
            user_op::Case("decayed")
                .In("model", {37})
                .In("model_diff", {37})
                .In("sum", {37}, 0, 1)
                .In("train_step", kInt64, {1}, 1, 9)
                .Attr("learning_rate_val", 0.5f)
                .Attr("lr_decay", 0.25f)
                .Attr("weight_decay", 0.1f)
                .Attr("epsilon", 0.01f)});
OPC_UPDATE_KERNELS("adagrad_update", AdagradKernel);

} // namespace
} // namespace opc::ops::optimizer
