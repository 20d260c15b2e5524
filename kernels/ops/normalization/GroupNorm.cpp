// group_norm: normalisation of groups of channels of each sample.
// SPDX-License-Identifier: Apache-2.0
#include "NormRules.h"
#include "SimdExp.h"
#include "StagedTensors.h"
#include "support/RegisterFloating.h"

#include <cmath>

namespace opc::ops {
namespace {

using namespace opc::cpu;
using user_op::Case;
using user_op::InferContext;
using user_op::TensorDesc;

REGISTER_USER_OP("group_norm")
    .Input("x")
    .OptionalInput("beta")
    .OptionalInput("gamma")
    .Output("y")
    .Output("mean")
    .Output("inv_variance")
    .Attr<bool>("affine", false)
    .Attr<int32_t>("num_groups", 0)
    .Attr<double>("epsilon", 0.0)
    .Attr<std::string>("data_format", "channels_first")
    .Attr<std::string>("activation", "none")
    .SetCheckAttrFn([](const user_op::UserOpDefWrapper &, const user_op::UserOpConfWrapper &conf) -> Maybe<void> {
      const std::string &format = conf.attr<std::string>("data_format"),
                        &activation = conf.attr<std::string>("activation");
      if (format != "channels_first" && format != "channels_last")
        return Error::InvalidValueError().id("OPC0205")
               << "data_format is \"" << format << "\", expected \"channels_first\" or \"channels_last\"";
      if (activation != "none" && activation != "silu")
        return Error::InvalidValueError().id("OPC0205")
               << "activation is \"" << activation << "\", expected \"none\" or \"silu\"";
      return checkEpsilon(conf.attr<double>("epsilon"));
    })
    .SetTensorDescInferFn([](InferContext *ctx) -> Maybe<void> {
      const TensorDesc x = ctx->InputTensorDesc("x", 0);
      JUST(checkFloating("x", x));
      const int64_t rank = x.shape().NumAxes();
      if (rank < 2)
        return Error::ShapeMismatch() << "x must have a batch and a channel dimension, it is " << x.toString();
      const int64_t channels = x.shape().At(ctx->Attr<std::string>("data_format") == "channels_first" ? 1 : rank - 1);
      const int64_t groups = ctx->Attr<int32_t>("num_groups");
      if (groups < 1 || channels % groups != 0)
        return Error::InvalidValueError().id("OPC0205").help("num_groups must divide the number of channels")
               << "num_groups is " << groups << ", but x, " << x.toString() << ", has " << channels << " channels";
      JUST(checkSwitch(ctx, "affine", "gamma"));
      JUST(checkSwitch(ctx, "affine", "beta"));
      JUST(checkParameter(ctx, "gamma", Shape{channels}, "one element a channel"));
      JUST(checkParameter(ctx, "beta", Shape{channels}, "one element a channel"));
      *ctx->MutOutputTensorDesc("y", 0) = x;
      for (const char *s : {"mean", "inv_variance"})
        *ctx->MutOutputTensorDesc(s, 0) = TensorDesc(Shape{x.shape().At(0), groups}, statisticsType(x.data_type()));
      return Maybe<void>::Ok();
    })
    .SetGetSbpFn([](user_op::SbpContext *ctx) -> Maybe<void> {
      auto builder = ctx->NewBuilder();
      for (const auto &in : ctx->inputs()) {
        if (in.first == "x")
          builder.Split(user_op::OpArg(in.first, 0), 0);
        else
          builder.Broadcast(user_op::OpArg(in.first, 0));
      }
      for (const auto &out : ctx->outputs()) builder.Split(user_op::OpArg(out.first, 0), 0);
      builder.Build();
      return Maybe<void>::Ok();
    })
    .Doc("Group normalisation (Wu, He, 2018): the channels of each sample are cut into num_groups groups, and each "
         "group is normalised over its channels and all spatial dimensions: y = (x - mean) * inv_variance * gamma + "
         "beta, with inv_variance = 1 / sqrt(variance + epsilon). x is [N, C, ...] (channels_first) or [N, ..., C]; "
         "mean and inv_variance are [N, num_groups], f32 for f16 and bf16. gamma and beta ([C]) are given when "
         "affine is true. One group a channel is instance normalisation. activation \"silu\" replaces y by y / (1 + "
         "exp(-y)).")
    .Tolerance(kFloat16, 5e-3, 5e-3)
    .Tolerance(kBFloat16, 4e-2, 4e-2)
    .Cases({Case("affine")
                .In("x", {2, 6, 5}, -3, 3)
                .In("beta", {6})
                .In("gamma", {6}, 0.5, 2)
                .Attr("affine", true)
                .Attr("num_groups", int32_t{3})
                .Attr("epsilon", 1e-5),
            Case("instance").In("x", {2, 3, 4, 5}, -3, 3).Attr("num_groups", int32_t{3}).Attr("epsilon", 1e-5),
            Case("channels_last")
                .In("x", {2, 5, 6}, -3, 3)
                .In("beta", {6})
                .In("gamma", {6}, 0.5, 2)
                .Attr("affine", true)
                .Attr("num_groups", int32_t{2})
                .Attr("epsilon", 1e-5)
                .Attr("data_format", std::string("channels_last")),
            Case("silu")
                .In("x", {2, 4, 9}, -3, 3)
                .Attr("num_groups", int32_t{1})
                .Attr("epsilon", 1e-5)
                .Attr("activation", std::string("silu")),
            Case("no_samples").In("x", {0, 4, 3}).Attr("num_groups", int32_t{2}).Attr("epsilon", 1e-5)});

void silu(float *y, int64_t n) {
  using S = Simd<float>;
  const auto one = S::set1(1.0f);
  for (int64_t i = 0; i < n; i += 8) {
    const auto mask = S::mask(n - i);
    const auto v = S::load(y + i, mask);
    S::store(y + i, _mm256_div_ps(v, S::add(one, simdExp(S::sub(S::zero(), v)))), mask);
  }
}
void silu(double *y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = y[i] / (1 + std::exp(-y[i]));
}

template <class T> class GroupNormKernel final : public user_op::OpKernel {
public:
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
  std::unique_ptr<user_op::BoundKernel> Bind(user_op::KernelBindContext *ctx) const override {
    const Shape &shape = ctx->TensorDesc4ArgNameAndIndex("x", 0)->shape();
    const bool first = ctx->Attr<std::string>("data_format") == "channels_first";
    const int64_t rank = shape.NumAxes(), samples = shape.At(0), channels = shape.At(first ? 1 : rank - 1);
    const int64_t spatial = first ? shape.Count(2) : shape.Count(1, rank - 1);
    const int64_t groups = ctx->Attr<int32_t>("num_groups"), own = channels / groups; // channels of a group
    const T epsilon = static_cast<T>(ctx->Attr<double>("epsilon"));
    const bool useSilu = ctx->Attr<std::string>("activation") == "silu";
    StagedTensors<T> tensors(ctx);
    const T *x = tensors.in("x"), *beta = tensors.in("beta"), *gamma = tensors.in("gamma");
    T *y = tensors.out("y"), *means = tensors.out("mean"), *inverses = tensors.out("inv_variance");
    // A group is `runs` runs of `run` neighbouring elements, `step` apart.
    const int64_t runs = first ? 1 : spatial, run = first ? own * spatial : own, step = channels;
    return user_op::bindTask([=, tensors = std::move(tensors)](DeviceCtx *d) {
      tensors.load(d);
      d->parallelFor(samples * groups, rowGrain(own * spatial), [&](int64_t begin, int64_t end) {
        using S = Simd<T>;
        for (int64_t t = begin; t < end; ++t) {
          const int64_t sample = t / groups, group = t % groups;
          const int64_t base = sample * channels * spatial + (first ? group * own * spatial : group * own);
          const double count = static_cast<double>(own * spatial);
          double sum = 0, squares = 0;
          for (int64_t r = 0; r < runs; ++r) sum += rowSum(x + base + r * step, run, [](typename S::V v) { return v; });
          const T mean = static_cast<T>(sum / count);
          const auto center = S::set1(mean);
          for (int64_t r = 0; r < runs; ++r)
            squares += rowSum(x + base + r * step, run, [&](typename S::V v) {
              const auto c = S::sub(v, center);
              return S::mul(c, c);
            });
          const T inverse = T(1) / std::sqrt(static_cast<T>(squares / count) + epsilon);
          means[t] = mean;
          inverses[t] = inverse;
          const T *g = gamma ? gamma + group * own : nullptr, *b = beta ? beta + group * own : nullptr;
          if (first) {
            for (int64_t c = 0; c < own; ++c) {
              const T scale = g ? inverse * g[c] : inverse, shift = b ? b[c] : T(0);
              const T *from = x + base + c * spatial;
              T *to = y + base + c * spatial;
              for (int64_t i = 0; i < spatial; ++i) to[i] = (from[i] - mean) * scale + shift;
              if (useSilu) silu(to, spatial);
            }
          } else {
            for (int64_t r = 0; r < runs; ++r) {
              const T *from = x + base + r * step;
              T *to = y + base + r * step;
              for (int64_t c = 0; c < own; ++c)
                to[c] = (from[c] - mean) * (g ? inverse * g[c] : inverse) + (b ? b[c] : T(0));
              if (useSilu) silu(to, own);
            }
          }
        }
      });
      tensors.store(d);
    });
  }
};

OPC_REGISTER_FLOATING_CPU_KERNELS("group_norm", GroupNormKernel, "x");

} // namespace
} // namespace opc::ops
