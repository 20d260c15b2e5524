// Gradient rule of reduce_prod; reduce_prod_grad, exact where factors are zero, and its rule.
// SPDX-License-Identifier: Apache-2.0
#include "reduce/ReductionSteps.h"
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
  const TensorDesc x = ctx->In("x"), dy = ctx->In("dy");
  const auto axes = JUST(resolveAxes(ctx->Attr<std::vector<int32_t>>("axis"), x.shape().NumAxes()));
  const TensorDesc want(reducedShape(x.shape(), axes, true), x.data_type());
  if (dy != want)
    return Error::ShapeMismatch() << "dy is " << dy.toString() << ", expected " << want.toString()
                                  << ", the shape of x with 1 for the reduced axes";
  ctx->Out("dx") = x;
  return Maybe<void>::Ok();
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
  return shardingRule({x, x}, {x});
}

REGISTER_USER_OP("reduce_prod_grad")
    .GradientOf("reduce_prod")
    .Input("x")
    .Input("dy")
    .Output("dx")
    .RequiredAttr<std::vector<int32_t>>("axis")
    .SetTensorDescInferFn(inferProd)
    .Sharding(prodGradSharding)
    .Doc("The gradient of reduce_prod over the axes in `axis`, which dy has with size 1: dx = dy times the product "
         "of the other factors, right also where factors are 0. Products run in f64.")
    .Cases({prodCase("rows", {4, 7}, {4, 1}, {1}), prodCase("outer", {3, 4, 2}, {1, 4, 1}, {0, -1}),
            prodCase("none", {2, 3}, {2, 3}, {})})
    .Kernel<ProdGradKernel, types::Floating>("x");

/// dx = dy * prod(x) / x, for x without zeros: with q = dy / x, dx = q p; the gradient by dy is sum(ddx / x) p, by x
/// (sum(ddx q) - ddx q) p / x.
void prodGradGradient(GradientRule &g) {
  const Reduction r(g, "x", "dy", "axis", false);
  const std::string p = g.add("reduce_prod", "prod")
                            .in("input_tensor", r.in)
                            .attr("axis", r.axisList())
                            .attr("keepdims", true)
                            .out("output_tensor");
  const std::string ratio = binary(g, "broadcast_div", g.dy("dx"), r.in, "ratio");
  const std::string total = summed(g, ratio, r.axisList(), true, "total");
  if (g.needs("dy")) g.bind("dy", binary(g, "broadcast_mul", total, p, "dy"));
  if (!g.needs("x")) return;
  const std::string rest = binary(g, "broadcast_sub", total, ratio, "rest");
  const std::string weight = binary(g, "broadcast_mul", p, g.x("dy"), "weight");
  const std::string scaled = binary(g, "broadcast_mul", rest, weight, "scaled");
  g.bind("x", binary(g, "broadcast_div", scaled, r.in, "x"));
}
REGISTER_USER_OP_GRAD("reduce_prod_grad").SetBackwardOpConfGenFn(gradientRule(prodGradGradient));

} // namespace
} // namespace opc::ops::reduce
