// normalization: batch normalisation with given or computed statistics.
// SPDX-License-Identifier: Apache-2.0
#include "normalization/NormRows.h"
#include "normalization/NormShape.h"
#include "opc/Dispatch.h"

#include <functional>

namespace opc::ops::norm {
namespace {

using namespace opc::cpu;

Maybe<void> infer(InferContext *ctx) {
  const TensorDesc x = ctx->In("x");
  JUST(checkFloating("x", x));
  JUST(checkEpsilon(ctx->Attr<float>("epsilon")));
  const int64_t axis = JUST(axisOf<int32_t>(ctx, "axis", x.shape()));
  const Shape channels{x.shape().At(axis)};
  for (const char *p : {"moving_mean", "moving_variance", "gamma", "beta"})
    JUST(checkParameter(ctx, p, channels, "the size of x's dimension " + std::to_string(axis)));
  if (ctx->Has("moving_mean") != ctx->Has("moving_variance"))
    return Error::CheckFailed().id("OPC0202") << "moving_mean and moving_variance must be given together";
  if (!ctx->Attr<bool>("training") && !ctx->Has("moving_mean"))
    return Error::CheckFailed().id("OPC0202").help("give them, or set training: true to use the statistics of x")
           << "moving_mean and moving_variance are missing, and training is false";
  JUST(checkLikeX(ctx, "_add_to_output"));
  ctx->Out("y") = x;
  setStatistics(ctx, {"mean", "inv_variance"}, channels);
  return Maybe<void>::Ok();
}

/// Training updates the moving statistics when they are variables; other tensors in their place are not read.
void modifyInputs(const GetInputArgModifier &modifier, const UserOpConfWrapper &conf) {
  if (!conf.attr<bool>("training")) return;
  for (const char *arg : {"moving_mean", "moving_variance"})
    if (auto *m = modifier(arg, 0)) {
      m->set_is_mutable(true);
      m->set_requires_grad(false);
    }
}

/// Statistics over shards are not the statistics of the whole: only channels may be cut while training.
Maybe<ShardingRule> sharding(const SbpContext &ctx) {
  const Shape &shape = ctx.In("x").shape();
  const auto axis = static_cast<size_t>(JUST(axisOf<int32_t>(&ctx, "axis", shape)));
  AxisFactors x = axisFactors(shape.NumAxes());
  const AxisFactors channels{x[axis]};
  if (ctx.Attr<bool>("training")) x.assign(x.size(), ".");
  x[axis] = channels[0];
  return shardingRule({x, channels, channels, channels, channels, x}, {x, channels, channels});
}

/// Mean, 1 / sqrt(variance + epsilon) and, unless null, variance of each channel, in two passes; sums of rows are added
/// up in f64.
template <class T>
void channelStatistics(DeviceCtx *d, const T *x, NormShape s, T epsilon, T *means, T *inverses, T *variances) {
  const double count = static_cast<double>(s.outer * s.inner);
  const auto finish = [=](int64_t c, double squares) {
    inverses[c] = inverseDeviation(squares, count, epsilon);
    if (variances) variances[c] = static_cast<T>(squares / count);
  };
  if (s.inner != 1) {
    d->parallelFor(s.channels, rowGrain(s.outer * s.inner), [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) {
        const auto row = [&](int64_t o) { return x + (o * s.channels + c) * s.inner; };
        double sum = 0, squares = 0;
        for (int64_t o = 0; o < s.outer; ++o) sum += rowTotal(row(o), s.inner);
        means[c] = static_cast<T>(sum / count);
        for (int64_t o = 0; o < s.outer; ++o) squares += centeredSquares(row(o), means[c], s.inner);
        finish(c, squares);
      }
    });
    return;
  }
  constexpr int64_t kBlock = 64; // channels side by side
  d->parallelFor(s.channels, kBlock, [&](int64_t begin, int64_t end) {
    for (int64_t c0 = begin; c0 < end; c0 += kBlock) {
      const int64_t width = std::min(kBlock, end - c0);
      double sum[kBlock] = {}, squares[kBlock] = {};
      for (int64_t o = 0; o < s.outer; ++o)
        for (int64_t c = 0; c < width; ++c) sum[c] += x[o * s.channels + c0 + c];
      for (int64_t c = 0; c < width; ++c) means[c0 + c] = static_cast<T>(sum[c] / count);
      for (int64_t o = 0; o < s.outer; ++o)
        for (int64_t c = 0; c < width; ++c) {
          const double y = static_cast<double>(x[o * s.channels + c0 + c]) - static_cast<double>(means[c0 + c]);
          squares[c] += y * y;
        }
      for (int64_t c = 0; c < width; ++c) finish(c0 + c, squares[c]);
    }
  });
}

template <class T>
void applyChannels(DeviceCtx *d, const T *x, const T *add, T *y, NormShape s, const T *mean, const T *inverse,
                   const T *gamma, const T *beta) {
  const int64_t n = s.inner == 1 ? s.channels : s.inner,
                rows = s.outer * s.channels * s.inner / std::max<int64_t>(1, n);
  d->parallelFor(rows, rowGrain(n), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const T *from = x + r * n, *addend = add ? add + r * n : nullptr;
      const int64_t c = r % s.channels;
      if (s.inner == 1)
        normalizeRow(
            from, addend, y + r * n, n, [=](int64_t i) { return mean[i]; },
            [=](int64_t i) { return inverse[i] * gamma[i]; }, [=](int64_t i) { return beta[i]; });
      else
        normalizeRow(from, addend, y + r * n, n, mean[c], inverse[c] * gamma[c], beta[c]);
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
template <class T> std::function<void(const T *batch, int64_t n, T scale)> mover(Tensor &moving, T momentum) {
  using Mover = std::function<void(const T *, int64_t, T)>;
  return visit<types::Floating>(moving.data_type(), [&](auto tag) -> Mover {
    auto *to = moving.mut_dptr<typename decltype(tag)::type>();
    return [=](const T *batch, int64_t n, T scale) { moveTowards(to, batch, n, momentum, scale); };
  });
}

template <class T> class BatchNormKernel final : public StagedKernel<T> {
public:
  std::unique_ptr<BoundKernel> BindStaged(KernelBindContext *ctx, StagedTensors<T> &staged) const override {
    const NormShape s = shapeAroundAxis(ctx, "x");
    const T epsilon = static_cast<T>(ctx->Attr<float>("epsilon"));
    const bool training = ctx->Attr<bool>("training");
    const T *x = staged.in("x"), *gamma = staged.in("gamma"), *beta = staged.in("beta"),
            *add = staged.in("_add_to_output");
    const T *movingMean = training ? nullptr : staged.in("moving_mean");
    const T *movingVariance = training ? nullptr : staged.in("moving_variance");
    T *y = staged.out("y"), *meanOut = staged.out("mean"), *inverseOut = staged.out("inv_variance");
    Scratch<T> meanScratch(meanOut ? 0 : s.channels), inverseScratch(inverseOut ? 0 : s.channels);
    std::function<void(const T *, int64_t, T)> moveMean, moveVariance;
    if (training && ctx->Has("moving_mean")) {
      const T momentum = static_cast<T>(ctx->Attr<float>("momentum"));
      moveMean = mover<T>(ctx->Out("moving_mean"), momentum);
      moveVariance = mover<T>(ctx->Out("moving_variance"), momentum);
    }
    Scratch<T> varianceScratch(moveMean ? s.channels : 0);
    const int64_t count = s.outer * s.inner;
    const T unbiased = count > 1 ? static_cast<T>(count) / static_cast<T>(count - 1) : T(1);
    T *mean = meanOut ? meanOut : meanScratch.get(), *inverse = inverseOut ? inverseOut : inverseScratch.get();
    return bindTask([=, meanScratch = std::move(meanScratch), inverseScratch = std::move(inverseScratch),
                     variance = std::move(varianceScratch)](DeviceCtx *d) {
      if (training) {
        channelStatistics(d, x, s, epsilon, mean, inverse, variance.get());
        if (moveMean && count > 0) {
          moveMean(mean, s.channels, T(1));
          moveVariance(variance.get(), s.channels, unbiased);
        }
      } else {
        for (int64_t c = 0; c < s.channels; ++c) mean[c] = movingMean[c];
        for (int64_t c = 0; c < s.channels; ++c) inverse[c] = T(1) / std::sqrt(movingVariance[c] + epsilon);
      }
      applyChannels(d, x, add, y, s, mean, inverse, gamma, beta);
    });
  }
};

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
    .With(TensorArgs{{"x"}, {"y"}})
    .OptionalInput("moving_mean")
    .OptionalInput("moving_variance")
    .Input("gamma")
    .Input("beta")
    .OptionalInput("_add_to_output")
    .OptionalOutput("mean")
    .OptionalOutput("inv_variance")
    .Attr<int32_t>("axis", 0)
    .Attr<float>("epsilon", 0.0f)
    .Attr<bool>("training", false)
    .Attr<float>("momentum", 0.0f)
    .SetTensorDescInferFn(infer)
    .SetInputArgModifyFn(modifyInputs)
    .Sharding(sharding)
    .Doc("Batch normalisation (Ioffe, Szegedy, 2015) along `axis`: y = (x - mean) / sqrt(variance + epsilon) * gamma "
         "+ beta, plus _add_to_output when it is given. With training: false, mean and variance are moving_mean and "
         "moving_variance; with training: true, they are taken over all other dimensions of x (population variance), "
         "and moving statistics that are variables become momentum * moving + (1 - momentum) * batch, the batch's "
         "variance by its n - 1 (as in PyTorch, whose momentum is 1 - momentum). The outputs mean and inv_variance = "
         "1 / sqrt(variance + epsilon) are f32 for f16 and bf16.")
    .With(halfTolerances)
    .Cases({batchCase("channels_first", {2, 3, 5, 4}, 3, 1), batchCase("channels_last", {2, 5, 9}, 9, -1),
            batchCase("training", {4, 3, 5}, 3, 1)
                .Attr("training", true)
                .Attr("momentum", 0.75f)
                .Out("mean")
                .Out("inv_variance"),
            batchCase("training_last", {6, 19}, 19, 1).Attr("training", true).Out("mean").Out("inv_variance"),
            batchCase("added", {2, 3, 4}, 3, 1).In("_add_to_output", {2, 3, 4}), batchCase("empty", {0, 3, 4}, 3, 1)})
    .Kernel<BatchNormKernel, types::Floating>("x");

} // namespace
} // namespace opc::ops::norm
