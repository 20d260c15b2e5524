// sparse_softmax_cross_entropy and softmax_cross_entropy over a last axis of classes.
// SPDX-License-Identifier: Apache-2.0
#include "SimdExp.h"
#include "loss/LossRows.h"

#include "opc/RowsKernel.h"

#include <cmath>

namespace opc::ops::loss {
namespace {

using namespace opc::cpu;

/// prob like prediction, and a number for each row of it.
Maybe<void> setOutputs(InferContext *ctx) {
  const TensorDesc prediction = ctx->In("prediction");
  ctx->Out("prob") = prediction;
  ctx->Out("out") = TensorDesc(rowsOf(prediction.shape()), prediction.data_type());
  return Maybe<void>::Ok();
}
Maybe<void> inferSparse(InferContext *ctx) {
  JUST(checkLabels(ctx, "prediction", "label"));
  JUST(checkDepth(ctx, "prediction"));
  return setOutputs(ctx);
}
Maybe<void> inferDense(InferContext *ctx) {
  const TensorDesc &prediction = ctx->In("prediction"), &label = ctx->In("label");
  if (label != prediction || prediction.shape().NumAxes() == 0)
    return (Error::ShapeMismatch() << "label is " << label.toString() << ", prediction is " << prediction.toString())
        .help("label holds a probability for each class of prediction, in its dtype; for class numbers use "
              "sparse_softmax_cross_entropy");
  return setOutputs(ctx);
}

/// prob = softmax(x); gives the log of the sum of exponentials, so that -log prob[k] = lse - x[k].
template <class T> T softmaxRow(const T *x, T *prob, int64_t n) {
  T top = rowMax(x, n); // may miss a NaN, which the sum then has
  if (std::isinf(top) && top < 0) top = 0;
  T sum = 0;
  int64_t i = 0;
  if constexpr (std::is_same_v<T, float>) {
    const __m256 shift = _mm256_set1_ps(top);
    for (; i + 8 <= n; i += 8)
      _mm256_storeu_ps(prob + i, simdExpNonPositive(_mm256_sub_ps(_mm256_loadu_ps(x + i), shift)));
    // The tail goes the same way, so that equal logits have equal probabilities.
    if (i < n) {
      const __m256i tail = Simd<float>::mask(n - i);
      Simd<float>::store(prob + i, simdExpNonPositive(_mm256_sub_ps(Simd<float>::load(x + i, tail), shift)), tail);
    }
    sum = rowSum(prob, n, [](__m256 v) { return v; });
  } else {
    for (; i < n; ++i) sum += prob[i] = std::exp(x[i] - top);
  }
  const T inverse = 1 / sum;
  for (i = 0; i < n; ++i) prob[i] *= inverse;
  return std::log(sum) + top;
}

template <class T> class SparseKernel final : public RowFunctionKernel<T> {
protected:
  RowFunction<T> Rows(const KernelContext &ctx) const override {
    RowFunction<T> f;
    const ClassOfRow label(ctx, "label", "prediction");
    f.rows = label.rows;
    f.size = label.size;
    f.joins = label.hasAllClasses();
    f.inputs = {{"prediction", RowPart::kRow}, {"label", RowPart::kIndex}};
    f.outputs = {{"prob", RowPart::kRow}, {"out", RowPart::kOne}};
    f.check = [label](const RowArguments<T> &a) { label.check(a.in[1]); };
    f.run = [label, n = f.size](const RowArguments<T> &a) {
      for (int64_t r = 0; r < a.count; ++r) {
        const T *x = a.x(0) + r * n;
        a.out[1][r] = softmaxRow(x, a.out[0] + r * n, n) - x[label.of(a.in[1], r)];
      }
    };
    return f;
  }
};

template <class T> class DenseKernel final : public RowFunctionKernel<T> {
protected:
  RowFunction<T> Rows(const KernelContext &ctx) const override {
    const Shape &full = ctx.Desc("prediction").shape();
    const int64_t n = classesOf(full);
    RowFunction<T> f;
    f.rows = full.Count(0, full.NumAxes() - 1);
    f.size = n;
    f.inputs = {{"prediction", RowPart::kRow}, {"label", RowPart::kRow}};
    f.outputs = {{"prob", RowPart::kRow}, {"out", RowPart::kOne}};
    f.run = [n](const RowArguments<T> &a) {
      for (int64_t r = 0; r < a.count; ++r) {
        const T *row = a.x(0) + r * n, *target = a.x(1) + r * n;
        T sum = 0; // a class without probability adds nothing, even when its logit is minus infinity
        if (n > 0) {
          const T lse = softmaxRow(row, a.out[0] + r * n, n);
          for (int64_t i = 0; i < n; ++i) sum += target[i] == 0 ? T(0) : target[i] * (lse - row[i]);
        }
        a.out[1][r] = sum;
      }
    };
    return f;
  }
};

REGISTER_USER_OP("sparse_softmax_cross_entropy")
    .Input("prediction")
    .Input("label")
    .Output("prob")
    .Output("out")
    .Attr<int64_t>("depth", 0)
    .SetTensorDescInferFn(inferSparse)
    .Sharding("... ., ... -> ... ., ...")
    .Doc("prob = softmax of prediction over its last axis, out = -log prob[label]. label (i32 or i64) has the axes "
         "of prediction before the last; a label outside the classes is an error at run time. depth, when above 0, "
         "must be the number of classes.")
    .Cases({Case("rows").In("prediction", {5, 7}, -3, 3).In("label", kInt64, {5}, 0, 7).Attr<int64_t>("depth", 7),
            Case("image").In("prediction", {2, 3, 4}, -30, 30).In("label", kInt32, {2, 3}, 0, 4)})
    .Kernel<SparseKernel, types::Floating>("prediction");

REGISTER_USER_OP("softmax_cross_entropy")
    .Input("prediction")
    .Input("label")
    .Output("prob")
    .Output("out")
    .SetTensorDescInferFn(inferDense)
    .Sharding("... ., ... . -> ... ., ...")
    .Doc("prob = softmax of prediction over its last axis, out = -sum(label * log prob) over it.")
    .Cases({Case("rows").In("prediction", {5, 7}, -3, 3).In("label", {5, 7}, 0, 1)})
    .Kernel<DenseKernel, types::Floating>("prediction");

} // namespace
} // namespace opc::ops::loss
