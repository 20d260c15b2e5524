// lamb_update and lars_update: rates that depend on the norms of the whole layer.
// SPDX-License-Identifier: Apache-2.0
#include "optimizer/UpdateOp.h"

#include <cmath>

namespace opc::ops::optimizer {
namespace {

/// The sums of squares of two sequences over all elements, piece by piece in double: the same for any number of
/// threads. `fill(begin, end, diff, sums)` adds a piece's two sums.
template <class T, class Fill>
void squareSums(DeviceCtx *dev, const Update<T> &u, double *partials, Fill fill, double sums[2]) {
  dev->parallelFor(u.pieces(), 8, [&](int64_t b, int64_t e) {
    for (int64_t p = b; p < e; ++p) {
      auto body = [&](int64_t begin, int64_t end, const T *diff) { fill(begin, end, diff, partials + 2 * p); };
      u.piece(p, body);
    }
  });
  sums[0] = sums[1] = 0;
  for (int64_t p = 0; p < u.pieces(); ++p) {
    sums[0] += partials[2 * p];
    sums[1] += partials[2 * p + 1];
  }
}

size_t partialsSize(InferContext *ctx) {
  const int64_t n = ctx->InputShape("model", 0).elem_cnt(), piece = Update<float>::kPiece;
  return static_cast<size_t>(std::max<int64_t>(1, (n + piece - 1) / piece)) * 2 * sizeof(double);
}

template <class T> class LambKernel final : public UpdateKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    T *m = stateOf<T>(ctx, "m"), *v = stateOf<T>(ctx, "v");
    T *power1 = stateOf<T>(ctx, "beta1_t"), *power2 = stateOf<T>(ctx, "beta2_t");
    double *partials = static_cast<double *>(ctx->Tensor4ArgNameAndIndex("tmp_buffer", 0)->mut_raw_dptr());
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
      double correction1 = c1.get(), correction2 = c2.get();
      if (power1) correction1 = 1 - static_cast<double>(*power1 *= b1);
      if (power2) correction2 = 1 - static_cast<double>(*power2 *= b2);
      T *model = u.model();
      const auto gradient = u.gradient();
      const T first = static_cast<T>(1 / correction1), second = static_cast<T>(1 / std::sqrt(correction2));
      auto change = [=](int64_t i) { return m[i] * first / (std::sqrt(v[i]) * second + epsilon); };
      double sums[2];
      squareSums(
          dev, u, partials,
          [&](int64_t begin, int64_t end, const T *diff, double *out) {
            OPC_EACH_ELEMENT
            for (int64_t i = begin; i < end; ++i) {
              const T g = gradient(diff[i - begin], model[i]);
              m[i] = b1 * m[i] + r1 * g;
              v[i] = b2 * v[i] + r2 * (g * g);
            }
            double w = 0, d = 0;
            for (int64_t i = begin; i < end; ++i) {
              const double x = static_cast<double>(model[i]), y = static_cast<double>(change(i));
              w += x * x;
              d += y * y;
            }
            out[0] = w;
            out[1] = d;
          },
          sums);
      const double trust = sums[0] > 0 && sums[1] > 0 ? std::sqrt(sums[0]) / std::sqrt(sums[1]) : 1;
      const T rate = static_cast<T>(u.learningRate() * trust), decay = u.weightDecay();
      u.forPieces(dev, [&](int64_t begin, int64_t end, const T *) {
        OPC_EACH_ELEMENT
        for (int64_t i = begin; i < end; ++i) model[i] -= rate * (change(i) + decay * model[i]);
      });
    });
  }
};

template <class T> class LarsKernel final : public UpdateKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    T *momentum = stateOf<T>(ctx, "momentum");
    double *partials = static_cast<double *>(ctx->Tensor4ArgNameAndIndex("tmp_buffer", 0)->mut_raw_dptr());
    const T beta = static_cast<T>(ctx->Attr<float>("momentum_beta"));
    const double epsilon = static_cast<double>(ctx->Attr<float>("epsilon")),
                 coefficient = static_cast<double>(ctx->Attr<float>("lars_coefficient"));
    return user_op::bindTask([=, u = Update<T>(ctx)](DeviceCtx *dev) {
      if (!u.wanted()) return;
      T *model = u.model();
      const auto gradient = u.gradient();
      double sums[2];
      squareSums(
          dev, u, partials,
          [&](int64_t begin, int64_t end, const T *diff, double *out) {
            double w = 0, d = 0;
            for (int64_t i = begin; i < end; ++i) {
              const double x = static_cast<double>(model[i]),
                           y = static_cast<double>(gradient(diff[i - begin], model[i]));
              w += x * x;
              d += y * y;
            }
            out[0] = w;
            out[1] = d;
          },
          sums);
      const double modelNorm = std::sqrt(sums[0]), diffNorm = std::sqrt(sums[1]),
                   decay = static_cast<double>(u.weightDecay());
      const double local =
          modelNorm > 0 && diffNorm > 0 ? coefficient * modelNorm / (epsilon + diffNorm + decay * modelNorm) : 1;
      const T rate = static_cast<T>(u.learningRate() * local), shrink = rate * u.weightDecay();
      u.forPieces(dev, [&](int64_t begin, int64_t end, const T *diff) {
        OPC_EACH_ELEMENT
        for (int64_t i = begin; i < end; ++i) {
          const T next = beta * momentum[i] - rate * gradient(diff[i - begin], model[i]);
          momentum[i] = next;
          model[i] = model[i] + next - shrink * model[i];
        }
      });
    });
  }
};

Maybe<void> inferLamb(InferContext *ctx) {
  for (const char *arg : {"beta1_t", "beta2_t"})
    if (ctx->has_input(arg, 0) && ctx->InputDType(arg, 0) != ctx->InputDType("model", 0))
      return Error::TypeError() << arg << " is " << dataTypeName(ctx->InputDType(arg, 0)) << ", model is "
                                << dataTypeName(ctx->InputDType("model", 0));
  return inferUpdate(ctx, {"m", "v"});
}

REGISTER_USER_OP("lamb_update")
    .Input("model")
    .Input("model_diff")
    .OptionalInput("learning_rate")
    .OptionalInput("scale_by_tensor")
    .OptionalInput("skip_if")
    .OptionalInput("bias_correction1")
    .OptionalInput("bias_correction2")
    .Input("m")
    .Input("v")
    .OptionalInput("beta1_t")
    .OptionalInput("beta2_t")
    .OPC_UPDATE_ATTRS()
    .Attr<float>("bias_correction1_val", 1.0f)
    .Attr<float>("bias_correction2_val", 1.0f)
    .Attr<float>("beta1", 0.9f)
    .Attr<float>("beta2", 0.999f)
    .Attr<float>("epsilon", 1e-8f)
    .Attr<bool>("do_bias_correction", true)
    .SetTensorDescInferFn(inferLamb)
    .SetInputArgModifyFn(writesModelAnd({"m", "v", "beta1_t", "beta2_t"}))
    .NoGrad("it updates a variable")
    .Doc(std::string(kCommonDoc) +
         "m and v are the means of adam_update; d = m / bias_correction1 / (sqrt(v / bias_correction2) + epsilon); "
         "model -= rate * |model| / |d| * (d + weight_decay * model), with the quotient of the norms 1 where one of "
         "them is 0. beta1_t and beta2_t (OneFlow 0.3) are variables of one element that begin at 1, are multiplied "
         "by beta1 and beta2 first, and give the corrections as 1 - beta_t. Source: Y. You et al., \"Large batch "
         "optimization for deep learning\", ICLR 2020; as in OneFlow, the norm of d is taken before weight decay is "
         "added.")
    .Cases({user_op::Case("plain")
                .In("model", {5, 7})
                .In("model_diff", {5, 7})
                .In("m", {5, 7})
                .In("v", {5, 7}, 0, 1)
                .In("learning_rate", kFloat, {1}, 0, 1)
                .Attr("weight_decay", 0.1f)
                .Attr("epsilon", 0.01f),
            user_op::Case("corrected")
                .In("model", {4100})
                .In("model_diff", {4100})
                .In("m", {4100})
                .In("v", {4100}, 0, 1)
                .In("bias_correction1", kFloat, {1}, 0.1, 1)
                .In("bias_correction2", kFloat, {1}, 0.1, 1)
                .Attr("learning_rate_val", 0.01f)
                .Attr("epsilon", 0.01f),
            user_op::Case("powers")
                .In("model", {37})
                .In("model_diff", {37})
                .In("m", {37})
                .In("v", {37}, 0, 1)
                .In("beta1_t", {1}, 0.5, 1)
                .In("beta2_t", {1}, 0.5, 1)
                .Types({kFloat, kDouble})
                .Attr("learning_rate_val", 0.01f)
                .Attr("epsilon", 0.01f)});

REGISTER_USER_OP("lars_update")
    .Input("model")
    .Input("model_diff")
    .OptionalInput("learning_rate")
    .OptionalInput("train_step")
    .Input("momentum")
    .OptionalInput("scale_by_tensor")
    .OptionalInput("skip_if")
    .OPC_UPDATE_ATTRS()
    .Attr<float>("momentum_beta", 0.9f)
    .Attr<float>("epsilon", 1e-9f)
    .Attr<float>("lars_coefficient", 0.0001f)
    .SetTensorDescInferFn([](InferContext *ctx) { return inferUpdate(ctx, {"momentum"}); })
    .SetInputArgModifyFn(writesModelAnd({"momentum"}))
    .NoGrad("it updates a variable")
    .Doc(std::string(kCommonDoc) +
         "local = rate * lars_coefficient * |model| / (epsilon + |gradient| + weight_decay * |model|), or rate where "
         "one of the norms is 0; momentum = momentum_beta * momentum - local * gradient; model += momentum - local * "
         "weight_decay * model. train_step (OneFlow 0.3) is accepted and not read. Source: Y. You et al., \"Large "
         "batch training of convolutional networks\", 2017, arXiv:1708.03888.")
    .Cases({user_op::Case("plain")
                .In("model", {5, 7})
                .In("model_diff", {5, 7})
                .In("momentum", {5, 7})
                .In("learning_rate", kFloat, {1}, 0, 1)
                .Attr("lars_coefficient", 0.5f)
                .Attr("weight_decay", 0.1f),
            user_op::Case("large")
                .In("model", {4100})
                .In("model_diff", {4100})
                .In("momentum", {4100})
                .Attr("learning_rate_val", 0.5f)
                .Attr("lars_coefficient", 0.1f)});

const CpuKernelOptions kWithPartials{partialsSize, nullptr};
OPC_CPU_KERNELS_WITH("lamb_update", "model", kWithPartials, LambKernel, float, double);
OPC_CPU_KERNELS_WITH("lars_update", "model", kWithPartials, LarsKernel, float, double);

} // namespace
} // namespace opc::ops::optimizer
