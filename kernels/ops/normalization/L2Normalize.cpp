// l2_normalize: vectors along one axis, scaled to length one.
// SPDX-License-Identifier: Apache-2.0
#include "normalization/NormRows.h"
#include "normalization/NormShape.h"
#include "support/Rows.h"
#include "support/SbpRules.h"

#include "opc/RowsKernel.h"

namespace opc::ops::norm {
namespace {

using namespace opc::cpu;

Maybe<void> infer(InferContext *ctx) {
  const TensorDesc x = ctx->In("x");
  JUST(checkFloating("x", x));
  JUST(checkEpsilon(ctx->Attr<float>("epsilon")));
  const int64_t axis = JUST(axisOf<int32_t>(ctx, "axis", x.shape()));
  ctx->Out("y") = ctx->Out("square_x_sum") = x;
  ctx->Out("square_x_sum").mut_shape()->Set(axis, 1);
  return Maybe<void>::Ok();
}

Maybe<ShardingRule> sharding(const SbpContext &ctx) {
  const Shape &x = ctx.In("x").shape();
  const AxisFactors split = axisFactors(x.NumAxes(), {JUST(axisOf<int32_t>(&ctx, "axis", x))});
  return shardingRule({split}, {split, split});
}

/// y and the sum of squares of vectors that lie side by side.
template <class T> void normalizeVectors(const T *x, T *y, T *sums, int64_t n, int64_t count, T epsilon) {
  using S = Simd<T>;
  for (; count > 0; --count, x += n, y += n) {
    const T sum = rowSum(x, n, [](typename S::V v) { return S::mul(v, v); });
    const T norm = std::sqrt(std::max(sum, epsilon));
    *sums++ = sum;
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] / norm;
  }
}

template <class T> class L2NormalizeKernel final : public StagedKernel<T>, public RowsKernel {
public:
  Status MakeRows(const KernelContext &ctx, std::unique_ptr<RowsLoop> *loop) const override {
    const NormShape s = shapeAroundAxis(&ctx, "x");
    if (s.inner != 1) return Status::ok();
    RowFunction<T> f;
    f.rows = s.outer;
    f.size = s.channels;
    f.inputs = {{"x", RowPart::kRow}};
    f.outputs = {{"y", RowPart::kRow}, {"square_x_sum", RowPart::kOne}};
    f.run = [n = s.channels, epsilon = static_cast<T>(ctx.Attr<float>("epsilon"))](const RowArguments<T> &a) {
      normalizeVectors(a.x(0), a.out[0], a.out[1], n, a.count, epsilon);
    };
    *loop = makeRowsLoop<T>(ctx, std::move(f));
    return Status::ok();
  }
  std::unique_ptr<BoundKernel> BindStaged(KernelBindContext *ctx, StagedTensors<T> &staged) const override {
    const NormShape s = shapeAroundAxis(ctx, "x");
    const T epsilon = static_cast<T>(ctx->Attr<float>("epsilon"));
    const T *x = staged.in("x");
    T *y = staged.out("y"), *sums = staged.out("square_x_sum");
    const int64_t n = s.channels, inner = s.inner;
    return bindRows(s.outer, rowGrain(n * inner), [=](int64_t o) {
      if (inner == 1) return normalizeVectors(x + o * n, y + o * n, sums + o, n, 1, epsilon);
      T *sum = sums + o * inner;
      std::fill_n(sum, inner, T(0));
      for (int64_t c = 0; c < n; ++c) {
        const T *row = x + (o * n + c) * inner;
        for (int64_t i = 0; i < inner; ++i) sum[i] += row[i] * row[i];
      }
      for (int64_t c = 0; c < n; ++c) {
        const T *row = x + (o * n + c) * inner;
        T *to = y + (o * n + c) * inner;
        for (int64_t i = 0; i < inner; ++i) to[i] = row[i] / std::sqrt(std::max(sum[i], epsilon));
      }
    });
  }
};

REGISTER_USER_OP("l2_normalize")
    .With(TensorArgs{{"x"}, {"y", "square_x_sum"}})
    .Attr<int32_t>("axis", 0)
    .Attr<float>("epsilon", 0.0f)
    .With(rules(infer, sharding))
    .Doc("Scales the vectors along `axis` to Euclidean length 1: y = x / sqrt(max(square_x_sum, epsilon)), with "
         "square_x_sum the sum of x^2 along the axis (kept as a dimension of 1).")
    .Cases({Case("rows").In("x", {3, 17}, -3, 3).Attr("axis", int32_t{1}).Attr("epsilon", 1e-10f),
            Case("channels").In("x", {2, 3, 5}, -3, 3).Attr("axis", int32_t{1}).Attr("epsilon", 1e-10f),
            Case("first").In("x", {4, 3}, -3, 3).Attr("axis", int32_t{-2}).Attr("epsilon", 1e-10f),
            Case("empty").In("x", {0, 3}).Attr("axis", int32_t{1}).Attr("epsilon", 1e-10f)})
    .Kernel<L2NormalizeKernel, types::Floating>("x");

} // namespace
} // namespace opc::ops::norm
