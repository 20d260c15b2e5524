// sgd_update and momentum_update.
// SPDX-License-Identifier: Apache-2.0
#include "optimizer/UpdateOp.h"

namespace opc::ops::optimizer {
namespace {

template <class T> struct Sgd {
  explicit Sgd(KernelBindContext *) {}
  template <class Threads> void run(Threads *dev, const Update<T> &u) const {
    const T rate = static_cast<T>(u.learningRate()), decay = u.weightDecay();
    u.update(dev, [=](int64_t, T model, T gradient) { return model - rate * (gradient + decay * model); });
  }
};
template <class T> using SgdKernel = ElementwiseUpdate<T, Sgd>;

template <class T> struct Momentum {
  explicit Momentum(KernelBindContext *ctx)
      : momentum(stateOf<T>(ctx, "momentum")), beta(static_cast<T>(ctx->Attr<float>("beta"))),
        keep(T(1) - static_cast<T>(ctx->Attr<float>("dampening"))), nesterov(ctx->Attr<bool>("nesterov")),
        maximize(ctx->Attr<bool>("maximize")) {}
  template <class Threads> void run(Threads *dev, const Update<T> &u) const {
    const T rate = static_cast<T>(u.learningRate()), decay = rate * u.weightDecay(), step = maximize ? rate : -rate;
    u.update(dev, [=, r = *this](int64_t i, T model, T g) {
      const T next = r.beta * r.momentum[i] + r.keep * g;
      r.momentum[i] = next;
      return model + (step * (r.nesterov ? g + r.beta * next : next) - decay * model);
    });
  }
  T *momentum;
  T beta, keep;
  bool nesterov, maximize;
};
template <class T> using MomentumKernel = ElementwiseUpdate<T, Momentum>;

REGISTER_USER_OP("sgd_update")
    .With(modelInputs)
    .OptionalInput("model_copy")
    .With(rateInputs)
    .With(updates({}))
    .Doc(std::string(kCommonDoc) + "model -= rate * (gradient + weight_decay * model). model_copy, f16 or bf16 "
                                   "beside a model of f32, receives the updated model. As torch.optim.SGD without "
                                   "momentum.")
    .Cases({updateCase("plain", {5, 7}).In("learning_rate", kFloat, {1}, 0, 1),
            updateCase("all", {37})
                .In("learning_rate", kFloat, {1}, 0, 1)
                .In("scale_by_tensor", {1}, 0.5, 2)
                .In("skip_if", kInt64, {1}, 0, 1)
                .Attr("learning_rate_scale", 0.5f)
                .Attr("scale", 0.25)
                .Attr("l1", 0.1f)
                .Attr("l2", 0.2f)
                .Attr("weight_decay", 0.3f),
            updateCase("constant_rate", {5}).Attr("learning_rate_val", 0.5f),
            Case("half_gradient")
                .In("model", {2100})
                .In("model_diff", kFloat16, {2100}, -1, 1)
                .Attr("learning_rate_val", 0.5f)
                .Types({kFloat}),
            updateCase("half_copy", {70})
                .In("model_copy", kFloat16, {70}, 0, 1)
                .Attr("learning_rate_val", 0.5f)
                .Types({kFloat}),
            updateCase("skipped", {5}).In("skip_if", kInt64, {1}, 1, 2).Attr("learning_rate_val", 0.5f)})
    .Kernel<SgdKernel, ModelTypes>("model");

REGISTER_USER_OP("momentum_update")
    .With(modelInputs)
    .Input("momentum")
    .With(rateInputs)
    .With(updates({"momentum"}))
    .Attr<float>("beta", 0.9f)
    .Attr<float>("dampening", 0.0f)
    .Attr<bool>("nesterov", false)
    .Attr<bool>("maximize", false)
    .Doc(std::string(kCommonDoc) +
         "momentum = beta * momentum + (1 - dampening) * gradient; model -= rate * (momentum + weight_decay * "
         "model), with nesterov gradient + beta * momentum in place of momentum, with maximize the other way. As "
         "torch.optim.SGD but for two points: weight decay does not enter the momentum (l2 does), and the first step "
         "is dampened too.")
    .Cases({updateCase("plain", {5, 7}).In("momentum", {5, 7}).In("learning_rate", kFloat, {1}, 0, 1),
            updateCase("nesterov", {37})
                .In("momentum", {37})
                .In("learning_rate", kFloat, {1}, 0, 1)
                .Attr("nesterov", true)
                .Attr("weight_decay", 0.1f),
            updateCase("maximize", {37})
                .In("momentum", {37})
                .Attr("learning_rate_val", 0.5f)
                .Attr("maximize", true)
                .Attr("dampening", 0.25f)
                .Attr("beta", 0.75f)})
    .Kernel<MomentumKernel, ModelTypes>("model");

} // namespace
} // namespace opc::ops::optimizer
