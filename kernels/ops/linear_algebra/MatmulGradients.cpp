// Gradient rules of the matrix products and of bias_add, and broadcast_matmul_grad_b, which one of them needs.
// SPDX-License-Identifier: Apache-2.0
#include "Gemm.h"
#include "MatrixProduct.h"
#include "support/GradientSteps.h"
#include "support/RegisterFloating.h"

namespace opc::ops {
namespace {

using namespace opc::cpu;
using user_op::Case;
using user_op::InferContext;
using user_op::TensorDesc;

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
  const bool ta = g.attr<bool>("transpose_a"), tb = g.attr<bool>("transpose_b");
  const std::string &type = g.op().op_type_name(), &a = g.x("a"), &b = g.x("b");
  const Shape &sa = g.shape("a"), &sb = g.shape("b"), &so = g.shape("out");
  const auto dims = [&](const Shape &s, bool transpose) {
    const int64_t r = s.NumAxes();
    DimVector d(so.begin(), so.end() - 2);
    d.push_back(s.At(r - (transpose ? 1 : 2)));
    d.push_back(s.At(r - (transpose ? 2 : 1)));
    return Shape(d);
  };
  if (g.needs("a")) {
    const std::string full =
        ta ? product(g, type, "a", b, tb, g.dy("out"), true) : product(g, type, "a", g.dy("out"), false, b, !tb);
    g.bind("a", g.reduceLike(full, dims(sa, false), a, sa, "a_sum"));
  }
  if (g.needs("b")) {
    // One b for the whole batch, the usual layer: its gradient is one tall product instead of a sum of many.
    if (type == "broadcast_matmul" && sb.NumAxes() == 2 && sa.NumAxes() > 2 && !ta) {
      const std::string &first = tb ? g.dy("out") : a, &second = tb ? a : g.dy("out");
      g.bind("b", g.add("broadcast_matmul_grad_b", "b").in("a", first).in("b", second).same({"alpha"}).out());
    } else {
      const std::string full =
          tb ? product(g, type, "b", g.dy("out"), true, a, ta) : product(g, type, "b", a, !ta, g.dy("out"), false);
      g.bind("b", g.reduceLike(full, dims(sb, false), b, sb, "b_sum"));
    }
  }
  if (g.needs("_add_to_output")) g.bind("_add_to_output", g.dy("out"));
}
REGISTER_USER_OP_GRAD("matmul").SetBackwardOpConfGenFn(gradientRule(matrixProductGradient));
REGISTER_USER_OP_GRAD("batch_matmul").SetBackwardOpConfGenFn(gradientRule(matrixProductGradient));
REGISTER_USER_OP_GRAD("broadcast_matmul").SetBackwardOpConfGenFn(gradientRule(matrixProductGradient));

// --- broadcast_matmul_grad_b -----------------------------------------------------------------------------------------

Maybe<void> inferGradB(InferContext *ctx) {
  const TensorDesc a = ctx->InputTensorDesc("a", 0), b = ctx->InputTensorDesc("b", 0);
  if (a.data_type() != b.data_type()) return dtypeMismatch("a", a, "b", b).help("cast one of them");
  const int64_t rank = a.shape().NumAxes();
  bool fits = rank >= 2 && b.shape().NumAxes() == rank;
  for (int64_t i = 0; fits && i + 1 < rank; ++i) fits = a.shape().At(i) == b.shape().At(i);
  if (!fits)
    return Error::ShapeMismatch() << "a is " << a.toString() << ", b is " << b.toString()
                                  << ": all their dimensions but the last must be the same, and there must be two at "
                                     "least";
  const TensorDesc out(Shape{a.shape().At(rank - 1), b.shape().At(rank - 1)}, a.data_type());
  if (ctx->has_input("_add_to_output", 0) && ctx->InputTensorDesc("_add_to_output", 0) != out)
    return Error::ShapeMismatch() << "_add_to_output is " << ctx->InputTensorDesc("_add_to_output", 0).toString()
                                  << ", expected " << out.toString();
  *ctx->MutOutputTensorDesc("out", 0) = out;
  return Maybe<void>::Ok();
}

Maybe<void> gradBSbp(user_op::SbpContext *ctx) {
  const int64_t rank = ctx->LogicalTensorDesc4InputArgNameAndIndex("a", 0).shape().NumAxes();
  const user_op::OpArg a("a", 0), b("b", 0), add("_add_to_output", 0), out("out", 0);
  const bool adds = ctx->has_input("_add_to_output", 0);
  const auto build = [&](user_op::UserOpSbpSignatureBuilder builder, int64_t axis) {
    if (axis < 0) {
      builder.PartialSum(out);
      if (adds) builder.PartialSum(add);
    } else {
      builder.Split(out, axis);
      if (adds) builder.Split(add, axis);
    }
    builder.Build();
  };
  for (int64_t i = 0; i + 1 < rank; ++i) build(ctx->NewBuilder().Split(a, i).Split(b, i), -1);
  build(ctx->NewBuilder().Split(a, rank - 1).Broadcast(b), 0);
  build(ctx->NewBuilder().Broadcast(a).Split(b, rank - 1), 1);
  build(ctx->NewBuilder().PartialSum(a).Broadcast(b), -1);
  build(ctx->NewBuilder().Broadcast(a).PartialSum(b), -1);
  return Maybe<void>::Ok();
}

REGISTER_USER_OP("broadcast_matmul_grad_b")
    .GradientOf("broadcast_matmul")
    .Input("a")
    .Input("b")
    .OptionalInput("_add_to_output")
    .Output("out")
    .Attr<double>("alpha", 1.0)
    .SetTensorDescInferFn(inferGradB)
    .SetGetSbpFn(gradBSbp)
    .SetComputeComplexityFn([](InferContext *ctx) -> Maybe<double> {
      const Shape &a = ctx->InputShape("a", 0), &b = ctx->InputShape("b", 0);
      return 2.0 * static_cast<double>(a.elem_cnt()) * static_cast<double>(b.At(b.NumAxes() - 1));
    })
    .Doc("out[k,n] = alpha * the sum over all leading dimensions of a[...,k] * b[...,n], plus _add_to_output when it "
         "is given: the gradient of a matrix that broadcast_matmul uses for the whole batch.")
    .Cases({Case("batch").In("a", {2, 3, 4}, -3, 3).In("b", {2, 3, 5}, -3, 3),
            Case("added").In("a", {7, 3}, -3, 3).In("b", {7, 2}, -3, 3).In("_add_to_output", {3, 2}).Attr("alpha", 0.5),
            Case("no_rows").In("a", {0, 2, 3}).In("b", {0, 2, 2})});

template <class T> class GradBKernel final : public user_op::OpKernel {
public:
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
  std::unique_ptr<user_op::BoundKernel> Bind(user_op::KernelBindContext *ctx) const override {
    const Shape &a = ctx->TensorDesc4ArgNameAndIndex("a", 0)->shape();
    const Shape &b = ctx->TensorDesc4ArgNameAndIndex("b", 0)->shape();
    GemmShape shape;
    shape.transA = true;
    shape.alpha = ctx->Attr<double>("alpha");
    shape.accumulate = ctx->has_input("_add_to_output", 0);
    shape.m = a.At(a.NumAxes() - 1);
    shape.n = b.At(b.NumAxes() - 1);
    shape.k = a.Count(0, a.NumAxes() - 1);
    StagedTensors<T> tensors(ctx);
    const T *pa = tensors.in("a"), *pb = tensors.in("b"), *add = tensors.in("_add_to_output");
    T *c = tensors.out("out");
    Gemm<T> gemm(shape, GemmBatch(), nullptr);
    const int64_t count = shape.m * shape.n;
    return user_op::bindTask([=, tensors = std::move(tensors), gemm = std::move(gemm)](DeviceCtx *d) {
      tensors.load(d);
      if (add && add != c) std::copy_n(add, count, c);
      gemm.run(d, pa, pb, c);
      tensors.store(d);
    });
  }
};
OPC_REGISTER_FLOATING_CPU_KERNELS("broadcast_matmul_grad_b", GradBKernel, "out");

/// out = alpha a^T b over all rows: da = alpha b dout^T, db = alpha a dout.
void gradBGradient(GradientRule &g) {
  if (g.needs("a")) g.bind("a", product(g, "broadcast_matmul", "a", g.x("b"), false, g.dy("out"), true));
  if (g.needs("b")) g.bind("b", product(g, "broadcast_matmul", "b", g.x("a"), false, g.dy("out"), false));
  if (g.needs("_add_to_output")) g.bind("_add_to_output", g.dy("out"));
}
REGISTER_USER_OP_GRAD("broadcast_matmul_grad_b").SetBackwardOpConfGenFn(gradientRule(gradBGradient));

// --- products with vectors -------------------------------------------------------------------------------------------

/// The outer product of two vectors.
std::string outer(GradientRule &g, const std::string &a, int64_t m, const std::string &b, int64_t n,
                  const std::string &suffix) {
  const std::string column = g.add("reshape", suffix + "_column").in("in", a).attr("shape", Shape{m, 1}).out();
  const std::string row = g.add("reshape", suffix + "_row").in("in", b).attr("shape", Shape{1, n}).out();
  return binary(g, "broadcast_mul", column, row, suffix);
}

void matrixVectorGradient(GradientRule &g) {
  const Shape &a = g.shape("a");
  if (g.needs("a")) g.bind("a", outer(g, g.dy("out"), a.At(0), g.x("b"), a.At(1), "a"));
  if (g.needs("b")) g.bind("b", g.add("vector_matrix_product", "b").in("a", g.dy("out")).in("b", g.x("a")).out());
}
REGISTER_USER_OP_GRAD("matrix_vector_product").SetBackwardOpConfGenFn(gradientRule(matrixVectorGradient));

void vectorMatrixGradient(GradientRule &g) {
  const Shape &b = g.shape("b");
  if (g.needs("a")) g.bind("a", g.add("matrix_vector_product", "a").in("a", g.x("b")).in("b", g.dy("out")).out());
  if (g.needs("b")) g.bind("b", outer(g, g.x("a"), b.At(0), g.dy("out"), b.At(1), "b"));
}
REGISTER_USER_OP_GRAD("vector_matrix_product").SetBackwardOpConfGenFn(gradientRule(vectorMatrixGradient));

void dotGradient(GradientRule &g) {
  if (g.needs("x")) g.bind("x", binary(g, "broadcast_mul", g.x("y"), g.dy("out"), "x"));
  if (g.needs("y")) g.bind("y", binary(g, "broadcast_mul", g.x("x"), g.dy("out"), "y"));
}
REGISTER_USER_OP_GRAD("dot").SetBackwardOpConfGenFn(gradientRule(dotGradient));

void biasAddGradient(GradientRule &g) {
  if (g.needs("a")) g.bind("a", g.dy("out"));
  if (!g.needs("b")) return;
  const int64_t rank = g.shape("a").NumAxes(), axis = g.attr<int32_t>("axis");
  std::vector<int32_t> axes;
  for (int64_t i = 0; i < rank; ++i)
    if (i != (axis < 0 ? axis + rank : axis)) axes.push_back(static_cast<int32_t>(i));
  g.bind("b", summed(g, g.dy("out"), axes, false, "b"));
}
REGISTER_USER_OP_GRAD("bias_add").SetBackwardOpConfGenFn(gradientRule(biasAddGradient));

} // namespace
} // namespace opc::ops
