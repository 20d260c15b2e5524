// l2_normalize_grad, and the gradient rules of both.
// SPDX-License-Identifier: Apache-2.0
#include "normalization/NormRows.h"
#include "normalization/NormShape.h"
#include "normalization/NormSteps.h"
#include "support/Rows.h"
#include "support/SbpRules.h"
#include "support/ScalarSteps.h"

#include "opc/RowsKernel.h"

namespace opc::ops::norm {
namespace {

using namespace opc::cpu;

Maybe<void> infer(InferContext *ctx) {
  const TensorDesc dy = ctx->In("dy"), &y = ctx->In("y"), &sums = ctx->In("square_x_sum");
  JUST(checkFloating("dy", dy));
  JUST(checkEpsilon(ctx->Attr<float>("epsilon")));
  TensorDesc expected = dy;
  expected.mut_shape()->Set(JUST(axisOf<int32_t>(ctx, "axis", dy.shape())), 1);
  if (y != dy || sums != expected)
    return Error::ShapeMismatch() << "y is " << y.toString() << " and square_x_sum " << sums.toString() << ", expected "
                                  << dy.toString() << " and " << expected.toString();
  return setOut(ctx, "dx", dy);
}

Maybe<ShardingRule> sharding(const SbpContext &ctx) {
  const Shape &dy = ctx.In("dy").shape();
  const AxisFactors split = axisFactors(dy.NumAxes(), {JUST(axisOf<int32_t>(&ctx, "axis", dy))});
  return shardingRule({split, split, split}, {split}, Linear({0}));
}

/// One vector: dx = (dy - y * sum(y * dy)) / norm; where the sum of squares is below epsilon the norm is a constant,
/// and dx = dy / norm.
template <class T> void vectorGradient(const T *dy, const T *y, T square, T *dx, int64_t n, int64_t inner, T epsilon) {
  const T norm = std::sqrt(std::max(square, epsilon));
  T along = 0;
  if (square >= epsilon)
    for (int64_t i = 0; i < n * inner; i += inner) along += y[i] * dy[i];
  for (int64_t i = 0; i < n * inner; i += inner) dx[i] = (dy[i] - y[i] * along) / norm;
}

template <class T> class L2NormalizeGradKernel final : public StagedKernel<T>, public RowsKernel {
public:
  Status MakeRows(const KernelContext &ctx, std::unique_ptr<RowsLoop> *loop) const override {
    const NormShape s = shapeAroundAxis(&ctx, "dy");
    if (s.inner != 1) return Status::ok();
    RowFunction<T> f;
    f.rows = s.outer;
    f.size = s.channels;
    f.inputs = {{"dy", RowPart::kRow}, {"y", RowPart::kRow}, {"square_x_sum", RowPart::kOne}};
    f.outputs = {{"dx", RowPart::kRow}};
    f.run = [n = s.channels, epsilon = static_cast<T>(ctx.Attr<float>("epsilon"))](const RowArguments<T> &a) {
      for (int64_t r = 0; r < a.count; ++r)
        vectorGradient(a.x(0) + r * n, a.x(1) + r * n, a.x(2)[r], a.out[0] + r * n, n, 1, epsilon);
    };
    *loop = makeRowsLoop<T>(ctx, std::move(f));
    return Status::ok();
  }
  std::unique_ptr<BoundKernel> BindStaged(KernelBindContext *ctx, StagedTensors<T> &staged) const override {
    const NormShape s = shapeAroundAxis(ctx, "dy");
    const T epsilon = static_cast<T>(ctx->Attr<float>("epsilon"));
    const T *dy = staged.in("dy"), *y = staged.in("y"), *sums = staged.in("square_x_sum");
    T *dx = staged.out("dx");
    const int64_t n = s.channels, inner = s.inner;
    return bindRows(s.outer * inner, rowGrain(n), [=](int64_t v) {
      const int64_t at = v / inner * n * inner + v % inner;
      vectorGradient(dy + at, y + at, sums[v], dx + at, n, inner, epsilon);
    });
  }
};

REGISTER_USER_OP("l2_normalize_grad")
    .GradientOf("l2_normalize")
    .With(TensorArgs{{"dy", "y", "square_x_sum"}, {"dx"}})
    .Attr<int32_t>("axis", 0)
    .Attr<float>("epsilon", 0.0f)
    .With(rules(infer, sharding))
    .Doc("The gradient of l2_normalize: dx = (dy - y * sum(y * dy)) / sqrt(square_x_sum), the sum along `axis`; "
         "where square_x_sum is below epsilon, dx = dy / sqrt(epsilon).")
    .Cases({Case("rows")
                .In("dy", {3, 17})
                .In("y", {3, 17})
                .In("square_x_sum", {3, 1}, 1, 9)
                .Attr("axis", int32_t{1})
                .Attr("epsilon", 1e-10f),
            Case("channels")
                .In("dy", {2, 3, 5})
                .In("y", {2, 3, 5})
                .In("square_x_sum", {2, 1, 5}, 0, 2)
                .Attr("axis", int32_t{1})
                .Attr("epsilon", 0.5f)})
    .Kernel<L2NormalizeGradKernel, types::Floating>("dy");

std::string along(GradientRule &g, const std::string &dy, const std::string &y, const std::string &sums,
                  const char *suffix) {
  auto grad = g.add("l2_normalize_grad", suffix);
  grad.in("dy", dy).in("y", y).in("square_x_sum", sums);
  return grad.same({"axis", "epsilon"}).out("dx");
}

void l2NormalizeGradient(GradientRule &g) {
  if (!g.needs("x")) return;
  std::string direct, extra;
  if (g.hasDy("y")) direct = along(g, g.dy("y"), g.y("y"), g.y("square_x_sum"), "x");
  if (g.hasDy("square_x_sum")) // d x = 2 x dsum
    extra = g.scale(binary(g, "broadcast_mul", g.x("x"), g.dy("square_x_sum"), "square_product"), 2, "square");
  bindX(g, direct, extra);
}
REGISTER_USER_OP_GRAD("l2_normalize").SetBackwardOpConfGenFn(gradientRule(l2NormalizeGradient));

/// dx = (dy - y s) r with s = sum(y dy) and r = q^(-1/2), q = max(square_x_sum, epsilon). With v = ddx and t = sum(y
/// v): by dy (v - y t) r, l2_normalize_grad again; by y -r (v s + dy t); by square_x_sum -sum(v dx) / (2 q). Below
/// epsilon q is a constant and y s is missing; there the formulas for y and square_x_sum do not hold, and are cut off.
void l2NormalizeGradGradient(GradientRule &g) {
  const std::string v = g.dy("dx");
  if (g.needs("dy")) g.bind("dy", along(g, v, g.x("y"), g.x("square_x_sum"), "dy"));
  if (!g.needs("y") && !g.needs("square_x_sum")) return;
  const std::vector<int32_t> axis{
      static_cast<int32_t>(valueOf(resolveAxis(g.attr<int32_t>("axis"), g.shape("dy").NumAxes())))};
  const std::string above = withScalar(g, "scalar_logical_greater_equal", g.x("square_x_sum"),
                                       static_cast<double>(g.attr<float>("epsilon")), "above");
  const std::string zeros = g.add("zero_like", "zeros").in("like", g.x("square_x_sum")).out();
  const auto cut = [&](const std::string &a, const char *suffix) {
    return g.add("where", suffix).in("condition", above).in("x", a).in("y", zeros).out();
  };
  if (g.needs("y")) {
    const std::string r = cut(unary(g, "rsqrt", g.x("square_x_sum"), "r"), "r_cut");
    const std::string s = summed(g, g.multiply(g.x("y"), g.x("dy"), "s_product"), axis, true, "s");
    const std::string t = summed(g, g.multiply(g.x("y"), v, "t_product"), axis, true, "t");
    const std::string both = g.add("add_n", "y_both")
                                 .in("in", binary(g, "broadcast_mul", v, s, "y_first"))
                                 .in("in", binary(g, "broadcast_mul", g.x("dy"), t, "y_second"))
                                 .out();
    g.bind("y", unary(g, "negative", binary(g, "broadcast_mul", both, r, "y_scaled"), "y"));
  }
  if (g.needs("square_x_sum")) {
    const std::string sum = summed(g, g.multiply(v, g.y("dx"), "q_product"), axis, true, "q_sum");
    const std::string ratio = binary(g, "broadcast_div", sum, g.x("square_x_sum"), "q_ratio");
    g.bind("square_x_sum", g.scale(cut(ratio, "q_cut"), -0.5, "q"));
  }
}
REGISTER_USER_OP_GRAD("l2_normalize_grad").SetBackwardOpConfGenFn(gradientRule(l2NormalizeGradGradient));

} // namespace
} // namespace opc::ops::norm
