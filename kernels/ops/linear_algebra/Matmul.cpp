// matmul, batch_matmul and broadcast_matmul: one prepared Gemm.
// SPDX-License-Identifier: Apache-2.0
#include "MatrixProduct.h"

namespace opc::ops {
namespace {

std::function<void(OpRegistry &)> definition(BatchRule rule) {
  return [rule](OpRegistry &op) {
    op.With(TensorArgs{{"a", "b"}, {"out"}})
        .OptionalInput("_add_to_output")
        .Attr<bool>("transpose_a", false)
        .Attr<bool>("transpose_b", false)
        .Attr<double>("alpha", 1.0)
        .With(rules([rule](InferContext *ctx) { return inferMatrixProduct(ctx, rule); }, matrixProductSharding))
        .SetComputeComplexityFn([](InferContext *ctx) {
          const Shape &a = ctx->In("a").shape();
          return operations(ctx, "out", a.At(a.NumAxes() - (isTransposed(a, ctx->Attr<bool>("transpose_a")) ? 2 : 1)));
        });
  };
}

/// Offsets of the matrices of each product of a broadcast batch.
std::vector<int64_t> offsetsOf(const Shape &operand, const Shape &out) {
  const int64_t rank = out.NumAxes() - 2, own = operand.NumAxes() - 2;
  const int64_t matrix = operand.At(own) * operand.At(own + 1);
  std::vector<int64_t> offsets(1, 0);
  for (int64_t i = 0; i < rank; ++i) {
    const int64_t axis = i - (rank - own);
    const int64_t step = axis >= 0 && operand.At(axis) != 1 ? operand.Count(axis + 1, own) * matrix : 0;
    std::vector<int64_t> next;
    next.reserve(offsets.size() * static_cast<size_t>(out.At(i)));
    for (int64_t o : offsets)
      for (int64_t j = 0; j < out.At(i); ++j) next.push_back(o + j * step);
    offsets = std::move(next);
  }
  return offsets;
}

template <class T> class MatmulKernel final : public StagedKernel<T> {
  std::unique_ptr<BoundKernel> BindStaged(KernelBindContext *ctx, StagedTensors<T> &staged) const override {
    const Shape &givenA = ctx->In("a").shape(), &givenB = ctx->In("b").shape();
    const Shape a = matricesOf(givenA, true), b = matricesOf(givenB, false);
    const Shape out = productMatrices(givenA, givenB, ctx->Out("out").shape());
    cpu::GemmShape shape;
    shape.transA = isTransposed(givenA, ctx->Attr<bool>("transpose_a"));
    shape.transB = isTransposed(givenB, ctx->Attr<bool>("transpose_b"));
    shape.alpha = ctx->Attr<double>("alpha");
    shape.m = out.At(out.NumAxes() - 2);
    shape.n = out.At(out.NumAxes() - 1);
    shape.k = a.At(a.NumAxes() - (shape.transA ? 2 : 1));
    cpu::GemmBatch batch;
    const int64_t aMatrices = a.Count(0, a.NumAxes() - 2), outMatrices = out.Count(0, out.NumAxes() - 2);
    if (b.Count(0, b.NumAxes() - 2) == 1 && aMatrices == outMatrices && !shape.transA) {
      shape.m *= outMatrices; // one tall product
    } else {
      batch.a = offsetsOf(a, out);
      batch.b = offsetsOf(b, out);
      batch.c.clear();
      for (int64_t i = 0; i < outMatrices; ++i) batch.c.push_back(i * shape.m * shape.n);
    }
    return bindProduct(ctx, staged, shape, std::move(batch));
  }
};

REGISTER_USER_OP("matmul")
    .With(definition(BatchRule::kAny))
    .Doc("The product of two matrices: out[m,n] = alpha * sum over k of a[m,k] * b[k,n], plus _add_to_output[m,n] "
         "when it is given. transpose_a: a is [k,m]; transpose_b: b is [n,k]. f16 and bf16 are summed in f32. As in "
         "numpy and PyTorch, leading dimensions are stacks of matrices that broadcast, and a vector is a row of a or a "
         "column of b, which the output does not have.")
    .Cases({Case("plain").In("a", {3, 5}).In("b", {5, 4}),
            Case("transposed")
                .In("a", {7, 33}, -3, 3)
                .In("b", {18, 7}, -3, 3)
                .Attr("transpose_a", true)
                .Attr("transpose_b", true),
            Case("row").In("a", {1, 40}).In("b", {40, 70}),
            Case("added")
                .In("a", {2, 3}, -3, 3)
                .In("b", {3, 2}, -3, 3)
                .In("_add_to_output", {2, 2}, -3, 3)
                .Attr("alpha", 2.0),
            Case("no_terms").In("a", {2, 0}).In("b", {0, 3}),
            Case("stack").In("a", {2, 3, 4}, -3, 3).In("b", {4, 5}, -3, 3),
            Case("stacks").In("a", {2, 1, 3, 4}, -3, 3).In("b", {3, 6, 4}, -3, 3).Attr("transpose_b", true),
            Case("row_vector").In("a", {5}, -3, 3).In("b", {5, 4}, -3, 3),
            Case("column_vector").In("a", {3, 5}, -3, 3).In("b", {5}, -3, 3),
            Case("dot").In("a", {7}, -3, 3).In("b", {7}, -3, 3),
            Case("vector_and_stack").In("a", {4}, -3, 3).In("b", {2, 4, 3}, -3, 3),
            Case("stack_and_vector").In("a", {2, 2, 3, 4}, -3, 3).In("b", {4}, -3, 3)})
    .Kernel<MatmulKernel, ProductTypes>("out");

REGISTER_USER_OP("batch_matmul")
    .With(definition(BatchRule::kEqual))
    .Doc("Products of two stacks of matrices with equal leading dimensions: out[...,m,n] = alpha * sum over "
         "k of a[...,m,k] * b[...,k,n], plus _add_to_output when it is given.")
    .Cases({Case("plain").In("a", {2, 3, 4, 5}, -3, 3).In("b", {2, 3, 5, 2}, -3, 3),
            Case("transposed").In("a", {3, 9, 7}, -3, 3).In("b", {3, 20, 7}, -3, 3).Attr("transpose_b", true),
            Case("no_batch").In("a", {0, 2, 3}).In("b", {0, 3, 2})})
    .Kernel<MatmulKernel, ProductTypes>("out");

REGISTER_USER_OP("broadcast_matmul")
    .With(definition(BatchRule::kBroadcast))
    .Doc("Products of two stacks of matrices, numpy's matmul: the leading dimensions broadcast, missing "
         "ones count as 1. out[...,m,n] = alpha * sum over k of a[...,m,k] * b[...,k,n], plus "
         "_add_to_output when it is given.")
    .Cases({Case("shared_b").In("a", {2, 3, 4, 5}, -3, 3).In("b", {5, 6}, -3, 3),
            Case("shared_a").In("a", {4, 5}, -3, 3).In("b", {3, 5, 2}, -3, 3),
            Case("both").In("a", {2, 1, 3, 4}, -3, 3).In("b", {3, 6, 4}, -3, 3).Attr("transpose_b", true),
            Case("matrices").In("a", {5, 3}, -3, 3).In("b", {5, 4}, -3, 3).Attr("transpose_a", true)})
    .Kernel<MatmulKernel, ProductTypes>("out");

} // namespace
} // namespace opc::ops
