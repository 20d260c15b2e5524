// Losses element by element: binary_cross_entropy, binary_cross_entropy_with_logits, smooth_l1_loss, kl_div_loss.
// SPDX-License-Identifier: Apache-2.0
#include "support/Operator.h"

#include <cmath>

namespace opc::ops::loss {
namespace {

Maybe<void> infer(InferContext *ctx) {
  const TensorDesc input = ctx->In("input");
  for (const char *arg : {"target", "weight"})
    if (ctx->Has(arg) && ctx->In(arg) != input)
      return (Error::ShapeMismatch() << arg << " is " << ctx->In(arg).toString() << ", input is " << input.toString())
          .help(std::string("the loss is taken element by element; expand or cast ") + arg);
  if (ctx->Has("pos_weight")) {
    const TensorDesc &p = ctx->In("pos_weight");
    const Shape &have = p.shape(), &full = input.shape();
    const bool last =
        have.NumAxes() <= full.NumAxes() && std::equal(have.begin(), have.end(), full.end() - have.NumAxes());
    if (p.data_type() != input.data_type() || !(last || have.elem_cnt() == 1))
      return (Error::ShapeMismatch() << "pos_weight is " << p.toString() << ", input is " << input.toString())
          .help("pos_weight has the last axes of input, or one element");
  }
  return setOut(ctx, "out", input);
}

/// Definition of a loss of input and target; `weights` names optional inputs beside them.
std::function<void(OpRegistry &)> pointwise(const std::vector<std::string> &weights = {}) {
  return [=](OpRegistry &op) {
    op.Input("input").Input("target");
    std::string inputs = "..., ...";
    for (const std::string &w : weights) {
      op.OptionalInput(w);
      inputs += ", ...";
    }
    op.Output("out").SetTensorDescInferFn(infer).Sharding(inputs + " -> ...");
  };
}

template <class T> T softplus(T x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }

struct BinaryCrossEntropy {
  explicit BinaryCrossEntropy(const OpContext *) {}
  /// The logs are bounded at -100, so that a certain and wrong input has a finite loss.
  template <class T> T operator()(T x, T t, const T *) const {
    return -(t * std::max(std::log(x), T(-100)) + (1 - t) * std::max(std::log(1 - x), T(-100)));
  }
};
struct BinaryCrossEntropyWithLogits {
  explicit BinaryCrossEntropyWithLogits(const OpContext *) {}
  /// -(p t log s(x) + (1-t) log(1-s(x))) with s the sigmoid.
  template <class T> T operator()(T x, T t, const T *p) const {
    return (p ? *p : T(1)) * t * softplus(-x) + (1 - t) * softplus(x);
  }
};
struct SmoothL1 {
  explicit SmoothL1(const OpContext *ctx) : beta(static_cast<double>(ctx->Attr<float>("beta"))) {}
  double beta;
  template <class T> T operator()(T x, T t, const T *) const {
    const T d = std::abs(x - t), b = static_cast<T>(beta);
    return d < b ? T(0.5) * d * d / b : d - T(0.5) * b;
  }
};
struct KlDiv {
  explicit KlDiv(const OpContext *ctx) : logTarget(ctx->Attr<bool>("log_target")) {}
  bool logTarget;
  template <class T> T operator()(T x, T t, const T *) const {
    if (logTarget) return std::exp(t) * (t - x);
    return t == 0 ? T(0) : t * (std::log(t) - x); // of less than nothing NaN, as the logarithm is
  }
};

template <class Loss, class T> class LossKernel : public StagedKernel<T> {
public:
  std::unique_ptr<BoundKernel> BindStaged(KernelBindContext *ctx, StagedTensors<T> &staged) const override {
    const T *x = staged.in("input"), *t = staged.in("target"), *weight = staged.in("weight"),
            *pos = staged.in("pos_weight");
    T *out = staged.out("out");
    const int64_t n = ctx->In("input").shape().elem_cnt();
    const int64_t posCount = pos ? ctx->In("pos_weight").shape().elem_cnt() : 1;
    return bindTask([=, loss = Loss(ctx)](DeviceCtx *dev) {
      dev->parallelFor(n, 4096, [&](int64_t b, int64_t e) {
        for (int64_t i = b; i < e; ++i) {
          const T v = loss(x[i], t[i], pos ? pos + i % posCount : nullptr);
          out[i] = weight ? v * weight[i] : v;
        }
      });
    });
  }
};
template <class T> using BceKernel = LossKernel<BinaryCrossEntropy, T>;
template <class T> using BceLogitsKernel = LossKernel<BinaryCrossEntropyWithLogits, T>;
template <class T> using SmoothL1Kernel = LossKernel<SmoothL1, T>;
template <class T> using KlDivKernel = LossKernel<KlDiv, T>;

REGISTER_USER_OP("binary_cross_entropy")
    .With(pointwise({"weight"}))
    .Doc("out = -weight * (target * log(input) + (1 - target) * log(1 - input)), element by element; logs are "
         "bounded at -100.")
    .Cases({Case("plain").In("input", {4, 5}, 0.05, 0.95).In("target", {4, 5}, 0, 1),
            Case("weighted").In("input", {7}, 0.05, 0.95).In("target", {7}, 0, 1).In("weight", {7}, 0.5, 2)})
    .Kernel<BceKernel, types::Floating>("input");

REGISTER_USER_OP("binary_cross_entropy_with_logits")
    .With(pointwise({"weight", "pos_weight"}))
    .Attr<bool>("has_pos_weight", false)
    .Doc("binary_cross_entropy of the sigmoid of input, computed without overflow; the term of target is multiplied "
         "by pos_weight, which has the last axes of input or one element. has_pos_weight is accepted from older "
         "graphs: pos_weight counts when it is bound.")
    .Cases({Case("plain").In("input", {4, 5}, -20, 20).In("target", {4, 5}, 0, 1), Case("weighted")
                                                                                       .In("input", {3, 4}, -5, 5)
                                                                                       .In("target", {3, 4}, 0, 1)
                                                                                       .In("weight", {3, 4}, 0.5, 2)
                                                                                       .In("pos_weight", {4}, 0.5, 2)
                                                                                       .Attr("has_pos_weight", true)})
    .Kernel<BceLogitsKernel, types::Floating>("input");

REGISTER_USER_OP("smooth_l1_loss")
    .With(pointwise())
    .ArgAlias("prediction", "input")
    .ArgAlias("label", "target")
    .ArgAlias("loss", "out")
    .Attr<float>("beta", 0.0f)
    .Doc("With d = |input - target|: out = d^2 / (2 beta) where d < beta, else d - beta / 2. beta 0 gives d.")
    .Cases({Case("plain").In("input", {4, 5}, -2, 2).In("target", {4, 5}, -2, 2).Attr("beta", 1.0f),
            Case("l1").In("input", {7}, -2, 2).In("target", {7}, -2, 2)})
    .Kernel<SmoothL1Kernel, types::Floating>("input");

REGISTER_USER_OP("kl_div_loss")
    .With(pointwise())
    .Attr<bool>("log_target", false)
    .Doc("input holds log probabilities: out = target * (log(target) - input), 0 where target is 0 and NaN where it is "
         "negative; with log_target, target holds logs too: out = exp(target) * (target - input).")
    .Cases({Case("plain").In("input", {4, 5}, -3, 0).In("target", {4, 5}, 0.05, 1),
            Case("logs").In("input", {7}, -3, 0).In("target", {7}, -3, 0).Attr("log_target", true)})
    .Kernel<KlDivKernel, types::Floating>("input");

} // namespace
} // namespace opc::ops::loss
