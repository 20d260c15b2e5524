// normalization: batch normalisation with given or computed statistics.
// SPDX-License-Identifier: Apache-2.0
#include "NormRules.h"
#include "SimdExp.h"
#include "StagedTensors.h"
#include "opc/Dispatch.h"
#include "support/Axes.h"
#include "support/RegisterFloating.h"

#include <cmath>
#include <functional>

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
    // Training updates the moving statistics when they are variables; other tensors in their place are not read.
    .SetInputArgModifyFn([](user_op::GetInputArgModifier modifier, const user_op::UserOpConfWrapper &conf) {
      if (!conf.attr<bool>("training")) return;
      for (const char *arg : {"moving_mean", "moving_variance"})
        if (auto *m = modifier(arg, 0)) {
          m->set_is_mutable(true);
          m->set_requires_grad(false);
        }
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
    .Doc("Batch normalisation (Ioffe, Szegedy, 2015) along `axis`: y = (x - mean) / sqrt(variance + epsilon) * gamma "
         "+ beta, plus _add_to_output when it is given. With training: false, mean and variance are moving_mean and "
         "moving_variance; with training: true, they are taken over all other dimensions of x (population variance), "
         "and moving statistics that are variables become momentum * moving + (1 - momentum) * batch, the batch's "
         "variance by its n - 1 (as in PyTorch, whose momentum is 1 - momentum). The outputs mean and inv_variance = "
         "1 / sqrt(variance + epsilon) are f32 for f16 and bf16.")
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

/// Mean, 1 / sqrt(variance + epsilon) and, unless null, variance of each channel, in two passes; sums of rows are added
/// up in f64.
template <class T>
void channelStatistics(DeviceCtx *d, const T *x, Layout l, T epsilon, T *means, T *inverses, T *variances) {
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
        if (variances) variances[c] = static_cast<T>(squares / count);
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
      for (int64_t c = 0; c < width; ++c) {
        inverses[c0 + c] = T(1) / std::sqrt(static_cast<T>(squares[c] / count) + epsilon);
        if (variances) variances[c0 + c] = static_cast<T>(squares[c] / count);
      }
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

/// moving = momentum * moving + (1 - momentum) * scale * batch.
template <class T, class M> void moveTowards(M *moving, const T *batch, int64_t n, T momentum, T scale) {
  using Wide = std::conditional_t<std::is_floating_point_v<M>, M, float>; // half types convert to f32
  for (int64_t c = 0; c < n; ++c) {
    const T old = static_cast<T>(static_cast<Wide>(moving[c]));
    moving[c] = M(static_cast<Wide>(momentum * old + (T(1) - momentum) * (scale * batch[c])));
  }
}
/// The same by the element type of the moving statistic, which may be x's or that of its statistics.
template <class T> std::function<void(const T *batch, int64_t n, T scale)> mover(user_op::Tensor *moving, T momentum) {
  using Mover = std::function<void(const T *, int64_t, T)>;
  return visit<types::Floating>(moving->data_type(), [&](auto tag) -> Mover {
    auto *to = moving->mut_dptr<typename decltype(tag)::type>();
    return [=](const T *batch, int64_t n, T scale) { moveTowards(to, batch, n, momentum, scale); };
  });
}

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
    T *y = tensors.out("y"), *meanOut = tensors.out("mean"), *inverseOut = tensors.out("inv_variance");
    Scratch<T> meanScratch(meanOut ? 0 : l.channels), inverseScratch(inverseOut ? 0 : l.channels);
    std::function<void(const T *, int64_t, T)> moveMean, moveVariance;
    if (user_op::Tensor *moving = training ? ctx->Tensor4ArgNameAndIndex("moving_mean", 0) : nullptr) {
      const T momentum = static_cast<T>(ctx->Attr<float>("momentum"));
      moveMean = mover<T>(moving, momentum);
      moveVariance = mover<T>(ctx->Tensor4ArgNameAndIndex("moving_variance", 0), momentum);
    }
    Scratch<T> varianceScratch(moveMean ? l.channels : 0);
    const int64_t count = l.outer * l.inner;
    const T unbiased = count > 1 ? static_cast<T>(count) / static_cast<T>(count - 1) : T(1);
    T *mean = meanOut ? meanOut : meanScratch.get(), *inverse = inverseOut ? inverseOut : inverseScratch.get();
    return user_op::bindTask([=, tensors = std::move(tensors), meanScratch = std::move(meanScratch),
                              inverseScratch = std::move(inverseScratch),
                              varianceScratch = std::move(varianceScratch)](DeviceCtx *d) {
      tensors.load(d);
      if (training) {
        channelStatistics(d, x, l, epsilon, mean, inverse, varianceScratch.get());
        if (moveMean && count > 0) {
          moveMean(mean, l.channels, T(1));
          moveVariance(varianceScratch.get(), l.channels, unbiased);
        }
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
