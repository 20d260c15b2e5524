// Gradient rule of reduce_prod; reduce_prod_grad, exact where factors are zero, and its rule.
// SPDX-License-Identifier: Apache-2.0
#include "reduce/ReductionSteps.h"
#include "reduce/ScanSteps.h"
#include "support/SbpRules.h"
#include "support/Walk.h"

namespace opc::ops::reduce {
namespace {

void prodGradient(GradientRule &g) {
  if (g.needs("input_tensor"))
    g.bind("input_tensor", g.add("reduce_prod_grad", "input")
                               .in("x", g.x("input_tensor"))
                               .in("dy", reduction(g).keptDy())
                               .same({"axis"})
                               .out("dx"));
}
REGISTER_USER_OP_GRAD("reduce_prod").SetBackwardOpConfGenFn(gradientRule(prodGradient));

// --- reduce_prod_grad ------------------------------------------------------------------------------------------------

Maybe<void> inferProd(InferContext *ctx) {
  const TensorDesc x = ctx->In("x");
  const auto axes = JUST(resolveAxes(ctx->Attr<std::vector<int32_t>>("axis"), x.shape().NumAxes()));
  const TensorDesc want(reducedShape(x.shape(), axes, true), x.data_type());
  JUST(expectIn(ctx, "dy", want, ", the shape of x with 1 for the reduced axes"));
  return setOut(ctx, "dx", x);
}

/// For each output: the product of the factors that are not 0, and how many are. With none, dx = dy p / x; with one, it
/// alone has a gradient, dy p; with more, nothing has.
template <class T> class ProdGradKernel final : public StagedKernel<T> {
public:
  std::unique_ptr<BoundKernel> BindStaged(KernelBindContext *ctx, StagedTensors<T> &staged) const override {
    const Shape shape = ctx->In("x").shape();
    const auto axes = valueOf(resolveAxes(ctx->Attr<std::vector<int32_t>>("axis"), shape.NumAxes()));
    const DimVector strides = rowMajorStrides(shape);
    std::vector<StridedDim> kept, reduced;
    int64_t outputs = 1, count = 1;
    for (int64_t a = 0; a < shape.NumAxes(); ++a) {
      const bool isReduced = std::binary_search(axes.begin(), axes.end(), a);
      (isReduced ? reduced : kept).push_back({shape.At(a), strides[static_cast<size_t>(a)]});
      (isReduced ? count : outputs) *= shape.At(a);
    }
    const T *x = staged.in("x"), *dy = staged.in("dy");
    T *dx = staged.out("dx");
    return bindTask([=](DeviceCtx *dev) {
      if (outputs * count > 0)
        dev->parallelFor(outputs, std::max<int64_t>(1, 8192 / count), [&](int64_t b, int64_t e) {
          Walk at(kept, b);
          for (int64_t o = b; o < e; ++o, at.next()) {
            double product = 1;
            int64_t zeros = 0;
            Walk r(reduced, 0);
            for (int64_t i = 0; i < count; ++i, r.next()) {
              const double v = static_cast<double>(x[at.offset + r.offset]);
              if (v == 0)
                ++zeros;
              else
                product *= v;
            }
            const double share = zeros > 1 ? 0.0 : static_cast<double>(dy[o]) * product;
            Walk w(reduced, 0);
            for (int64_t i = 0; i < count; ++i, w.next()) {
              const double v = static_cast<double>(x[at.offset + w.offset]);
              dx[at.offset + w.offset] = static_cast<T>(zeros == 0 ? share / v : v == 0 ? share : 0.0);
            }
          }
        });
    });
  }
};

Case prodCase(const char *name, Shape x, Shape dy, std::vector<int32_t> axis) {
  return Case(name).In("x", x, 0.5, 1.5).In("dy", dy).Attr("axis", axis);
}

Maybe<ShardingRule> prodGradSharding(const SbpContext &ctx) {
  const int64_t rank = ctx.In("x").shape().NumAxes();
  const AxisFactors x = axisFactors(rank, JUST(resolveAxes(ctx.Attr<std::vector<int32_t>>("axis"), rank)));
  return shardingRule({x, x}, {x}, Linear({1}));
}

REGISTER_USER_OP("reduce_prod_grad")
    .GradientOf("reduce_prod")
    .With(TensorArgs{{"x", "dy"}, {"dx"}})
    .RequiredAttr<std::vector<int32_t>>("axis")
    .With(rules(inferProd, prodGradSharding))
    .Doc("The gradient of reduce_prod over the axes in `axis`, which dy has with size 1: dx = dy times the product "
         "of the other factors, right also where factors are 0. Products run in f64.")
    .Cases({prodCase("rows", {4, 7}, {4, 1}, {1}), prodCase("outer", {3, 4, 2}, {1, 4, 1}, {0, -1}),
            prodCase("none", {2, 3}, {2, 3}, {})})
    .Kernel<ProdGradKernel, types::Floating>("x");

/// Tensors of x's shape with the reduced axes as one, which is `dim`; and back.
struct Lines {
  Lines(GradientRule &rule, const Reduction &r) : g(rule), shape(r.shape), lineShape(r.shape), dim(r.axes[0]) {
    if (r.axes.size() == 1) return;
    DimVector ahead, lines;
    for (int64_t a = 0; a < shape.NumAxes(); ++a)
      if (!std::binary_search(r.axes.begin(), r.axes.end(), a)) order.push_back(static_cast<int32_t>(a));
    for (int32_t a : order) lines.push_back(shape.At(a));
    dim = static_cast<int64_t>(lines.size());
    lines.push_back(r.count());
    for (int64_t a : r.axes) order.push_back(static_cast<int32_t>(a));
    for (int32_t a : order) ahead.push_back(shape.At(a));
    moved = Shape(ahead);
    lineShape = Shape(lines);
  }
  /// In f64, as the products of reduce_prod_grad run.
  std::string to(const std::string &a, const std::string &suffix) const {
    const std::string wide = cast(a, kDouble, suffix + "_wide");
    return order.empty() ? wide : reshaped(g, transposed(wide, order, suffix + "_moved"), moved, lineShape, suffix);
  }
  std::string from(const std::string &a, const std::string &suffix) const {
    std::string back = a;
    if (!order.empty()) {
      std::vector<int32_t> inverse(order.size());
      for (size_t i = 0; i < order.size(); ++i) inverse[static_cast<size_t>(order[i])] = static_cast<int32_t>(i);
      back = transposed(reshaped(g, a, lineShape, moved, suffix + "_apart"), inverse, suffix + "_back");
    }
    return cast(back, g.desc("x").data_type(), suffix);
  }
  std::string cast(const std::string &a, DataType type, const std::string &suffix) const {
    if (g.desc("x").data_type() == kDouble) return a;
    return g.add("cast", suffix).in("in", a).attr("dtype", type).out();
  }
  std::string transposed(const std::string &a, const std::vector<int32_t> &perm, const std::string &suffix) const {
    return g.add("transpose", suffix).in("input", a).attr("perm", perm).out("output");
  }
  std::string flip(const std::string &a, const std::string &suffix) const { return flipped(g, a, dim, suffix); }
  /// What lies one place before, `fill` in front.
  std::string behind(const std::string &a, double fill, const std::string &suffix) const {
    return shifted(g, a, lineShape, dim, 1, fill, suffix);
  }
  std::string before(const std::string &x, const std::string &suffix) const {
    return behind(g.add("cumprod", suffix + "_all").in("x", x).attr("dim", dim).out("y"), 1, suffix);
  }
  GradientRule &g;
  Shape shape, moved, lineShape;
  int64_t dim;
  std::vector<int32_t> order; // empty: the lines lie where they are
};

/// dx[i] = dy e[i] r[i], e the product before i and r that behind it. With v = ddx and q = dy v: the gradient by dy is
/// sum(v e r); by x[k] that of q[i] times the product of all but i and k, over i < k f[k] r[k] with f[k + 1] = x[k]
/// f[k]
/// + q[k] e[k], and over i > k the same from the other end. No division: any factors may be zero.
void prodGradGradient(GradientRule &g) {
  const Reduction r(g, "x", "dy", "axis", false);
  if (r.axes.empty()) return g.bind("dy", g.dy("dx"));
  const Lines lines(g, r);
  const std::string x = lines.to(r.in, "x_line"), back = lines.flip(x, "x_flipped");
  const std::string e = lines.before(x, "before"), eBack = lines.before(back, "behind_flipped"),
                    rest = lines.flip(eBack, "behind");
  if (g.needs("dy")) {
    const std::string others = lines.from(g.multiply(e, rest, "others"), "dy_others");
    g.bind("dy", summed(g, g.multiply(g.dy("dx"), others, "dy_product"), r.axisList(), true, "dy"));
  }
  if (!g.needs("x")) return;
  const std::string q = lines.to(binary(g, "broadcast_mul", g.dy("dx"), g.x("dy"), "weight"), "weight_line");
  const std::string f =
      lines.behind(linearScan(g, x, g.multiply(q, e, "first"), lines.dim, false, "first_scan"), 0, "first_behind");
  const std::string weightBack = g.multiply(lines.flip(q, "weight_flipped"), eBack, "last");
  const std::string h = lines.flip(
      lines.behind(linearScan(g, back, weightBack, lines.dim, false, "last_scan"), 0, "last_behind"), "last_back");
  const std::string both =
      g.add("add_n", "x_both").in("in", g.multiply(f, rest, "x_first")).in("in", g.multiply(e, h, "x_last")).out();
  g.bind("x", lines.from(both, "x"));
}
REGISTER_USER_OP_GRAD("reduce_prod_grad").SetBackwardOpConfGenFn(gradientRule(prodGradGradient));

} // namespace
} // namespace opc::ops::reduce
