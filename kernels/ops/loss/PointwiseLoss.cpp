// Losses element by element: binary_cross_entropy, binary_cross_entropy_with_logits, smooth_l1_loss, kl_div_loss.
// SPDX-License-Identifier: Apache-2.0
#include "StagedTensors.h"
#include "support/CpuKernels.h"
#include "support/RegisterFloating.h"

#include <cmath>

namespace opc::ops {
namespace {

using cpu::StagedTensors;

Maybe<void> infer(InferContext *ctx) {
  const TensorDesc input = *ctx->TensorDesc4ArgNameAndIndex("input", 0);
  for (const char *arg : {"target", "weight"})
    if (ctx->has_input(arg, 0) && ctx->InputTensorDesc(arg, 0) != input)
      return (Error::ShapeMismatch() << arg << " is " << ctx->InputTensorDesc(arg, 0).toString() << ", input is "
                                     << input.toString())
          .help(std::string("the loss is taken element by element; expand or cast ") + arg);
  if (ctx->has_input("pos_weight", 0)) {
    const TensorDesc p = ctx->InputTensorDesc("pos_weight", 0);
    const int64_t lead = input.shape().NumAxes() - p.shape().NumAxes();
    bool fits = lead >= 0 && p.data_type() == input.data_type();
    for (int64_t a = 0; fits && a < p.shape().NumAxes(); ++a) fits = p.shape().At(a) == input.shape().At(lead + a);
    if (!fits && !(p.shape().elem_cnt() == 1 && p.data_type() == input.data_type()))
      return (Error::ShapeMismatch() << "pos_weight is " << p.toString() << ", input is " << input.toString())
          .help("pos_weight has the last axes of input, or one element");
  }
  *ctx->TensorDesc4ArgNameAndIndex("out", 0) = input;
  return Maybe<void>::Ok();
}

template <class T> T softplus(T x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }

struct BinaryCrossEntropy {
  explicit BinaryCrossEntropy(const user_op::OpContext *) {}
  /// The logs are bounded at -100, so that a certain and wrong input has a finite loss.
  template <class T> T operator()(T x, T t, const T *) const {
    return -(t * std::max(std::log(x), T(-100)) + (1 - t) * std::max(std::log(1 - x), T(-100)));
  }
};
struct BinaryCrossEntropyWithLogits {
  explicit BinaryCrossEntropyWithLogits(const user_op::OpContext *) {}
  /// -(p t log s(x) + (1-t) log(1-s(x))) with s the sigmoid.
  template <class T> T operator()(T x, T t, const T *p) const {
    return (p ? *p : T(1)) * t * softplus(-x) + (1 - t) * softplus(x);
  }
};
struct SmoothL1 {
  explicit SmoothL1(const user_op::OpContext *ctx) : beta(static_cast<double>(ctx->Attr<float>("beta"))) {}
  double beta;
  template <class T> T operator()(T x, T t, const T *) const {
    const T d = std::abs(x - t), b = static_cast<T>(beta);
    return d < b ? T(0.5) * d * d / b : d - T(0.5) * b;
  }
};
struct KlDiv {
  explicit KlDiv(const user_op::OpContext *ctx) : logTarget(ctx->Attr<bool>("log_target")) {}
  bool logTarget;
  template <class T> T operator()(T x, T t, const T *) const {
    if (logTarget) return std::exp(t) * (t - x);
    return t > 0 ? t * (std::log(t) - x) : t != t ? t : T(0);
  }
};

template <class Loss, class T> class LossKernel : public BindingKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    StagedTensors<T> staged(ctx);
    const T *x = staged.in("input"), *t = staged.in("target"), *weight = staged.in("weight"),
            *pos = staged.in("pos_weight");
    T *out = staged.out("out");
    const int64_t n = ctx->Tensor4ArgNameAndIndex("input", 0)->shape().elem_cnt();
    const int64_t posCount = pos ? ctx->Tensor4ArgNameAndIndex("pos_weight", 0)->shape().elem_cnt() : 1;
    const Loss loss(ctx);
    return user_op::bindTask([=, staged = std::move(staged)](DeviceCtx *dev) {
      staged.load(dev);
      dev->parallelFor(n, 4096, [&](int64_t b, int64_t e) {
        for (int64_t i = b; i < e; ++i) {
          const T v = loss(x[i], t[i], pos ? pos + i % posCount : nullptr);
          out[i] = weight ? v * weight[i] : v;
        }
      });
      staged.store(dev);
    });
  }
};
template <class T> using BceKernel = LossKernel<BinaryCrossEntropy, T>;
template <class T> using BceLogitsKernel = LossKernel<BinaryCrossEntropyWithLogits, T>;
template <class T> using SmoothL1Kernel = LossKernel<SmoothL1, T>;
template <class T> using KlDivKernel = LossKernel<KlDiv, T>;

REGISTER_USER_OP("binary_cross_entropy")
    .Input("input")
    .Input("target")
    .OptionalInput("weight")
    .Output("out")
    .SetTensorDescInferFn(infer)
    .SetGetSbpFn(user_op::GetSbpFnUtil::SplitForEachAxis)
    .Doc("out = -weight * (target * log(input) + (1 - target) * log(1 - input)), element by element; logs are "
         "bounded at -100.")
    .Cases({user_op::Case("plain").In("input", {4, 5}, 0.05, 0.95).In("target", {4, 5}, 0, 1),
            user_op::Case("weighted").In("input", {7}, 0.05, 0.95).In("target", {7}, 0, 1).In("weight", {7}, 0.5, 2)});

REGISTER_USER_OP("binary_cross_entropy_with_logits")
    .Input("input")
    .Input("target")
    .OptionalInput("weight")
    .OptionalInput("pos_weight")
    .Output("out")
    .Attr<bool>("has_pos_weight", false)
    .SetTensorDescInferFn(infer)
    .Sharding("..., ..., ..., ... -> ...")
    .Doc("binary_cross_entropy of the sigmoid of input, computed without overflow; the term of target is multiplied "
         "by pos_weight, which has the last axes of input or one element. has_pos_weight is accepted from older "
         "graphs: pos_weight counts when it is bound.")
    .Cases({user_op::Case("plain").In("input", {4, 5}, -20, 20).In("target", {4, 5}, 0, 1),
            user_op::Case("weighted")
                .In("input", {3, 4}, -5, 5)
                .In("target", {3, 4}, 0, 1)
                .In("weight", {3, 4}, 0.5, 2)
                .In("pos_weight", {4}, 0.5, 2)
                .Attr("has_pos_weight", true)});

REGISTER_USER_OP("smooth_l1_loss")
    .Input("input")
    .Input("target")
    .Output("out")
    .ArgAlias("prediction", "input")
    .ArgAlias("label", "target")
    .ArgAlias("loss", "out")
    .Attr<float>("beta", 0.0f)
    .SetTensorDescInferFn(infer)
    .SetGetSbpFn(user_op::GetSbpFnUtil::SplitForEachAxis)
    .Doc("With d = |input - target|: out = d^2 / (2 beta) where d < beta, else d - beta / 2. beta 0 gives d.")
    .Cases({user_op::Case("plain").In("input", {4, 5}, -2, 2).In("target", {4, 5}, -2, 2).Attr("beta", 1.0f),
            user_op::Case("l1").In("input", {7}, -2, 2).In("target", {7}, -2, 2)});

REGISTER_USER_OP("kl_div_loss")
    .Input("input")
    .Input("target")
    .Output("out")
    .Attr<bool>("log_target", false)
    .SetTensorDescInferFn(infer)
    .SetGetSbpFn(user_op::GetSbpFnUtil::SplitForEachAxis)
    .Doc("input holds log probabilities: out = target * (log(target) - input), 0 where target is 0; with log_target, "
         "target holds logs too: out = exp(target) * (target - input).")
    .Cases({user_op::Case("plain").In("input", {4, 5}, -3, 0).In("target", {4, 5}, 0.05, 1),
            user_op::Case("logs").In("input", {7}, -3, 0).In("target", {7}, -3, 0).Attr("log_target", true)});

OPC_REGISTER_FLOATING_CPU_KERNELS("binary_cross_entropy", BceKernel, "input");
OPC_REGISTER_FLOATING_CPU_KERNELS("binary_cross_entropy_with_logits", BceLogitsKernel, "input");
OPC_REGISTER_FLOATING_CPU_KERNELS("smooth_l1_loss", SmoothL1Kernel, "input");
OPC_REGISTER_FLOATING_CPU_KERNELS("kl_div_loss", KlDivKernel, "input");

} // namespace
} // namespace opc::ops
