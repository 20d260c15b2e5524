// Gradient rules of cumsum and cumprod; cumprod_grad, exact where factors are zero, and its rule.
// SPDX-License-Identifier: Apache-2.0
#include "support/GradientSteps.h"
#include "support/Operator.h"
#include "support/SbpRules.h"

namespace opc::ops::reduce {
namespace {

std::string flipped(GradientRule &g, const std::string &a, int64_t axis, const std::string &suffix) {
  return g.add("flip", suffix).in("x", a).attr("dims", std::vector<int32_t>{static_cast<int32_t>(axis)}).out("y");
}

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
  for (const char *arg : {"dy", "output"})
    if (ctx->In(arg) != x)
      return Error::ShapeMismatch() << arg << " is " << ctx->In(arg).toString() << ", expected " << x.toString()
                                    << ", the type of input";
  ctx->Out("dx") = x;
  return Maybe<void>::Ok();
}

/// One line: dx[k] = sum over i >= k of dy[i] * product over j <= i, j != k of x[j]. Before the first zero z that is
/// (sum over k <= i < z of dy[i] y[i]) / x[k]; at z the products run up to the next zero; behind it all is 0.
template <class T> void cumprodLine(const T *dy, const T *y, const T *x, T *dx, int64_t n, int64_t step) {
  int64_t zero = 0;
  while (zero < n && x[zero * step] != T(0)) ++zero;
  double sum = 0;
  for (int64_t k = zero; k-- > 0;) {
    sum += static_cast<double>(dy[k * step]) * static_cast<double>(y[k * step]);
    dx[k * step] = static_cast<T>(sum / static_cast<double>(x[k * step]));
  }
  if (zero == n) return;
  double product = zero == 0 ? 1.0 : static_cast<double>(y[(zero - 1) * step]);
  sum = static_cast<double>(dy[zero * step]) * product;
  for (int64_t i = zero + 1; i < n && product != 0; ++i) {
    product *= static_cast<double>(x[i * step]);
    sum += static_cast<double>(dy[i * step]) * product;
  }
  dx[zero * step] = static_cast<T>(sum);
  for (int64_t k = zero + 1; k < n; ++k) dx[k * step] = T(0);
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
    .Input("dy")
    .Input("output")
    .Input("input")
    .Output("dx")
    .RequiredAttr<int64_t>("dim")
    .SetTensorDescInferFn(inferCumprod)
    .Sharding(cumprodGradSharding)
    .Doc("The gradient of output = cumprod of input along `dim`: dx[k] = sum over i >= k of dy[i] * product over j "
         "<= i, j != k of input[j], in linear time: dy[i] * output[i] summed from the end, divided by input[k], up "
         "to the first zero of input; at that zero the products that leave it out; behind it 0. Sums run in f64.")
    .Cases({cumprodCase("rows", {3, 7}, 1, 0.5, 1.5), cumprodCase("middle", {2, 5, 3}, -2, 0.5, 1.5)})
    .Kernel<CumprodGradKernel, types::Floating>("dy");

/// dx = reverseCumsum(dy y) / x, for x without zeros. With s = cumsum(ddx / x): the gradient by dy is s y, by y s dy,
/// by x -ddx dx / x.
void cumprodGradGradient(GradientRule &g) {
  const int64_t axis = g.attr<int64_t>("dim");
  const std::string ratio = binary(g, "broadcast_div", g.dy("dx"), g.x("input"), "ratio");
  const std::string sums = g.add("cumsum", "sums").in("x", ratio).attr("dim", axis).out("y");
  if (g.needs("dy")) g.bind("dy", g.multiply(sums, g.x("output"), "dy"));
  if (g.needs("output")) g.bind("output", g.multiply(sums, g.x("dy"), "output"));
  if (g.needs("input")) g.bind("input", g.scale(g.multiply(ratio, g.y("dx"), "input_ratio"), -1, "input"));
}
REGISTER_USER_OP_GRAD("cumprod_grad").SetBackwardOpConfGenFn(gradientRule(cumprodGradGradient));

} // namespace
} // namespace opc::ops::reduce
