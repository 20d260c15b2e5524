// sgd_update and momentum_update.
// SPDX-License-Identifier: Apache-2.0
#include "optimizer/UpdateOp.h"

namespace opc::ops::optimizer {
namespace {

template <class T> class SgdKernel final : public UpdateKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    return user_op::bindTask([u = Update<T>(ctx)](DeviceCtx *dev) {
      if (!u.wanted()) return;
      T *model = u.model();
      const auto gradient = u.gradient();
      const T rate = static_cast<T>(u.learningRate()), decay = u.weightDecay();
      u.forPieces(dev, [&](int64_t begin, int64_t end, const T *diff) {
        OPC_EACH_ELEMENT
        for (int64_t i = begin; i < end; ++i)
          model[i] -= rate * (gradient(diff[i - begin], model[i]) + decay * model[i]);
        u.copyModel(begin, end);
      });
    });
  }
};

template <class T> class MomentumKernel final : public UpdateKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    T *momentum = stateOf<T>(ctx, "momentum");
    const T beta = static_cast<T>(ctx->Attr<float>("beta"));
    const T keep = T(1) - static_cast<T>(ctx->Attr<float>("dampening"));
    const bool nesterov = ctx->Attr<bool>("nesterov"), maximize = ctx->Attr<bool>("maximize");
    return user_op::bindTask([=, u = Update<T>(ctx)](DeviceCtx *dev) {
      if (!u.wanted()) return;
      T *model = u.model();
      const auto gradient = u.gradient();
      const T rate = static_cast<T>(u.learningRate()), decay = rate * u.weightDecay(), step = maximize ? rate : -rate;
      u.forPieces(dev, [&](int64_t begin, int64_t end, const T *diff) {
        OPC_EACH_ELEMENT
        for (int64_t i = begin; i < end; ++i) {
          const T g = gradient(diff[i - begin], model[i]), next = beta * momentum[i] + keep * g;
          momentum[i] = next;
          model[i] += step * (nesterov ? g + beta * next : next) - decay * model[i];
        }
      });
    });
  }
};

REGISTER_USER_OP("sgd_update")
    .Input("model")
    .Input("model_diff")
    .OptionalInput("model_copy")
    .OptionalInput("learning_rate")
    .OptionalInput("scale_by_tensor")
    .OptionalInput("skip_if")
    .OPC_UPDATE_ATTRS()
    .SetTensorDescInferFn([](InferContext *ctx) { return inferUpdate(ctx, {}); })
    .SetGetSbpFn(splitUpdate)
    .SetInputArgModifyFn(writesModelAnd({}))
    .NoGrad("it updates a variable")
    .Doc(std::string(kCommonDoc) + "model -= rate * (gradient + weight_decay * model). model_copy, f16 or bf16 "
                                   "beside a model of f32, receives the updated model. As torch.optim.SGD without "
                                   "momentum.")
    .Cases({user_op::Case("plain").In("model", {5, 7}).In("model_diff", {5, 7}).In("learning_rate", kFloat, {1}, 0, 1),
            user_op::Case("all")
                .In("model", {37})
                .In("model_diff", {37})
                .In("learning_rate", kFloat, {1}, 0, 1)
                .In("scale_by_tensor", {1}, 0.5, 2)
                .In("skip_if", kInt64, {1}, 0, 1)
                .Attr("learning_rate_scale", 0.5f)
                .Attr("scale", 0.25)
                .Attr("l1", 0.1f)
                .Attr("l2", 0.2f)
                .Attr("weight_decay", 0.3f),
            user_op::Case("constant_rate").In("model", {5}).In("model_diff", {5}).Attr("learning_rate_val", 0.5f),
            user_op::Case("half_gradient")
                .In("model", {2100})
                .In("model_diff", kFloat16, {2100}, -1, 1)
                .Attr("learning_rate_val", 0.5f)
                .Types({kFloat}),
            user_op::Case("half_copy")
                .In("model", {70})
                .In("model_diff", {70})
                .In("model_copy", kFloat16, {70}, 0, 1)
                .Attr("learning_rate_val", 0.5f)
                .Types({kFloat}),
            user_op::Case("skipped")
                .In("model", {5})
                .In("model_diff", {5})
                .In("skip_if", kInt64, {1}, 1, 2)
                .Attr("learning_rate_val", 0.5f)});
OPC_UPDATE_KERNELS("sgd_update", SgdKernel);

REGISTER_USER_OP("momentum_update")
    .Input("model")
    .Input("model_diff")
    .Input("momentum")
    .OptionalInput("learning_rate")
    .OptionalInput("scale_by_tensor")
    .OptionalInput("skip_if")
    .OPC_UPDATE_ATTRS()
    .Attr<float>("beta", 0.9f)
    .Attr<float>("dampening", 0.0f)
    .Attr<bool>("nesterov", false)
    .Attr<bool>("maximize", false)
    .SetTensorDescInferFn([](InferContext *ctx) { return inferUpdate(ctx, {"momentum"}); })
    .SetGetSbpFn(splitUpdate)
    .SetInputArgModifyFn(writesModelAnd({"momentum"}))
    .NoGrad("it updates a variable")
    .Doc(std::string(kCommonDoc) +
         "momentum = beta * momentum + (1 - dampening) * gradient; model -= rate * (momentum + weight_decay * "
         "model), with nesterov gradient + beta * momentum in place of momentum, with maximize the other way. As "
         "torch.optim.SGD but for two points: weight decay does not enter the momentum (l2 does), and the first step "
         "is dampened too.")
    .Cases({user_op::Case("plain")
                .In("model", {5, 7})
                .In("model_diff", {5, 7})
                .In("momentum", {5, 7})
                .In("learning_rate", kFloat, {1}, 0, 1),
            user_op::Case("nesterov")
                .In("model", {37})
                .In("model_diff", {37})
                .In("momentum", {37})
                .In("learning_rate", kFloat, {1}, 0, 1)
                .Attr("nesterov", true)
                .Attr("weight_decay", 0.1f),
            user_op::Case("maximize")
                .In("model", {37})
                .In("model_diff", {37})
                .In("momentum", {37})
                .Attr("learning_rate_val", 0.5f)
                .Attr("maximize", true)
                .Attr("dampening", 0.25f)
                .Attr("beta", 0.75f)});
OPC_UPDATE_KERNELS("momentum_update", MomentumKernel);

} // namespace
} // namespace opc::ops::optimizer
