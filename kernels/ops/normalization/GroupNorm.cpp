// group_norm: normalisation of groups of channels of each sample.
// SPDX-License-Identifier: Apache-2.0
#include "normalization/GroupShape.h"
#include "normalization/NormRows.h"
#include "support/Rows.h"

namespace opc::ops::norm {
namespace {

using namespace opc::cpu;

Maybe<void> checkAttributes(const UserOpDefWrapper &, const UserOpConfWrapper &conf) {
  JUST(checkFormat(conf.attr<std::string>("data_format")));
  const std::string &activation = conf.attr<std::string>("activation");
  if (activation != "none" && activation != "silu")
    return Error::InvalidValueError().id("OPC0205")
           << "activation is \"" << activation << "\", expected \"none\" or \"silu\"";
  return checkEpsilon(conf.attr<double>("epsilon"));
}

Maybe<void> infer(InferContext *ctx) {
  const TensorDesc x = ctx->In("x");
  const GroupShape s = JUST(checkGroups(ctx));
  for (const char *parameter : {"gamma", "beta"}) JUST(checkSwitch(ctx, "affine", parameter));
  for (const char *parameter : {"gamma", "beta"})
    JUST(checkParameter(ctx, parameter, Shape{s.channels}, "one element a channel"));
  ctx->Out("y") = x;
  setStatistics(ctx, {"mean", "inv_variance"}, Shape{s.samples, s.groups});
  return Maybe<void>::Ok();
}

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

template <class T> class GroupNormKernel final : public StagedKernel<T> {
public:
  std::unique_ptr<BoundKernel> BindStaged(KernelBindContext *ctx, StagedTensors<T> &staged) const override {
    const GroupShape s(ctx);
    const T epsilon = static_cast<T>(ctx->Attr<double>("epsilon"));
    const bool useSilu = ctx->Attr<std::string>("activation") == "silu";
    const T *x = staged.in("x"), *beta = staged.in("beta"), *gamma = staged.in("gamma");
    T *y = staged.out("y"), *means = staged.out("mean"), *inverses = staged.out("inv_variance");
    // A group is `runs` runs of `run` neighbouring elements, a pixel apart.
    const int64_t size = s.own * s.spatial, runs = s.first ? 1 : s.spatial, run = s.first ? size : s.own;
    return bindRows(s.samples * s.groups, rowGrain(size), [=](int64_t t) {
      const int64_t base = s.begin(t), group = t % s.groups;
      const double count = static_cast<double>(size);
      double sum = 0, squares = 0;
      for (int64_t r = 0; r < runs; ++r) sum += rowTotal(x + base + r * s.channels, run);
      const T mean = static_cast<T>(sum / count);
      for (int64_t r = 0; r < runs; ++r) squares += centeredSquares(x + base + r * s.channels, mean, run);
      const T inverse = inverseDeviation(squares, count, epsilon);
      means[t] = mean;
      inverses[t] = inverse;
      const T *g = gamma ? gamma + group * s.own : nullptr, *b = beta ? beta + group * s.own : nullptr, *none = nullptr;
      const auto scale = [=](int64_t c) { return g ? inverse * g[c] : inverse; };
      const auto shift = [=](int64_t c) { return b ? b[c] : T(0); };
      // A row is a channel, or a pixel with its channels side by side.
      const int64_t rows = s.first ? s.own : s.spatial, n = s.first ? s.spatial : s.own;
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t at = base + r * (s.first ? s.spatial : s.channels);
        if (s.first)
          normalizeRow(x + at, none, y + at, n, mean, scale(r), shift(r));
        else
          normalizeRow(x + at, none, y + at, n, [=](int64_t) { return mean; }, scale, shift);
        if (useSilu) silu(y + at, n);
      }
    });
  }
};

REGISTER_USER_OP("group_norm")
    .With(TensorArgs{{"x"}, {"y", "mean", "inv_variance"}})
    .OptionalInput("beta")
    .OptionalInput("gamma")
    .Attr<bool>("affine", false)
    .Attr<int32_t>("num_groups", 0)
    .Attr<double>("epsilon", 0.0)
    .Attr<std::string>("data_format", "channels_first")
    .Attr<std::string>("activation", "none")
    .SetCheckAttrFn(checkAttributes)
    .With(rules(infer, "n .. -> n .., n .., n .."))
    .Doc("Group normalisation (Wu, He, 2018): the channels of each sample are cut into num_groups groups, and each "
         "group is normalised over its channels and all spatial dimensions: y = (x - mean) * inv_variance * gamma + "
         "beta, with inv_variance = 1 / sqrt(variance + epsilon). x is [N, C, ...] (channels_first) or [N, ..., C]; "
         "mean and inv_variance are [N, num_groups], f32 for f16 and bf16. gamma and beta ([C]) are given when "
         "affine is true. One group a channel is instance normalisation. activation \"silu\" replaces y by y / (1 + "
         "exp(-y)).")
    .With(halfTolerances)
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
            Case("no_samples").In("x", {0, 4, 3}).Attr("num_groups", int32_t{2}).Attr("epsilon", 1e-5)})
    .Kernel<GroupNormKernel, types::Floating>("x");

} // namespace
} // namespace opc::ops::norm
