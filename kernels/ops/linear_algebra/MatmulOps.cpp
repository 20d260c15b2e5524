// Definitions of matmul, batch_matmul and broadcast_matmul.
// SPDX-License-Identifier: Apache-2.0
#include "MatrixProduct.h"

namespace opc::ops {
namespace {

using user_op::Case;
using user_op::InferContext;

user_op::OpRegistry matrixProduct(const char *name, int line, BatchRule rule, const char *doc) {
  user_op::OpRegistry op(name, __FILE__, line);
  op.Input("a")
      .Input("b")
      .OptionalInput("_add_to_output")
      .Output("out")
      .Attr<bool>("transpose_a", false)
      .Attr<bool>("transpose_b", false)
      .Attr<double>("alpha", 1.0)
      .SetTensorDescInferFn([rule](InferContext *ctx) { return inferMatrixProduct(ctx, rule); })
      .SetGetSbpFn(matrixProductSbp)
      .SetComputeComplexityFn([](InferContext *ctx) -> Maybe<double> {
        const Shape &a = ctx->InputShape("a", 0), &out = ctx->OutputShape("out", 0);
        const int64_t k = a.At(a.NumAxes() - (ctx->Attr<bool>("transpose_a") ? 2 : 1));
        return 2.0 * static_cast<double>(out.elem_cnt()) * static_cast<double>(k);
      })
      .Doc(doc);
  return op;
}

[[maybe_unused]] const user_op::UserOpRegisterTrigger matmul =
    matrixProduct(
        "matmul", __LINE__, BatchRule::kNone,
        "The product of two matrices: out[m,n] = alpha * sum over k of a[m,k] * b[k,n], plus _add_to_output[m,n] "
        "when it is given. transpose_a: a is [k,m]; transpose_b: b is [n,k]. f16 and bf16 are summed in f32.")
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
                Case("no_terms").In("a", {2, 0}).In("b", {0, 3})});

[[maybe_unused]] const user_op::UserOpRegisterTrigger batchMatmul =
    matrixProduct("batch_matmul", __LINE__, BatchRule::kEqual,
                  "Products of two stacks of matrices with equal leading dimensions: out[...,m,n] = alpha * sum over "
                  "k of a[...,m,k] * b[...,k,n], plus _add_to_output when it is given.")
        .Cases({Case("plain").In("a", {2, 3, 4, 5}, -3, 3).In("b", {2, 3, 5, 2}, -3, 3),
                Case("transposed").In("a", {3, 9, 7}, -3, 3).In("b", {3, 20, 7}, -3, 3).Attr("transpose_b", true),
                Case("no_batch").In("a", {0, 2, 3}).In("b", {0, 3, 2})});

[[maybe_unused]] const user_op::UserOpRegisterTrigger broadcastMatmul =
    matrixProduct("broadcast_matmul", __LINE__, BatchRule::kBroadcast,
                  "Products of two stacks of matrices, numpy's matmul: the leading dimensions broadcast, missing "
                  "ones count as 1. out[...,m,n] = alpha * sum over k of a[...,m,k] * b[...,k,n], plus "
                  "_add_to_output when it is given.")
        .Cases({Case("shared_b").In("a", {2, 3, 4, 5}, -3, 3).In("b", {5, 6}, -3, 3),
                Case("shared_a").In("a", {4, 5}, -3, 3).In("b", {3, 5, 2}, -3, 3),
                Case("both").In("a", {2, 1, 3, 4}, -3, 3).In("b", {3, 6, 4}, -3, 3).Attr("transpose_b", true),
                Case("matrices").In("a", {5, 3}, -3, 3).In("b", {5, 4}, -3, 3).Attr("transpose_a", true)});

} // namespace
} // namespace opc::ops
