// lamb_update and lars_update: rates that depend on the norms of the whole layer.
// SPDX-License-Identifier: Apache-2.0
#include "optimizer/Moments.h"

#include <array>
#include <cmath>

namespace opc::ops::optimizer {
namespace {

/// The sums of the squares of a model, and of what it is compared with: added up piece by piece in double, the same for
/// any number of threads.
class SquareSums {
public:
  using Sums = std::array<double, 2>;
  explicit SquareSums(KernelBindContext *ctx) : partials_(ctx->Has("norms") ? nullptr : ctx->Tmp<double>()) {}
  static size_t tmpSize(InferContext *ctx) {
    const int64_t pieces = Update<float>::pieces(ctx->In("model").shape().elem_cnt());
    return ctx->Has("norms") ? 0 : static_cast<size_t>(std::max<int64_t>(1, pieces)) * 2 * sizeof(double);
  }
  /// `other(begin, end, diff)` gives what the model is compared with, as a function of i.
  template <class T, class Other> Sums measure(DeviceCtx *dev, const Update<T> &u, const Other &other) const {
    u.forPieces(dev, [&, model = u.model()](int64_t piece, int64_t begin, int64_t end, const T *diff) {
      const auto compared = other(begin, end, diff);
      double w = 0, d = 0;
      for (int64_t i = begin; i < end; ++i) {
        const double x = static_cast<double>(model[i]), y = static_cast<double>(compared(i));
        w += x * x;
        d += y * y;
      }
      partials_[2 * piece] = w;
      partials_[2 * piece + 1] = d;
    });
    Sums sums{};
    for (int64_t p = 0; p < u.pieces(); ++p) {
      sums[0] += partials_[2 * p];
      sums[1] += partials_[2 * p + 1];
    }
    return sums;
  }

private:
  double *partials_;
};

struct LayerNorms {
  explicit LayerNorms(const SquareSums::Sums &squares) : model(std::sqrt(squares[0])), other(std::sqrt(squares[1])) {}
  explicit LayerNorms(const double *squares) : LayerNorms(SquareSums::Sums{squares[0], squares[1]}) {}
  bool both() const { return model > 0 && other > 0; }
  double model, other;
};
/// Those that the op is given: then it measures none.
const double *givenNorms(KernelBindContext *ctx) {
  return ctx->Has("norms") ? ctx->In("norms").dptr<double>() : nullptr;
}

/// The task of an op that measures a layer for an update: Norms<T> has `squares(dev, update)`.
template <class T, template <class> class Norms> class NormsKernel final : public BindingKernel {
public:
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    double *to = ctx->Out("out").mut_dptr<double>();
    return bindTask([to, norms = Norms<T>(ctx), u = Update<T>(ctx, false)](DeviceCtx *dev) {
      const SquareSums::Sums squares = norms.squares(dev, u);
      std::copy(squares.begin(), squares.end(), to);
    });
  }
};
/// Definition of such an op.
void normsOutput(OpRegistry &op) {
  op.Output("out").With(splitUpdate).NoGrad("it serves an update");
  op.Tolerance(kDouble, 1e-5, 1e-6); // of elements that may be f32
}
Maybe<void> inferNorms(InferContext *ctx, const std::vector<std::string> &state) {
  JUST(inferUpdate(ctx, state));
  return setOut(ctx, "out", kNorms);
}

// --- LAMB ------------------------------------------------------------------------------------------------------------

/// The direction of a step, of the means.
template <class T> struct LambDirection {
  LambDirection(double correction1, double correction2, T epsilon)
      : first(static_cast<T>(1 / correction1)), second(static_cast<T>(1 / std::sqrt(correction2))), epsilon(epsilon) {}
  T operator()(T m, T v) const { return m * first / (std::sqrt(v) * second + epsilon); }
  T first, second, epsilon;
};

template <class T> struct Lamb : Moments<T> {
  explicit Lamb(KernelBindContext *ctx)
      : Moments<T>(ctx), power1(stateOf<T>(ctx, "beta1_t")), power2(stateOf<T>(ctx, "beta2_t")), given(givenNorms(ctx)),
        squares(ctx) {}
  void run(DeviceCtx *dev, const Update<T> &u) const {
    const Moments<T> a = *this;
    double correction1 = a.correction1.get(), correction2 = a.correction2.get();
    if (power1) correction1 = 1 - static_cast<double>(*power1 *= a.b1);
    if (power2) correction2 = 1 - static_cast<double>(*power2 *= a.b2);
    const LambDirection<T> direction(correction1, correction2, a.epsilon);
    const auto update = [&](const LayerNorms &norms, auto taken) { // the change of element i with its gradient
      const T rate = static_cast<T>(u.learningRate() * (norms.both() ? norms.model / norms.other : 1));
      const T decay = u.weightDecay();
      u.update(dev, [=](int64_t i, T model, T g) { return model - rate * (taken(i, g) + decay * model); });
    };
    if (given)
      return update(LayerNorms(given), [=](int64_t i, T g) { return direction(a.takeM(i, g), a.takeV(i, g)); });
    const auto take = [=, model = u.model(), gradient = u.gradient()](int64_t begin, int64_t end, const T *diff) {
      eachElement(begin, end, [=](int64_t i) {
        const T g = gradient(diff[i - begin], model[i]);
        a.takeM(i, g);
        a.takeV(i, g);
      });
      return [=](int64_t i) { return direction(a.m[i], a.v[i]); };
    };
    update(LayerNorms(squares.measure(dev, u, take)), [=](int64_t i, T) { return direction(a.m[i], a.v[i]); });
  }
  T *power1, *power2;
  const double *given;
  SquareSums squares;
};
template <class T> using LambKernel = UpdateKernel<T, Lamb>;

/// What lamb_update would compare, without a change to the means.
template <class T> struct LambNorms : MomentRates<T> {
  explicit LambNorms(KernelBindContext *ctx)
      : MomentRates<T>(ctx), m(ctx->In("m").dptr<T>()), v(ctx->In("v").dptr<T>()),
        power1(ctx->Has("beta1_t") ? ctx->In("beta1_t").dptr<T>() : nullptr),
        power2(ctx->Has("beta2_t") ? ctx->In("beta2_t").dptr<T>() : nullptr), sums(ctx) {}
  SquareSums::Sums squares(DeviceCtx *dev, const Update<T> &u) const {
    const MomentRates<T> a = *this;
    double correction1 = a.correction1.get(), correction2 = a.correction2.get();
    if (power1) correction1 = 1 - static_cast<double>(*power1 * a.b1);
    if (power2) correction2 = 1 - static_cast<double>(*power2 * a.b2);
    const LambDirection<T> direction(correction1, correction2, a.epsilon);
    return sums.measure(
        dev, u, [=, m = m, v = v, model = u.model(), gradient = u.gradient()](int64_t begin, int64_t, const T *diff) {
          return [=](int64_t i) {
            const T g = gradient(diff[i - begin], model[i]);
            return direction(a.nextM(m[i], g), a.nextV(v[i], g));
          };
        });
  }
  const T *m, *v, *power1, *power2;
  SquareSums sums;
};
template <class T> using LambNormsKernel = NormsKernel<T, LambNorms>;

// --- LARS ------------------------------------------------------------------------------------------------------------

template <class T> SquareSums::Sums larsSquares(const SquareSums &sums, DeviceCtx *dev, const Update<T> &u) {
  return sums.measure(dev, u, [model = u.model(), gradient = u.gradient()](int64_t begin, int64_t, const T *diff) {
    return [=](int64_t i) { return gradient(diff[i - begin], model[i]); };
  });
}

template <class T> struct Lars {
  explicit Lars(KernelBindContext *ctx)
      : momentum(stateOf<T>(ctx, "momentum")), beta(static_cast<T>(real(ctx, "momentum_beta"))),
        epsilon(real(ctx, "epsilon")), coefficient(real(ctx, "lars_coefficient")), given(givenNorms(ctx)), sums(ctx) {}
  void run(DeviceCtx *dev, const Update<T> &u) const {
    const LayerNorms norms = given ? LayerNorms(given) : LayerNorms(larsSquares(sums, dev, u));
    const double decay = static_cast<double>(u.weightDecay());
    const double local = norms.both() ? coefficient * norms.model / (epsilon + norms.other + decay * norms.model) : 1;
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
  const double *given;
  SquareSums sums;
};
template <class T> using LarsKernel = UpdateKernel<T, Lars>;

template <class T> struct LarsNorms {
  explicit LarsNorms(KernelBindContext *ctx) : sums(ctx) {}
  SquareSums::Sums squares(DeviceCtx *dev, const Update<T> &u) const { return larsSquares(sums, dev, u); }
  SquareSums sums;
};
template <class T> using LarsNormsKernel = NormsKernel<T, LarsNorms>;

// --- operators -------------------------------------------------------------------------------------------------------

const std::vector<std::string> kLambState = {"m", "v", "beta1_t", "beta2_t"};

Maybe<void> checkPowers(InferContext *ctx) {
  const DataType model = ctx->In("model").data_type();
  for (const char *arg : {"beta1_t", "beta2_t"})
    if (ctx->Has(arg) && ctx->In(arg).data_type() != model)
      return Error::TypeError() << arg << " is " << dataTypeName(ctx->In(arg).data_type()) << ", model is "
                                << dataTypeName(model);
  return Maybe<void>::Ok();
}
Maybe<void> inferLamb(InferContext *ctx) {
  JUST(checkPowers(ctx));
  return inferUpdate(ctx, {"m", "v"});
}
Maybe<void> inferLambNorms(InferContext *ctx) {
  JUST(checkPowers(ctx));
  return inferNorms(ctx, {"m", "v"});
}
const char *const kNormsDoc =
    " With norms, the sums of the squares of what is compared, it measures nothing: then the op may be split.";

REGISTER_USER_OP("lamb_update")
    .With(modelInputs)
    .With(rateInputs)
    .With(momentInputs)
    .OptionalInput("beta1_t")
    .OptionalInput("beta2_t")
    .OptionalInput("norms")
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
         "added." +
         kNormsDoc)
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
                .Attr("epsilon", 0.01f),
            momentCase("norms", {6, 5})
                .In("norms", kDouble, {2}, 1, 9)
                .Attr("learning_rate_val", 0.01f)
                .Attr("weight_decay", 0.1f)
                .Attr("epsilon", 0.01f),
            momentCase("no_norm", {6, 5})
                .In("norms", kDouble, {2}, 0, 0)
                .Attr("learning_rate_val", 0.01f)
                .Attr("weight_decay", 0.1f)
                .Attr("epsilon", 0.01f)})
    .Kernel<LambKernel, ModelTypes>("model", KernelOptions().TmpSize(SquareSums::tmpSize));

REGISTER_USER_OP("lamb_norms")
    .With(modelInputs)
    .OptionalInput("scale_by_tensor")
    .With(momentInputs)
    .OptionalInput("beta1_t")
    .OptionalInput("beta2_t")
    .With(normsOutput)
    .With(gradientAttrs)
    .With(momentAttrs)
    .Attr<bool>("do_bias_correction", true)
    .SetTensorDescInferFn(inferLambNorms)
    .Doc(
        "out (f64, two elements) holds the sum of the squares of model, and that of the direction d in which "
        "lamb_update with the same inputs and attributes would go. It writes nothing; sums of pieces add up to those of "
        "the whole, which lamb_update takes in place of its own.")
    .Cases({momentCase("plain", {5, 7}).Attr("epsilon", 0.01f), momentCase("powers", {37})
                                                                    .In("beta1_t", {1}, 0.5, 1)
                                                                    .In("beta2_t", {1}, 0.5, 1)
                                                                    .Types({kFloat, kDouble})
                                                                    .Attr("l2", 0.5f)
                                                                    .Attr("epsilon", 0.01f)})
    .Kernel<LambNormsKernel, ModelTypes>("model", KernelOptions().TmpSize(SquareSums::tmpSize));

REGISTER_USER_OP("lars_update")
    .With(modelInputs)
    .OptionalInput("learning_rate")
    .OptionalInput("train_step")
    .Input("momentum")
    .OptionalInput("scale_by_tensor")
    .OptionalInput("skip_if")
    .OptionalInput("norms")
    .With(updates({"momentum"}))
    .Attr<float>("momentum_beta", 0.9f)
    .Attr<float>("epsilon", 1e-9f)
    .Attr<float>("lars_coefficient", 0.0001f)
    .Doc(std::string(kCommonDoc) +
         "local = rate * lars_coefficient * |model| / (epsilon + |gradient| + weight_decay * |model|), or rate where "
         "one of the norms is 0; momentum = momentum_beta * momentum - local * gradient; model += momentum - local * "
         "weight_decay * model. train_step (OneFlow 0.3) is accepted and not read. Source: Y. You et al., \"Large "
         "batch training of convolutional networks\", 2017, arXiv:1708.03888." +
         kNormsDoc)
    .Cases({updateCase("plain", {5, 7})
                .In("momentum", {5, 7})
                .In("learning_rate", kFloat, {1}, 0, 1)
                .Attr("lars_coefficient", 0.5f)
                .Attr("weight_decay", 0.1f),
            updateCase("large", {4100})
                .In("momentum", {4100})
                .Attr("learning_rate_val", 0.5f)
                .Attr("lars_coefficient", 0.1f),
            updateCase("norms", {6, 5})
                .In("momentum", {6, 5})
                .In("norms", kDouble, {2}, 1, 9)
                .Attr("learning_rate_val", 0.5f)
                .Attr("weight_decay", 0.1f)
                .Attr("lars_coefficient", 0.1f),
            updateCase("no_norm", {6, 5})
                .In("momentum", {6, 5})
                .In("norms", kDouble, {2}, 0, 0)
                .Attr("learning_rate_val", 0.5f)
                .Attr("weight_decay", 0.1f)
                .Attr("lars_coefficient", 0.1f)})
    .Kernel<LarsKernel, ModelTypes>("model", KernelOptions().TmpSize(SquareSums::tmpSize));

REGISTER_USER_OP("lars_norms")
    .With(modelInputs)
    .OptionalInput("scale_by_tensor")
    .With(normsOutput)
    .With(gradientAttrs)
    .SetTensorDescInferFn([](InferContext *ctx) { return inferNorms(ctx, {}); })
    .Doc("out (f64, two elements) holds the sum of the squares of model, and that of the gradient that lars_update "
         "with the same inputs and attributes would use; sums of pieces add up to those of the whole.")
    .Cases({updateCase("plain", {5, 7}).Attr("scale", 0.5).Attr("l1", 0.25f)})
    .Kernel<LarsNormsKernel, ModelTypes>("model", KernelOptions().TmpSize(SquareSums::tmpSize));

} // namespace
} // namespace opc::ops::optimizer
