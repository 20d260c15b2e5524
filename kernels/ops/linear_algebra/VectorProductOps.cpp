// Definitions of matrix_vector_product, vector_matrix_product and dot.
// SPDX-License-Identifier: Apache-2.0
#include "MatrixProduct.h"

namespace opc::ops {
namespace {

using user_op::Case;
using user_op::InferContext;
using user_op::Linear;
using user_op::Sum;
using user_op::TensorDesc;

/// Ranks, element types and the inner dimension; the result's shape is left to the caller.
Maybe<void> checkProduct(const char *nameA, const TensorDesc &a, int64_t rankA, const char *nameB, const TensorDesc &b,
                         int64_t rankB, const char *help) {
  if (a.shape().NumAxes() != rankA || b.shape().NumAxes() != rankB)
    return Error::ShapeMismatch().help(help)
           << nameA << " must have rank " << rankA << " and " << nameB << " rank " << rankB << ": " << nameA << " is "
           << a.toString() << ", " << nameB << " is " << b.toString();
  if (a.data_type() != b.data_type()) return dtypeMismatch(nameA, a, nameB, b).help("cast one of them");
  const int64_t x = a.shape().At(rankA - 1), y = b.shape().At(0);
  if (x != y)
    return Error::ShapeMismatch() << "inner dimensions differ (" << x << " vs " << y << "): " << nameA << " is "
                                  << a.toString() << ", " << nameB << " is " << b.toString();
  return Maybe<void>::Ok();
}

void setOut(InferContext *ctx, Shape shape, DataType type) {
  ctx->SetOutputShape("out", 0, shape);
  ctx->SetOutputDType("out", 0, type);
}

REGISTER_USER_OP("matrix_vector_product")
    .Input("a")
    .Input("b")
    .Output("out")
    .SetTensorDescInferFn([](InferContext *ctx) -> Maybe<void> {
      const TensorDesc a = ctx->InputTensorDesc("a", 0), b = ctx->InputTensorDesc("b", 0);
      JUST(checkProduct("a", a, 2, "b", b, 1, "matmul multiplies two matrices, dot two vectors"));
      setOut(ctx, Shape{a.shape().At(0)}, a.data_type());
      return Maybe<void>::Ok();
    })
    .Sharding("m k, k -> m", Sum("k"), Linear({0}), Linear({1}))
    .Doc("A matrix times a vector: out[m] = sum over k of a[m,k] * b[k].")
    .Cases({Case("plain").In("a", {5, 37}, -3, 3).In("b", {37}, -3, 3), Case("one").In("a", {1, 3}).In("b", {3}),
            Case("no_terms").In("a", {3, 0}).In("b", {0})});

REGISTER_USER_OP("vector_matrix_product")
    .Input("a")
    .Input("b")
    .Output("out")
    .SetTensorDescInferFn([](InferContext *ctx) -> Maybe<void> {
      const TensorDesc a = ctx->InputTensorDesc("a", 0), b = ctx->InputTensorDesc("b", 0);
      JUST(checkProduct("a", a, 1, "b", b, 2, "matmul multiplies two matrices, dot two vectors"));
      setOut(ctx, Shape{b.shape().At(1)}, a.data_type());
      return Maybe<void>::Ok();
    })
    .Sharding("k, k n -> n", Sum("k"), Linear({0}), Linear({1}))
    .Doc("A vector times a matrix: out[n] = sum over k of a[k] * b[k,n].")
    .Cases({Case("plain").In("a", {37}, -3, 3).In("b", {37, 21}, -3, 3), Case("one").In("a", {3}).In("b", {3, 1}),
            Case("no_terms").In("a", {0}).In("b", {0, 3})});

REGISTER_USER_OP("dot")
    .Input("x")
    .Input("y")
    .Output("out")
    .SetTensorDescInferFn([](InferContext *ctx) -> Maybe<void> {
      const TensorDesc x = ctx->InputTensorDesc("x", 0), y = ctx->InputTensorDesc("y", 0);
      JUST(checkProduct("x", x, 1, "y", y, 1, "matmul multiplies matrices"));
      setOut(ctx, Shape{}, x.data_type());
      return Maybe<void>::Ok();
    })
    .Sharding("k, k -> ", Sum("k"), Linear({0}), Linear({1}))
    .Doc("The dot product of two vectors: out = sum over k of x[k] * y[k], a scalar.")
    .Cases({Case("plain").In("x", {37}, -3, 3).In("y", {37}, -3, 3), Case("empty").In("x", {0}).In("y", {0})});

} // namespace
} // namespace opc::ops
