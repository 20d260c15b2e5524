// normalization: batch normalisation with given or computed statistics.
#include "../shape/Axes.h"
#include "NormRules.h"
#include "RegisterFloating.h"
#include "SimdExp.h"
#include "StagedTensors.h"

#include <cmath>

namespace opc::ops {
namespace {

using namespace opc::cpu;
using user_op::Case;
using user_op::InferContext;
using user_op::TensorDesc;

Case batchCase(const char *name, Shape x, int64_t channels, int32_t axis) {
  return Case(name)
      .In("x", std::move(x), -3, 3)
      .In("moving_mean", {channels})
      .In("moving_variance", {channels}, 0.5, 2)
      .In("gamma", {channels}, 0.5, 2)
      .In("beta", {channels})
      .Attr("axis", axis)
      .Attr("epsilon", 1e-5f);
}

REGISTER_USER_OP("normalization")
    .Input("x")
    .OptionalInput("moving_mean")
    .OptionalInput("moving_variance")
    .Input("gamma")
    .Input("beta")
    .OptionalInput("_add_to_output")
    .Output("y")
    .OptionalOutput("mean")
    .OptionalOutput("inv_variance")
    .Attr<int32_t>("axis", 0)
    .Attr<float>("epsilon", 0.0f)
    .Attr<bool>("training", false)
    .Attr<float>("momentum", 0.0f)
    .SetInputArgModifyFn([](user_op::GetInputArgModifier get, const user_op::UserOpConfWrapper &conf) {
      for (const char *moving : {"moving_mean", "moving_variance"})
        get(moving, 0)->set_is_mutable(conf.attr<bool>("training"));
    })
    .SetTensorDescInferFn([](InferContext *ctx) -> Maybe<void> {
      const TensorDesc x = ctx->InputTensorDesc("x", 0);
      JUST(checkFloating("x", x));
      JUST(checkEpsilon(ctx->Attr<float>("epsilon")));
      const int64_t axis = JUST(resolveAxis(ctx->Attr<int32_t>("axis"), x.shape().NumAxes()));
      const Shape channels{x.shape().At(axis)};
      for (const char *p : {"moving_mean", "moving_variance", "gamma", "beta"})
        JUST(checkParameter(ctx, p, channels, "the size of x's dimension " + std::to_string(axis)));
      if (ctx->has_input("moving_mean", 0) != ctx->has_input("moving_variance", 0))
        return Error::CheckFailed().id("OPC0202") << "moving_mean and moving_variance must be given together";
      if (!ctx->Attr<bool>("training") && !ctx->has_input("moving_mean", 0))
        return Error::CheckFailed().id("OPC0202").help("give them, or set training: true to use the statistics of x")
               << "moving_mean and moving_variance are missing, and training is false";
      if (ctx->has_input("_add_to_output", 0) && ctx->InputTensorDesc("_add_to_output", 0) != x)
        return Error::ShapeMismatch() << "_add_to_output is " << ctx->InputTensorDesc("_add_to_output", 0).toString()
                                      << ", expected x's type, " << x.toString();
      *ctx->MutOutputTensorDesc("y", 0) = x;
      for (const char *s : {"mean", "inv_variance"})
        if (ctx->has_output(s, 0))
          *ctx->MutOutputTensorDesc(s, 0) = TensorDesc(channels, statisticsType(x.data_type()));
      return Maybe<void>::Ok();
    })
    .SetGetSbpFn([](user_op::SbpContext *ctx) -> Maybe<void> {
      const Shape &x = ctx->LogicalTensorDesc4InputArgNameAndIndex("x", 0).shape();
      const int64_t axis = JUST(resolveAxis(ctx->Attr<int32_t>("axis"), x.NumAxes()));
      const bool training = ctx->Attr<bool>("training");
      for (int64_t i = 0; i < x.NumAxes(); ++i) {
        // Statistics over shards are not the statistics of the whole: only channels may be cut while training.
        if (training && i != axis) continue;
        auto builder = ctx->NewBuilder();
        const auto whole = [](const std::string &n) { return n == "x" || n == "y" || n == "_add_to_output"; };
        const auto put = [&](const std::string &name) {
          if (whole(name))
            builder.Split(user_op::OpArg(name, 0), i);
          else if (i == axis)
            builder.Split(user_op::OpArg(name, 0), 0);
          else
            builder.Broadcast(user_op::OpArg(name, 0));
        };
        for (const auto &in : ctx->inputs()) put(in.first);
        for (const auto &out : ctx->outputs()) put(out.first);
        builder.Build();
      }
      return Maybe<void>::Ok();
    })
    .Doc(
        "Batch normalisation (Ioffe, Szegedy, 2015) along `axis`: y = (x - mean) / sqrt(variance + epsilon) * gamma + "
        "beta,\n"
        "plus _add_to_output when it is given. With training: false, mean and variance are moving_mean and "
        "moving_variance;\n"
        "with training: true, they are taken over all other dimensions of x (population variance), and moving_mean and "
        "moving_variance, then variables, become momentum * moving + (1 - momentum) * statistic of x, where the "
        "variance "
        "is the unbiased one (times n / (n - 1)).\n"
        "The outputs mean and inv_variance = 1 / sqrt(variance + epsilon) are f32 for f16 and "
        "bf16.")
    .Tolerance(kFloat16, 5e-3, 5e-3)
    .Tolerance(kBFloat16, 4e-2, 4e-2)
    .Cases({batchCase("channels_first", {2, 3, 5, 4}, 3, 1), batchCase("channels_last", {2, 5, 9}, 9, -1),
            batchCase("training", {4, 3, 5}, 3, 1)
                .Attr("training", true)
                .Attr("momentum", 0.75f)
                .Out("mean")
                .Out("inv_variance"),
            batchCase("training_last", {6, 19}, 19, 1).Attr("training", true).Out("mean").Out("inv_variance"),
            batchCase("added", {2, 3, 4}, 3, 1).In("_add_to_output", {2, 3, 4}), batchCase("empty", {0, 3, 4}, 3, 1)});

/// x seen as [outer, channels, inner].
struct Layout {
  int64_t outer, channels, inner;
};

/// Mean and 1 / sqrt(variance + epsilon) of each channel, in two passes; sums of rows are added up in f64.
template <class T> void channelStatistics(DeviceCtx *d, const T *x, Layout l, T epsilon, T *means, T *inverses) {
  using S = Simd<T>;
  const double count = static_cast<double>(l.outer * l.inner);
  if (l.inner > 1) {
    d->parallelFor(l.channels, rowGrain(l.outer * l.inner), [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) {
        double sum = 0, squares = 0;
        for (int64_t o = 0; o < l.outer; ++o)
          sum += rowSum(x + (o * l.channels + c) * l.inner, l.inner, [](typename S::V v) { return v; });
        means[c] = static_cast<T>(sum / count);
        const auto center = S::set1(means[c]);
        for (int64_t o = 0; o < l.outer; ++o)
          squares += rowSum(x + (o * l.channels + c) * l.inner, l.inner, [&](typename S::V v) {
            const auto y = S::sub(v, center);
            return S::mul(y, y);
          });
        inverses[c] = T(1) / std::sqrt(static_cast<T>(squares / count) + epsilon);
      }
    });
    return;
  }
  constexpr int64_t kBlock = 64; // channels side by side
  d->parallelFor(l.channels, kBlock, [&](int64_t begin, int64_t end) {
    for (int64_t c0 = begin; c0 < end; c0 += kBlock) {
      const int64_t width = std::min(kBlock, end - c0);
      double sum[kBlock] = {}, squares[kBlock] = {};
      for (int64_t o = 0; o < l.outer; ++o)
        for (int64_t c = 0; c < width; ++c) sum[c] += x[o * l.channels + c0 + c];
      for (int64_t c = 0; c < width; ++c) means[c0 + c] = static_cast<T>(sum[c] / count);
      for (int64_t o = 0; o < l.outer; ++o)
        for (int64_t c = 0; c < width; ++c) {
          const double y = static_cast<double>(x[o * l.channels + c0 + c]) - static_cast<double>(means[c0 + c]);
          squares[c] += y * y;
        }
      for (int64_t c = 0; c < width; ++c)
        inverses[c0 + c] = T(1) / std::sqrt(static_cast<T>(squares[c] / count) + epsilon);
    }
  });
}

template <class T>
void applyChannels(DeviceCtx *d, const T *x, const T *add, T *y, Layout l, const T *mean, const T *inverse,
                   const T *gamma, const T *beta) {
  if (l.inner == 1) {
    d->parallelFor(l.outer, rowGrain(l.channels), [&](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o) {
        const T *from = x + o * l.channels;
        T *to = y + o * l.channels;
        if (add)
          for (int64_t c = 0; c < l.channels; ++c)
            to[c] = (from[c] - mean[c]) * (inverse[c] * gamma[c]) + beta[c] + add[o * l.channels + c];
        else
          for (int64_t c = 0; c < l.channels; ++c) to[c] = (from[c] - mean[c]) * (inverse[c] * gamma[c]) + beta[c];
      }
    });
    return;
  }
  d->parallelFor(l.outer * l.channels, rowGrain(l.inner), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t c = r % l.channels;
      const T m = mean[c], scale = inverse[c] * gamma[c], shift = beta[c];
      const T *from = x + r * l.inner;
      T *to = y + r * l.inner;
      if (add)
        for (int64_t i = 0; i < l.inner; ++i) to[i] = (from[i] - m) * scale + shift + add[r * l.inner + i];
      else
        for (int64_t i = 0; i < l.inner; ++i) to[i] = (from[i] - m) * scale + shift;
    }
  });
}

/// The variables of a training step that follow the statistics of its batches.
template <class T> class MovingStatistics {
public:
  MovingStatistics(user_op::KernelBindContext *ctx, bool training, Layout l, T epsilon)
      : channels_(l.channels), epsilon_(epsilon), keep_(static_cast<T>(ctx->Attr<float>("momentum"))) {
    if (training) mean_ = ctx->Tensor4ArgNameAndIndex("moving_mean", 0);
    if (training) variance_ = ctx->Tensor4ArgNameAndIndex("moving_variance", 0);
    const T n = static_cast<T>(l.outer * l.inner);
    unbiased_ = n > T(1) ? n / (n - T(1)) : T(1);
  }
  /// `inverse` is 1 / sqrt(population variance + epsilon).
  void update(const T *mean, const T *inverse) const {
    if (!mean_) return;
    follow(mean_, [&](int64_t c) { return mean[c]; });
    follow(variance_,
           [&](int64_t c) { return std::max(T(0), T(1) / (inverse[c] * inverse[c]) - epsilon_) * unbiased_; });
  }

private:
  /// The variables have the kernel's type, or x's own half type.
  template <class F> void follow(user_op::Tensor *moving, F statistic) const {
    auto as = [&](auto *p) {
      using S = std::remove_reference_t<decltype(*p)>;
      for (int64_t c = 0; c < channels_; ++c)
        p[c] = static_cast<S>(keep_ * static_cast<T>(p[c]) + (T(1) - keep_) * statistic(c));
    };
    if constexpr (std::is_same_v<T, float>) {
      if (moving->data_type() == kFloat16) return as(moving->mut_dptr<float16>());
      if (moving->data_type() == kBFloat16) return as(moving->mut_dptr<bfloat16>());
    }
    as(moving->template mut_dptr<T>());
  }

  int64_t channels_;
  T epsilon_, keep_, unbiased_ = T(1);
  user_op::Tensor *mean_ = nullptr, *variance_ = nullptr;
};

template <class T> class BatchNormKernel final : public user_op::OpKernel {
public:
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
  std::unique_ptr<user_op::BoundKernel> Bind(user_op::KernelBindContext *ctx) const override {
    const Shape &shape = ctx->TensorDesc4ArgNameAndIndex("x", 0)->shape();
    const int64_t axis = valueOf(resolveAxis(ctx->Attr<int32_t>("axis"), shape.NumAxes()));
    const Layout l{shape.Count(0, axis), shape.At(axis), shape.Count(axis + 1)};
    const T epsilon = static_cast<T>(ctx->Attr<float>("epsilon"));
    const bool training = ctx->Attr<bool>("training");
    StagedTensors<T> tensors(ctx);
    const T *x = tensors.in("x"), *gamma = tensors.in("gamma"), *beta = tensors.in("beta"),
            *add = tensors.in("_add_to_output");
    const T *movingMean = training ? nullptr : tensors.in("moving_mean");
    const T *movingVariance = training ? nullptr : tensors.in("moving_variance");
    MovingStatistics<T> moving(ctx, training, l, epsilon);
    T *y = tensors.out("y"), *meanOut = tensors.out("mean"), *inverseOut = tensors.out("inv_variance");
    Scratch<T> meanScratch(meanOut ? 0 : l.channels), inverseScratch(inverseOut ? 0 : l.channels);
    T *mean = meanOut ? meanOut : meanScratch.get(), *inverse = inverseOut ? inverseOut : inverseScratch.get();
    return user_op::bindTask([=, tensors = std::move(tensors), meanScratch = std::move(meanScratch),
                              inverseScratch = std::move(inverseScratch)](DeviceCtx *d) {
      tensors.load(d);
      if (training) {
        channelStatistics(d, x, l, epsilon, mean, inverse);
        moving.update(mean, inverse);
      } else {
        for (int64_t c = 0; c < l.channels; ++c) mean[c] = movingMean[c];
        for (int64_t c = 0; c < l.channels; ++c) inverse[c] = T(1) / std::sqrt(movingVariance[c] + epsilon);
      }
      applyChannels(d, x, add, y, l, mean, inverse, gamma, beta);
      tensors.store(d);
    });
  }
};

OPC_REGISTER_FLOATING_CPU_KERNELS("normalization", BatchNormKernel, "x");

} // namespace
} // namespace opc::ops
