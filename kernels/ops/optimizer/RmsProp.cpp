// rmsprop_update and adagrad_update.
// SPDX-License-Identifier: Apache-2.0
#include "optimizer/UpdateOp.h"

#include <cmath>

namespace opc::ops::optimizer {
namespace {

template <class T> struct RmsProp {
  explicit RmsProp(KernelBindContext *ctx)
      : square(stateOf<T>(ctx, "mean_square")),
        mean(ctx->Attr<bool>("centered") ? stateOf<T>(ctx, "mean_gradient") : nullptr),
        keep(static_cast<T>(real(ctx, "decay_rate"))), take(static_cast<T>(1 - real(ctx, "decay_rate"))),
        epsilon(static_cast<T>(real(ctx, "epsilon"))) {}
  template <class Threads> void run(Threads *dev, const Update<T> &u) const {
    const T rate = static_cast<T>(u.learningRate()), decay = rate * u.weightDecay();
    const auto update = [&](auto variance) {
      u.update(dev, [=, r = *this](int64_t i, T model, T g) {
        const T next = r.keep * r.square[i] + r.take * (g * g);
        r.square[i] = next;
        return model - rate * (g / std::sqrt(variance(i, g, next) + r.epsilon)) - decay * model;
      });
    };
    if (!mean) return update([](int64_t, T, T next) { return next; });
    update([r = *this](int64_t i, T g, T next) {
      const T m = r.keep * r.mean[i] + r.take * g;
      r.mean[i] = m;
      return next - m * m;
    });
  }
  T *square, *mean;
  T keep, take, epsilon;
};
template <class T> using RmsPropKernel = ElementwiseUpdate<T, RmsProp>;

template <class T> struct Adagrad {
  explicit Adagrad(KernelBindContext *ctx)
      : sum(stateOf<T>(ctx, "sum")), epsilon(static_cast<T>(real(ctx, "epsilon"))), rateDecay(real(ctx, "lr_decay")),
        step(ctx, "train_step", static_cast<double>(ctx->Attr<int32_t>("train_step_val"))) {}
  template <class Threads> void run(Threads *dev, const Update<T> &u) const {
    const T rate = static_cast<T>(u.learningRate() / (1 + step.get() * rateDecay)), decay = rate * u.weightDecay();
    u.update(dev, [=, sums = sum, small = epsilon](int64_t i, T model, T g) {
      const T next = sums[i] + g * g;
      sums[i] = next;
      return model - rate * (g / (std::sqrt(next) + small)) - decay * model;
    });
  }
  T *sum;
  T epsilon;
  double rateDecay;
  RunScalar step;
};
template <class T> using AdagradKernel = ElementwiseUpdate<T, Adagrad>;

const std::vector<std::string> kRmsPropState = {"mean_square", "mean_gradient"};

Maybe<void> inferRmsProp(InferContext *ctx) {
  if (ctx->Attr<bool>("centered") && !ctx->Has("mean_gradient"))
    return (Error("OPC0202") << "centered is true and mean_gradient is not given")
        .help("give mean_gradient a variable like mean_square");
  return inferUpdate(ctx, kRmsPropState);
}

REGISTER_USER_OP("rmsprop_update")
    .With(modelInputs)
    .With(rateInputs)
    .Input("mean_square")
    .OptionalInput("mean_gradient")
    .With(updates(kRmsPropState))
    .Attr<bool>("centered", false)
    .Attr<float>("epsilon", 1e-8f)
    .Attr<float>("decay_rate", 0.99f)
    .SetTensorDescInferFn(inferRmsProp)
    .Doc(std::string(kCommonDoc) +
         "mean_square = decay_rate * mean_square + (1 - decay_rate) * gradient^2; model -= rate * (gradient / "
         "sqrt(mean_square + epsilon) + weight_decay * model). With centered, mean_gradient is the mean of the "
         "gradient in the same way and its square is taken off mean_square. epsilon stands under the root; in "
         "torch.optim.RMSprop beside it.")
    .Cases({updateCase("plain", {5, 7})
                .In("mean_square", {5, 7}, 0.5, 1)
                .In("learning_rate", kFloat, {1}, 0, 1)
                .Attr("epsilon", 1e-4f)
                .Attr("weight_decay", 0.1f),
            updateCase("centered", {37})
                .In("mean_square", {37}, 0.5, 1)
                .In("mean_gradient", {37}, -0.5, 0.5)
                .Attr("learning_rate_val", 0.5f)
                .Attr("epsilon", 0.01f)
                .Attr("decay_rate", 0.9f)
                .Attr("centered", true)})
    .Kernel<RmsPropKernel, ModelTypes>("model");

REGISTER_USER_OP("adagrad_update")
    .With(modelInputs)
    .With(rateInputs)
    .OptionalInput("train_step")
    .Input("sum")
    .Attr<int32_t>("train_step_val", 0)
    .With(updates({"sum"}))
    .Attr<float>("lr_decay", 0.0f)
    .Attr<float>("epsilon", 1e-10f)
    .Doc(std::string(kCommonDoc) +
         "sum += gradient^2; model -= r * (gradient / (sqrt(sum) + epsilon) + weight_decay * model), where r = rate "
         "/ (1 + train_step * lr_decay) and train_step is 0 in the first step (train_step_val without a tensor). As "
         "torch.optim.Adagrad, with decoupled weight decay.")
    .Cases({updateCase("plain", {5, 7})
                .In("sum", {5, 7}, 0, 1)
                .In("learning_rate", kFloat, {1}, 0, 1)
                .Attr("epsilon", 1e-6f),
            updateCase("decayed", {37})
                .In("sum", {37}, 0, 1)
                .In("train_step", kInt64, {1}, 1, 9)
                .Attr("learning_rate_val", 0.5f)
                .Attr("lr_decay", 0.25f)
                .Attr("weight_decay", 0.1f)
                .Attr("epsilon", 0.01f)})
    .Kernel<AdagradKernel, ModelTypes>("model");

} // namespace
} // namespace opc::ops::optimizer
