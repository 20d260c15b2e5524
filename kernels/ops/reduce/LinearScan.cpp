// linear_scan: y[i] = a[i] * y[i - 1] + b[i] along an axis.
// SPDX-License-Identifier: Apache-2.0
#include "support/Operator.h"
#include "support/SbpRules.h"

#include <algorithm>

namespace opc::ops::reduce {
namespace {

Maybe<void> infer(InferContext *ctx) {
  const TensorDesc a = ctx->In("a");
  JUST(resolveAxis(ctx->Attr<int64_t>("dim"), a.shape().NumAxes(), "dim"));
  JUST(expectIn(ctx, "b", a, ", the type of a"));
  return setOut(ctx, "y", a);
}

/// One line. Backwards y[i] = a[i + 1] * y[i + 1] + b[i]: each factor stands between the same two entries.
template <class T> void scanLine(const T *a, const T *b, T *y, int64_t n, int64_t step, bool reverse) {
  double running = 0;
  if (reverse) {
    for (int64_t i = n; i-- > 0;) {
      const double factor = i + 1 < n ? static_cast<double>(a[(i + 1) * step]) : 0.0;
      running = factor * running + static_cast<double>(b[i * step]);
      y[i * step] = static_cast<T>(running);
    }
  } else {
    for (int64_t i = 0; i < n; ++i) {
      const double factor = i > 0 ? static_cast<double>(a[i * step]) : 0.0;
      running = factor * running + static_cast<double>(b[i * step]);
      y[i * step] = static_cast<T>(running);
    }
  }
}

template <class T> class LinearScanKernel final : public StagedKernel<T> {
public:
  std::unique_ptr<BoundKernel> BindStaged(KernelBindContext *ctx, StagedTensors<T> &staged) const override {
    const Shape shape = ctx->In("a").shape();
    const int64_t axis = valueOf(resolveAxis(ctx->Attr<int64_t>("dim"), shape.NumAxes()));
    const int64_t n = shape.At(axis), inner = shape.Count(axis + 1), lines = shape.Count(0, axis) * inner;
    const bool reverse = ctx->Attr<bool>("reverse");
    const T *a = staged.in("a"), *b = staged.in("b");
    T *y = staged.out("y");
    return bindTask([=](DeviceCtx *dev) {
      dev->parallelFor(lines, std::max<int64_t>(1, 8192 / std::max<int64_t>(1, n)), [&](int64_t begin, int64_t end) {
        for (int64_t l = begin; l < end; ++l) {
          const int64_t at = l / inner * n * inner + l % inner;
          scanLine(a + at, b + at, y + at, n, inner, reverse);
        }
      });
    });
  }
};

Maybe<ShardingRule> sharding(const SbpContext &ctx) {
  const int64_t rank = ctx.In("a").shape().NumAxes();
  const AxisFactors x = axisFactors(rank, {JUST(resolveAxis(ctx.Attr<int64_t>("dim"), rank, "dim"))});
  return shardingRule({x, x}, {x}, Linear({1}));
}

Case scanCase(const char *name, Shape shape, int64_t dim, bool reverse) {
  return Case(name).In("a", shape).In("b", shape).Attr("dim", dim).Attr("reverse", reverse);
}

REGISTER_USER_OP("linear_scan")
    .With(TensorArgs{{"a", "b"}, {"y"}})
    .RequiredAttr<int64_t>("dim")
    .Attr<bool>("reverse", false)
    .With(rules(infer, sharding))
    .Doc("The linear recurrence y[i] = a[i] * y[i - 1] + b[i] along axis `dim`, y[0] = b[0]. With `reverse` y[i] = "
         "a[i + 1] * y[i + 1] + b[i] from the end: the transpose of the former as a map of b. a[0] is not read. "
         "Runs in f64.")
    .Cases({scanCase("rows", {3, 7}, 1, false), scanCase("middle", {2, 5, 3}, -2, true),
            scanCase("columns", {4, 3}, 0, false)})
    .Kernel<LinearScanKernel, types::Floating>("a");

} // namespace
} // namespace opc::ops::reduce
