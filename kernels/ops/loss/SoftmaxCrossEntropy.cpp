// sparse_softmax_cross_entropy and softmax_cross_entropy over a last axis of classes.
// SPDX-License-Identifier: Apache-2.0
#include "RowMath.h"
#include "SimdExp.h"
#include "loss/LossRows.h"

#include "opc/RowsKernel.h"

#include <algorithm>
#include <cmath>

namespace opc::ops::loss {
namespace {

using namespace opc::cpu;

/// prob like prediction, and a number for each row of it.
Maybe<void> setOutputs(InferContext *ctx) {
  const TensorDesc prediction = ctx->In("prediction");
  ctx->Out("prob") = prediction;
  return setOut(ctx, "out", TensorDesc(rowsOf(prediction.shape()), prediction.data_type()));
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

/// prob = softmax(x) for rows; logs[r] is the log of the sum of exponentials, so that -log prob[k] = logs[r] - x[k].
void softmaxAndLog(const float *x, float *prob, float *logs, int64_t n, int64_t rows) {
  rowMath().softmaxAndLog(x, prob, logs, n, rows);
}
void softmaxAndLog(const double *x, double *prob, double *logs, int64_t n, int64_t rows) {
  for (; rows > 0; --rows, x += n, prob += n) {
    double top = rowMax(x, n); // may miss a NaN, which the sum then has
    if (std::isinf(top) && top < 0) top = 0;
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += prob[i] = std::exp(x[i] - top);
    const double inverse = 1 / sum;
    for (int64_t i = 0; i < n; ++i) prob[i] *= inverse;
    *logs++ = std::log(sum) + top;
  }
}

/// The sum of target (log - x). A class without probability adds nothing, even when its logit is minus infinity.
float crossEntropy(const float *x, const float *target, float log, int64_t n) {
  return rowMath().crossEntropy(x, target, log, n);
}
double crossEntropy(const double *x, const double *target, double log, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += target[i] == 0 ? 0 : target[i] * (log - x[i]);
  return sum;
}

template <class T> class SparseKernel final : public RowFunctionKernel<T> {
protected:
  RowFunction<T> Rows(const KernelContext &ctx) const override {
    const ClassOfRow label(ctx, "label", "prediction");
    RowFunction<T> f = label.function<T>({{"prediction", RowPart::kRow}, {"label", RowPart::kIndex}},
                                         {{"prob", RowPart::kRow}, {"out", RowPart::kOne}});
    f.run = [label, n = f.size](const RowArguments<T> &a) {
      softmaxAndLog(a.x(0), a.out[0], a.out[1], n, a.count);
      for (int64_t r = 0; r < a.count; ++r) a.out[1][r] -= a.x(0)[r * n + label.of(a.in[1], r)];
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
      if (n == 0) return void(std::fill_n(a.out[1], a.count, T(0)));
      softmaxAndLog(a.x(0), a.out[0], a.out[1], n, a.count);
      for (int64_t r = 0; r < a.count; ++r) a.out[1][r] = crossEntropy(a.x(0) + r * n, a.x(1) + r * n, a.out[1][r], n);
    };
    return f;
  }
};

REGISTER_USER_OP("sparse_softmax_cross_entropy")
    .With(TensorArgs{{"prediction", "label"}, {"prob", "out"}})
    .Attr<int64_t>("depth", 0)
    .With(rules(inferSparse, "... ., ... -> ... ., ..."))
    .Doc("prob = softmax of prediction over its last axis, out = -log prob[label]. label (i32 or i64) has the axes "
         "of prediction before the last; a label outside the classes is an error at run time. depth, when above 0, "
         "must be the number of classes.")
    .Cases({Case("rows").In("prediction", {5, 7}, -3, 3).In("label", kInt64, {5}, 0, 7).Attr<int64_t>("depth", 7),
            Case("image").In("prediction", {2, 3, 4}, -30, 30).In("label", kInt32, {2, 3}, 0, 4)})
    .Kernel<SparseKernel, types::Floating>("prediction");

REGISTER_USER_OP("softmax_cross_entropy")
    .With(TensorArgs{{"prediction", "label"}, {"prob", "out"}})
    .With(rules(inferDense, "... ., ... . -> ... ., ..."))
    .Doc("prob = softmax of prediction over its last axis, out = -sum(label * log prob) over it.")
    .Cases({Case("rows").In("prediction", {5, 7}, -3, 3).In("label", {5, 7}, 0, 1)})
    .Kernel<DenseKernel, types::Floating>("prediction");

} // namespace
} // namespace opc::ops::loss
