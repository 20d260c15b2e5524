// Gradient rules of the matrix products, and broadcast_matmul_grad_b, which one of them needs.
// SPDX-License-Identifier: Apache-2.0
#include "MatrixProduct.h"
#include "support/GradientSteps.h"

namespace opc::ops {
namespace {

/// One product of the backward graph with the forward op's alpha.
std::string product(GradientRule &g, const std::string &type, const std::string &suffix, const std::string &a, bool ta,
                    const std::string &b, bool tb) {
  return g.add(type, suffix)
      .in("a", a)
      .in("b", b)
      .attr("transpose_a", ta)
      .attr("transpose_b", tb)
      .same({"alpha"})
      .out();
}

/// out = alpha op(a) op(b): d op(a) = alpha dout op(b)^T, d op(b) = alpha op(a)^T dout, each transposed back.
void matrixProductGradient(GradientRule &g) {
  const Shape &givenA = g.shape("a"), &givenB = g.shape("b");
  const bool ta = isTransposed(givenA, g.attr<bool>("transpose_a"));
  const bool tb = isTransposed(givenB, g.attr<bool>("transpose_b"));
  // Vectors become the matrices that they stand for.
  const Shape sa = matricesOf(givenA, true), sb = matricesOf(givenB, false);
  const Shape so = productMatrices(givenA, givenB, g.shape("out"));
  const bool isStack = so.NumAxes() > 2;
  const std::string type = g.op().op_type_name() == "matmul" && isStack ? "broadcast_matmul" : g.op().op_type_name();
  const std::string a = reshaped(g, g.x("a"), givenA, sa, "a_matrix");
  const std::string b = reshaped(g, g.x("b"), givenB, sb, "b_matrix");
  const std::string dy = reshaped(g, g.dy("out"), g.shape("out"), so, "dout_matrix");
  const auto dims = [&](const Shape &s, bool transpose) {
    const int64_t r = s.NumAxes();
    DimVector d(so.begin(), so.end() - 2);
    d.push_back(s.At(r - (transpose ? 1 : 2)));
    d.push_back(s.At(r - (transpose ? 2 : 1)));
    return Shape(d);
  };
  if (g.needs("a")) {
    const std::string full = ta ? product(g, type, "a", b, tb, dy, true) : product(g, type, "a", dy, false, b, !tb);
    g.bind("a", reshaped(g, g.reduceLike(full, dims(sa, false), a, sa, "a_sum"), sa, givenA, "a_vector"));
  }
  if (g.needs("b")) {
    // One b for the whole batch, the usual layer: its gradient is one tall product instead of a sum of many.
    if (type == "broadcast_matmul" && sb.NumAxes() == 2 && sa.NumAxes() > 2 && !ta) {
      const std::string &first = tb ? dy : a, &second = tb ? a : dy;
      const std::string grad =
          g.add("broadcast_matmul_grad_b", "b").in("a", first).in("b", second).same({"alpha"}).out();
      g.bind("b", reshaped(g, grad, sb, givenB, "b_vector"));
    } else {
      const std::string full = tb ? product(g, type, "b", dy, true, a, ta) : product(g, type, "b", a, !ta, dy, false);
      g.bind("b", reshaped(g, g.reduceLike(full, dims(sb, false), b, sb, "b_sum"), sb, givenB, "b_vector"));
    }
  }
  if (g.needs("_add_to_output")) g.bind("_add_to_output", g.dy("out"));
}
REGISTER_USER_OP_GRAD("matmul").SetBackwardOpConfGenFn(gradientRule(matrixProductGradient));
REGISTER_USER_OP_GRAD("batch_matmul").SetBackwardOpConfGenFn(gradientRule(matrixProductGradient));
REGISTER_USER_OP_GRAD("broadcast_matmul").SetBackwardOpConfGenFn(gradientRule(matrixProductGradient));

// --- broadcast_matmul_grad_b -----------------------------------------------------------------------------------------

Maybe<void> inferGradB(InferContext *ctx) {
  const TensorDesc a = ctx->In("a"), b = ctx->In("b");
  if (a.data_type() != b.data_type()) return dtypeMismatch("a", a, "b", b).help("cast one of them");
  const int64_t rank = a.shape().NumAxes();
  bool fits = rank >= 2 && b.shape().NumAxes() == rank;
  for (int64_t i = 0; fits && i + 1 < rank; ++i) fits = a.shape().At(i) == b.shape().At(i);
  if (!fits)
    return Error::ShapeMismatch() << "a is " << a.toString() << ", b is " << b.toString()
                                  << ": all their dimensions but the last must be the same, and there must be two at "
                                     "least";
  const TensorDesc out(Shape{a.shape().At(rank - 1), b.shape().At(rank - 1)}, a.data_type());
  JUST(expectIn(ctx, "_add_to_output", out));
  return setOut(ctx, "out", out);
}

Maybe<ShardingRule> gradBSharding(const SbpContext &ctx) {
  const AxisFactors batch = axisFactors(ctx.In("a").shape().NumAxes() - 1);
  AxisFactors a = batch, b = batch;
  a.push_back("k");
  b.push_back("n");
  return withSums(batch, shardingRule({a, b, {"+", "k", "n"}}, {{"k", "n"}}, Linear({0}), Linear({1})));
}

template <class T> class GradBKernel final : public StagedKernel<T> {
  std::unique_ptr<BoundKernel> BindStaged(KernelBindContext *ctx, StagedTensors<T> &staged) const override {
    const Shape &a = ctx->In("a").shape(), &out = ctx->Out("out").shape();
    cpu::GemmShape shape{out.At(0), out.At(1), a.Count(0, a.NumAxes() - 1)};
    shape.transA = true;
    shape.alpha = ctx->Attr<double>("alpha");
    return bindProduct(ctx, staged, shape, {}, ConstantB::kAsItLies);
  }
};

REGISTER_USER_OP("broadcast_matmul_grad_b")
    .GradientOf("broadcast_matmul")
    .With(TensorArgs{{"a", "b"}, {"out"}})
    .OptionalInput("_add_to_output")
    .Attr<double>("alpha", 1.0)
    .With(rules(inferGradB, gradBSharding))
    .SetComputeComplexityFn([](InferContext *ctx) {
      const Shape &b = ctx->In("b").shape();
      return operations(ctx, "a", b.At(b.NumAxes() - 1));
    })
    .Doc("out[k,n] = alpha * the sum over all leading dimensions of a[...,k] * b[...,n], plus _add_to_output when it "
         "is given: the gradient of a matrix that broadcast_matmul uses for the whole batch.")
    .Cases({Case("batch").In("a", {2, 3, 4}, -3, 3).In("b", {2, 3, 5}, -3, 3),
            Case("added").In("a", {7, 3}, -3, 3).In("b", {7, 2}, -3, 3).In("_add_to_output", {3, 2}).Attr("alpha", 0.5),
            Case("no_rows").In("a", {0, 2, 3}).In("b", {0, 2, 2})})
    .Kernel<GradBKernel, types::Floating>("out");

/// out = alpha a^T b over all rows: da = alpha b dout^T, db = alpha a dout.
void gradBGradient(GradientRule &g) {
  if (g.needs("a")) g.bind("a", product(g, "broadcast_matmul", "a", g.x("b"), false, g.dy("out"), true));
  if (g.needs("b")) g.bind("b", product(g, "broadcast_matmul", "b", g.x("a"), false, g.dy("out"), false));
  if (g.needs("_add_to_output")) g.bind("_add_to_output", g.dy("out"));
}
REGISTER_USER_OP_GRAD("broadcast_matmul_grad_b").SetBackwardOpConfGenFn(gradientRule(gradBGradient));

} // namespace
} // namespace opc::ops
