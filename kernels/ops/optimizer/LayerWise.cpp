// lamb_update and lars_update: rates that depend on the norms of the whole layer.
// SPDX-License-Identifier: Apache-2.0
#include "optimizer/Moments.h"

#include <cmath>

namespace opc::ops::optimizer {
namespace {

/// The norms of the model and of another sequence over its elements, summed piece by piece in double: the same for any
/// number of threads. `sequence(begin, end, diff)` gives the other one, as a function of i.
class LayerNorms {
public:
  explicit LayerNorms(KernelBindContext *ctx) : partials_(ctx->Tmp<double>()) {}
  static size_t tmpSize(InferContext *ctx) {
    const int64_t pieces = Update<float>::pieces(ctx->In("model").shape().elem_cnt());
    return static_cast<size_t>(std::max<int64_t>(1, pieces)) * 2 * sizeof(double);
  }
  template <class T, class Sequence> void measure(DeviceCtx *dev, const Update<T> &u, const Sequence &sequence) {
    u.forPieces(dev, [&, model = u.model()](int64_t piece, int64_t begin, int64_t end, const T *diff) {
      const auto other = sequence(begin, end, diff);
      double w = 0, d = 0;
      for (int64_t i = begin; i < end; ++i) {
        const double x = static_cast<double>(model[i]), y = static_cast<double>(other(i));
        w += x * x;
        d += y * y;
      }
      partials_[2 * piece] = w;
      partials_[2 * piece + 1] = d;
    });
    double sums[2] = {0, 0};
    for (int64_t p = 0; p < u.pieces(); ++p) {
      sums[0] += partials_[2 * p];
      sums[1] += partials_[2 * p + 1];
    }
    model = std::sqrt(sums[0]);
    other = std::sqrt(sums[1]);
  }
  double model = 0, other = 0;

private:
  double *partials_;
};

template <class T> struct Lamb : Moments<T> {
  explicit Lamb(KernelBindContext *ctx)
      : Moments<T>(ctx), power1(stateOf<T>(ctx, "beta1_t")), power2(stateOf<T>(ctx, "beta2_t")), layer(ctx) {}
  void run(DeviceCtx *dev, const Update<T> &u) const {
    const Moments<T> a = *this;
    double correction1 = a.correction1.get(), correction2 = a.correction2.get();
    if (power1) correction1 = 1 - static_cast<double>(*power1 *= a.b1);
    if (power2) correction2 = 1 - static_cast<double>(*power2 *= a.b2);
    const T first = static_cast<T>(1 / correction1), second = static_cast<T>(1 / std::sqrt(correction2));
    const auto change = [=](int64_t i) { return a.m[i] * first / (std::sqrt(a.v[i]) * second + a.epsilon); };
    LayerNorms norms = layer;
    norms.measure(dev, u, [=, model = u.model(), gradient = u.gradient()](int64_t begin, int64_t end, const T *diff) {
      eachElement(begin, end, [=](int64_t i) {
        const T g = gradient(diff[i - begin], model[i]);
        a.nextM(i, g);
        a.nextV(i, g);
      });
      return change;
    });
    const double trust = norms.model > 0 && norms.other > 0 ? norms.model / norms.other : 1;
    const T rate = static_cast<T>(u.learningRate() * trust), decay = u.weightDecay();
    u.update(dev, [=](int64_t i, T model, T) { return model - rate * (change(i) + decay * model); });
  }
  T *power1, *power2;
  LayerNorms layer;
};
template <class T> using LambKernel = UpdateKernel<T, Lamb>;

template <class T> struct Lars {
  explicit Lars(KernelBindContext *ctx)
      : momentum(stateOf<T>(ctx, "momentum")), beta(static_cast<T>(real(ctx, "momentum_beta"))),
        epsilon(real(ctx, "epsilon")), coefficient(real(ctx, "lars_coefficient")), layer(ctx) {}
  void run(DeviceCtx *dev, const Update<T> &u) const {
    LayerNorms norms = layer;
    norms.measure(dev, u, [model = u.model(), gradient = u.gradient()](int64_t begin, int64_t, const T *diff) {
      return [=](int64_t i) { return gradient(diff[i - begin], model[i]); };
    });
    const double decay = static_cast<double>(u.weightDecay());
    const double local = norms.model > 0 && norms.other > 0
                             ? coefficient * norms.model / (epsilon + norms.other + decay * norms.model)
                             : 1;
    const T rate = static_cast<T>(u.learningRate() * local), shrink = rate * u.weightDecay();
    u.update(dev, [=, r = *this](int64_t i, T model, T g) {
      const T next = r.beta * r.momentum[i] - rate * g;
      r.momentum[i] = next;
      return model + next - shrink * model;
    });
  }
  T *momentum;
  T beta;
  double epsilon, coefficient;
  LayerNorms layer;
};
template <class T> using LarsKernel = UpdateKernel<T, Lars>;

const std::vector<std::string> kLambState = {"m", "v", "beta1_t", "beta2_t"};

Maybe<void> inferLamb(InferContext *ctx) {
  const DataType model = ctx->In("model").data_type();
  for (const char *arg : {"beta1_t", "beta2_t"})
    if (ctx->Has(arg) && ctx->In(arg).data_type() != model)
      return Error::TypeError() << arg << " is " << dataTypeName(ctx->In(arg).data_type()) << ", model is "
                                << dataTypeName(model);
  return inferUpdate(ctx, {"m", "v"});
}

REGISTER_USER_OP("lamb_update")
    .With(modelInputs)
    .With(rateInputs)
    .With(momentInputs)
    .OptionalInput("beta1_t")
    .OptionalInput("beta2_t")
    .With(updates(kLambState))
    .With(momentAttrs)
    .Attr<bool>("do_bias_correction", true)
    .SetTensorDescInferFn(inferLamb)
    .Doc(std::string(kCommonDoc) +
         "m and v are the means of adam_update; d = m / bias_correction1 / (sqrt(v / bias_correction2) + epsilon); "
         "model -= rate * |model| / |d| * (d + weight_decay * model), with the quotient of the norms 1 where one of "
         "them is 0. beta1_t and beta2_t (OneFlow 0.3) are variables of one element that begin at 1, are multiplied "
         "by beta1 and beta2 first, and give the corrections as 1 - beta_t. Source: Y. You et al., \"Large batch "
         "optimization for deep learning\", ICLR 2020; as in OneFlow, the norm of d is taken before weight decay is "
         "added.")
    .Cases({momentCase("plain", {5, 7})
                .In("learning_rate", kFloat, {1}, 0, 1)
                .Attr("weight_decay", 0.1f)
                .Attr("epsilon", 0.01f),
            momentCase("corrected", {4100})
                .In("bias_correction1", kFloat, {1}, 0.1, 1)
                .In("bias_correction2", kFloat, {1}, 0.1, 1)
                .Attr("learning_rate_val", 0.01f)
                .Attr("epsilon", 0.01f),
            momentCase("powers", {37})
                .In("beta1_t", {1}, 0.5, 1)
                .In("beta2_t", {1}, 0.5, 1)
                .Types({kFloat, kDouble})
                .Attr("learning_rate_val", 0.01f)
                .Attr("epsilon", 0.01f)})
    .Kernel<LambKernel, ModelTypes>("model", KernelOptions().TmpSize(LayerNorms::tmpSize));

REGISTER_USER_OP("lars_update")
    .With(modelInputs)
    .OptionalInput("learning_rate")
    .OptionalInput("train_step")
    .Input("momentum")
    .OptionalInput("scale_by_tensor")
    .OptionalInput("skip_if")
    .With(updates({"momentum"}))
    .Attr<float>("momentum_beta", 0.9f)
    .Attr<float>("epsilon", 1e-9f)
    .Attr<float>("lars_coefficient", 0.0001f)
    .Doc(std::string(kCommonDoc) +
         "local = rate * lars_coefficient * |model| / (epsilon + |gradient| + weight_decay * |model|), or rate where "
         "one of the norms is 0; momentum = momentum_beta * momentum - local * gradient; model += momentum - local * "
         "weight_decay * model. train_step (OneFlow 0.3) is accepted and not read. Source: Y. You et al., \"Large "
         "batch training of convolutional networks\", 2017, arXiv:1708.03888.")
    .Cases({updateCase("plain", {5, 7})
                .In("momentum", {5, 7})
                .In("learning_rate", kFloat, {1}, 0, 1)
                .Attr("lars_coefficient", 0.5f)
                .Attr("weight_decay", 0.1f),
            updateCase("large", {4100})
                .In("momentum", {4100})
                .Attr("learning_rate_val", 0.5f)
                .Attr("lars_coefficient", 0.1f)})
    .Kernel<LarsKernel, ModelTypes>("model", KernelOptions().TmpSize(LayerNorms::tmpSize));

} // namespace
} // namespace opc::ops::optimizer
