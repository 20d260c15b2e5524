// Gradient rules of cumsum and cumprod; cumprod_grad and its rule, both without a division: factors may be zero.
// SPDX-License-Identifier: Apache-2.0
#include "reduce/ScanSteps.h"
#include "support/Operator.h"
#include "support/SbpRules.h"

namespace opc::ops::reduce {
namespace {

/// A running sum from the other end.
std::string reverseCumsum(GradientRule &g, const std::string &a, int64_t axis, const std::string &suffix) {
  const std::string back = flipped(g, a, axis, suffix + "_flipped");
  const std::string sums = g.add("cumsum", suffix + "_sums").in("x", back).attr("dim", axis).out("y");
  return flipped(g, sums, axis, suffix);
}

void cumsumGradient(GradientRule &g) {
  if (g.needs("x")) g.bind("x", reverseCumsum(g, g.dy("y"), g.attr<int64_t>("dim"), "x"));
}
REGISTER_USER_OP_GRAD("cumsum").SetBackwardOpConfGenFn(gradientRule(cumsumGradient));

void cumprodGradient(GradientRule &g) {
  if (g.needs("x"))
    g.bind("x", g.add("cumprod_grad", "x")
                    .in("dy", g.dy("y"))
                    .in("output", g.y("y"))
                    .in("input", g.x("x"))
                    .same({"dim"})
                    .out("dx"));
}
REGISTER_USER_OP_GRAD("cumprod").SetBackwardOpConfGenFn(gradientRule(cumprodGradient));

// --- cumprod_grad ----------------------------------------------------------------------------------------------------

Maybe<void> inferCumprod(InferContext *ctx) {
  const TensorDesc x = ctx->In("input");
  JUST(resolveAxis(ctx->Attr<int64_t>("dim"), x.shape().NumAxes(), "dim"));
  for (const char *arg : {"dy", "output"}) JUST(expectIn(ctx, arg, x, ", the type of input"));
  return setOut(ctx, "dx", x);
}

/// One line: dx[k] = sum over i >= k of dy[i] * product over j <= i, j != k of x[j], the product before k times t[k] =
/// dy[k] + x[k + 1] t[k + 1]. Behind a zero all is 0, whatever overflows there.
template <class T> void cumprodLine(const T *dy, const T *y, const T *x, T *dx, int64_t n, int64_t step) {
  double t = 0;
  for (int64_t k = n; k-- > 0;) {
    t = static_cast<double>(dy[k * step]) + (k + 1 < n ? static_cast<double>(x[(k + 1) * step]) * t : 0.0);
    const double before = k > 0 ? static_cast<double>(y[(k - 1) * step]) : 1.0;
    dx[k * step] = static_cast<T>(before == 0 ? 0.0 : before * t);
  }
}

template <class T> class CumprodGradKernel final : public StagedKernel<T> {
public:
  std::unique_ptr<BoundKernel> BindStaged(KernelBindContext *ctx, StagedTensors<T> &staged) const override {
    const Shape shape = ctx->In("input").shape();
    const int64_t axis = valueOf(resolveAxis(ctx->Attr<int64_t>("dim"), shape.NumAxes()));
    const int64_t n = shape.At(axis), inner = shape.Count(axis + 1), lines = shape.Count(0, axis) * inner;
    const T *dy = staged.in("dy"), *y = staged.in("output"), *x = staged.in("input");
    T *dx = staged.out("dx");
    return bindTask([=](DeviceCtx *dev) {
      dev->parallelFor(lines, std::max<int64_t>(1, 8192 / std::max<int64_t>(1, n)), [&](int64_t b, int64_t e) {
        for (int64_t l = b; l < e; ++l) {
          const int64_t at = l / inner * n * inner + l % inner;
          cumprodLine(dy + at, y + at, x + at, dx + at, n, inner);
        }
      });
    });
  }
};

Case cumprodCase(const char *name, Shape s, int64_t dim, double lo, double hi) {
  return Case(name).In("dy", s).In("output", s, lo, hi).In("input", s, lo, hi).Attr("dim", dim);
}

Maybe<ShardingRule> cumprodGradSharding(const SbpContext &ctx) {
  const int64_t rank = ctx.In("input").shape().NumAxes();
  const AxisFactors x = axisFactors(rank, {JUST(resolveAxis(ctx.Attr<int64_t>("dim"), rank, "dim"))});
  return shardingRule({x, x, x}, {x});
}

REGISTER_USER_OP("cumprod_grad")
    .GradientOf("cumprod")
    .With(TensorArgs{{"dy", "output", "input"}, {"dx"}})
    .RequiredAttr<int64_t>("dim")
    .With(rules(inferCumprod, cumprodGradSharding))
    .Doc("The gradient of output = cumprod of input along `dim`: dx[k] = sum over i >= k of dy[i] * product over j "
         "<= i, j != k of input[j], in linear time and without a division: output[k - 1] * t[k] with t[k] = dy[k] + "
         "input[k + 1] * t[k + 1]. Runs in f64.")
    .Cases({cumprodCase("rows", {3, 7}, 1, 0.5, 1.5), cumprodCase("middle", {2, 5, 3}, -2, 0.5, 1.5)})
    .Kernel<CumprodGradKernel, types::Floating>("dy");

/// dx = e t, with e the output one place on (1 in front) and t the scan of dy from the end. With v = ddx and s the scan
/// of v e: the gradient by dy is s, by e it is v t, and by input[k] s[k - 1] t[k].
void cumprodGradGradient(GradientRule &g) {
  const Shape &shape = g.shape("input");
  const int64_t dim = valueOf(resolveAxis(g.attr<int64_t>("dim"), shape.NumAxes()));
  std::string s, t;
  if (g.needs("dy") || g.needs("input")) {
    const std::string e = shifted(g, g.x("output"), shape, dim, 1, 1, "before");
    s = linearScan(g, g.x("input"), g.multiply(g.dy("dx"), e, "weight"), dim, false, "dy");
    g.bind("dy", s);
  }
  if (!g.needs("output") && !g.needs("input")) return;
  t = linearScan(g, g.x("input"), g.x("dy"), dim, true, "sums");
  if (g.needs("output"))
    g.bind("output", shifted(g, g.multiply(g.dy("dx"), t, "output_product"), shape, dim, -1, 0, "output"));
  if (g.needs("input")) g.bind("input", g.multiply(t, shifted(g, s, shape, dim, 1, 0, "input_behind"), "input"));
}
REGISTER_USER_OP_GRAD("cumprod_grad").SetBackwardOpConfGenFn(gradientRule(cumprodGradGradient));

} // namespace
} // namespace opc::ops::reduce
