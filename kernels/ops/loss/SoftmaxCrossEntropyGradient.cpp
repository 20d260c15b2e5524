// sparse_softmax_cross_entropy_grad, softmax_cross_entropy_grad, and the gradient rules of all four.
// SPDX-License-Identifier: Apache-2.0
#include "RowMath.h"
#include "SimdExp.h"
#include "loss/LossRows.h"
#include "support/GradientSteps.h"

#include "opc/RowsKernel.h"

namespace opc::ops::loss {
namespace {

using namespace opc::cpu;

Maybe<void> inferSparse(InferContext *ctx) {
  JUST(checkRows(ctx, "prob", "dy"));
  JUST(checkLabels(ctx, "prob", "label"));
  JUST(checkDepth(ctx, "prob"));
  const TensorDesc prob = ctx->In("prob");
  return setOut(ctx, "prediction_diff", prob);
}
Maybe<void> inferDense(InferContext *ctx) {
  JUST(checkRows(ctx, "prob", "dy"));
  const TensorDesc prob = ctx->In("prob");
  const Shape &label = ctx->In("label").shape();
  if (label != prob.shape())
    return Error::ShapeMismatch() << "label is " << label.ToString() << ", prob is " << prob.shape().ToString();
  return setOut(ctx, "prediction_diff", prob);
}

/// dx[r, i] = dy[r] prob[r, i].
void scaleRows(const float *prob, const float *dy, float *dx, int64_t n, int64_t rows) {
  rowMath().scale(prob, dy, dx, n, rows);
}
void scaleRows(const double *prob, const double *dy, double *dx, int64_t n, int64_t rows) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < n; ++i) dx[r * n + i] = dy[r] * prob[r * n + i];
}

/// dx = dy (prob S - label), S the sum of the labels of the row.
void denseGradient(const float *prob, const float *label, float *dx, int64_t n, float dy) {
  rowMath().crossEntropyGradient(prob, label, dx, n, dy, rowMath().total(label, n));
}
void denseGradient(const double *prob, const double *label, double *dx, int64_t n, double dy) {
  const double total = rowSum(label, n, [](Simd<double>::V v) { return v; });
  for (int64_t i = 0; i < n; ++i) dx[i] = dy * (prob[i] * total - label[i]);
}

template <class T> class SparseGradKernel final : public RowFunctionKernel<T> {
protected:
  RowFunction<T> Rows(const KernelContext &ctx) const override {
    const ClassOfRow label(ctx, "label", "prob");
    RowFunction<T> f = label.function<T>({{"prob", RowPart::kRow}, {"label", RowPart::kIndex}, {"dy", RowPart::kOne}},
                                         {{"prediction_diff", RowPart::kRow}});
    f.run = [label, n = f.size](const RowArguments<T> &a) {
      scaleRows(a.x(0), a.x(2), a.out[0], n, a.count);
      for (int64_t r = 0; r < a.count; ++r)
        if (const int64_t k = label.of(a.in[1], r); k >= 0) a.out[0][r * n + k] = a.x(2)[r] * (a.x(0)[r * n + k] - 1);
    };
    return f;
  }
};

template <class T> class DenseGradKernel final : public RowFunctionKernel<T> {
protected:
  RowFunction<T> Rows(const KernelContext &ctx) const override {
    const Shape &full = ctx.Desc("prob").shape();
    const int64_t n = classesOf(full);
    RowFunction<T> f;
    f.rows = full.Count(0, full.NumAxes() - 1);
    f.size = n;
    f.inputs = {{"prob", RowPart::kRow}, {"label", RowPart::kRow}, {"dy", RowPart::kOne}};
    f.outputs = {{"prediction_diff", RowPart::kRow}};
    f.run = [n](const RowArguments<T> &a) {
      for (int64_t r = 0; r < a.count; ++r)
        denseGradient(a.x(0) + r * n, a.x(1) + r * n, a.out[0] + r * n, n, a.x(2)[r]);
    };
    return f;
  }
};

REGISTER_USER_OP("sparse_softmax_cross_entropy_grad")
    .GradientOf("sparse_softmax_cross_entropy")
    .With(TensorArgs{{"label", "dy", "prob"}, {"prediction_diff"}})
    .Attr<int64_t>("depth", 0)
    .With(rules(inferSparse, "..., ..., ... classes -> ... classes", Linear({1})))
    .Doc("prediction_diff = dy * (prob - one_hot(label)): the gradient of sparse_softmax_cross_entropy.")
    .Cases(
        {Case("rows").In("label", kInt64, {5}, 0, 7).In("dy", {5}).In("prob", {5, 7}, 0, 1).Attr<int64_t>("depth", 7)})
    .Kernel<SparseGradKernel, types::Floating>("prob");

REGISTER_USER_OP("softmax_cross_entropy_grad")
    .GradientOf("softmax_cross_entropy")
    .With(TensorArgs{{"label", "dy", "prob"}, {"prediction_diff"}})
    .With(rules(inferDense, "... ., ..., ... . -> ... .", Linear({1})))
    .Doc("prediction_diff = dy * (prob * sum(label) - label): the gradient of softmax_cross_entropy; sum(label) is 1 "
         "for labels that are probabilities.")
    .Cases({Case("rows").In("label", {5, 7}, 0, 1).In("dy", {5}).In("prob", {5, 7}, 0, 1)})
    .Kernel<DenseGradKernel, types::Floating>("prob");

Shape withOne(const Shape &rows) {
  DimVector d = rows.dim_vec();
  d.push_back(1);
  return Shape(d);
}
/// A tensor of rows with an axis of one class.
std::string column(GradientRule &g, const std::string &a, const Shape &rows, const std::string &suffix) {
  return reshaped(g, a, rows, withOne(rows), suffix);
}
std::string rowSums(GradientRule &g, const std::string &a, const Shape &rows, bool keep, const std::string &suffix) {
  return summed(g, a, {static_cast<int32_t>(rows.NumAxes())}, keep, suffix);
}

/// d prediction by way of out, for which there is an op, and of prob, a softmax of its own.
void bindPrediction(GradientRule &g, const char *op, std::initializer_list<const char *> attributes) {
  if (!g.needs("prediction")) return;
  std::string all;
  if (g.hasDy("out")) {
    auto grad = g.add(op, "prediction");
    grad.in("label", g.x("label")).in("dy", g.dy("out")).in("prob", g.y("prob"));
    all = grad.same(attributes).out("prediction_diff");
  }
  if (g.hasDy("prob")) {
    const std::string own = g.add("softmax_grad", "prob").in("y", g.y("prob")).in("dy", g.dy("prob")).out("dx");
    all = all.empty() ? own : g.add("add_n", "prediction_sum").in("in", all).in("in", own).out();
  }
  if (!all.empty()) g.bind("prediction", all);
}

void sparseSoftmaxGradient(GradientRule &g) { bindPrediction(g, "sparse_softmax_cross_entropy_grad", {"depth"}); }
REGISTER_USER_OP_GRAD("sparse_softmax_cross_entropy").SetBackwardOpConfGenFn(gradientRule(sparseSoftmaxGradient));

/// d label = -dy log(prob).
void softmaxCrossEntropyGradient(GradientRule &g) {
  bindPrediction(g, "softmax_cross_entropy_grad", {});
  if (!g.needs("label") || !g.hasDy("out")) return;
  const std::string logs = g.add("log_softmax", "label_logs").in("in", g.x("prediction")).out("prob");
  const std::string minus = unary(g, "negative", column(g, g.dy("out"), g.shape("out"), "dy_column"), "label_minus");
  g.bind("label", binary(g, "broadcast_mul", logs, minus, "label"));
}
REGISTER_USER_OP_GRAD("softmax_cross_entropy").SetBackwardOpConfGenFn(gradientRule(softmaxCrossEntropyGradient));

/// dx = dy (prob - onehot). With v = ddx: the gradient by dy is sum(v prob) - v[label], by prob v dy.
void sparseSoftmaxGradGradient(GradientRule &g) {
  const std::string v = g.dy("prediction_diff");
  const Shape &rows = g.shape("dy");
  if (g.needs("prob")) g.bind("prob", binary(g, "broadcast_mul", v, column(g, g.x("dy"), rows, "dy_column"), "prob"));
  if (!g.needs("dy")) return;
  const std::string expected = rowSums(g, g.multiply(v, g.x("prob"), "dy_product"), rows, true, "dy_expected");
  const std::string at = column(g, g.x("label"), rows, "label_column");
  const std::string there = g.add("dim_gather", "dy_there")
                                .in("input", v)
                                .in("index", at)
                                .attr("dim", static_cast<int32_t>(rows.NumAxes()))
                                .out("output");
  g.bind("dy", reshaped(g, binary(g, "broadcast_sub", expected, there, "dy_kept"), withOne(rows), rows, "dy"));
}
REGISTER_USER_OP_GRAD("sparse_softmax_cross_entropy_grad")
    .SetBackwardOpConfGenFn(gradientRule(sparseSoftmaxGradGradient));

/// dx = dy (prob S - label), S = sum(label). With v = ddx: by dy sum(v (prob S - label)), by prob v dy S, by label
/// dy (sum(v prob) - v).
void softmaxCrossEntropyGradGradient(GradientRule &g) {
  const std::string v = g.dy("prediction_diff");
  const Shape &rows = g.shape("dy");
  const std::string dy = column(g, g.x("dy"), rows, "dy_column");
  const std::string total = rowSums(g, g.x("label"), rows, true, "total");
  if (g.needs("prob"))
    g.bind("prob", binary(g, "broadcast_mul", v, binary(g, "broadcast_mul", dy, total, "prob_factor"), "prob"));
  if (g.needs("dy")) {
    const std::string scaled = binary(g, "broadcast_mul", g.x("prob"), total, "dy_scaled");
    const std::string slope = binary(g, "broadcast_sub", scaled, g.x("label"), "dy_slope");
    g.bind("dy", rowSums(g, g.multiply(v, slope, "dy_product"), rows, false, "dy"));
  }
  if (g.needs("label")) {
    const std::string expected = rowSums(g, g.multiply(v, g.x("prob"), "label_product"), rows, true, "label_expected");
    const std::string slope = binary(g, "broadcast_sub", expected, v, "label_slope");
    g.bind("label", binary(g, "broadcast_mul", slope, dy, "label"));
  }
}
REGISTER_USER_OP_GRAD("softmax_cross_entropy_grad")
    .SetBackwardOpConfGenFn(gradientRule(softmaxCrossEntropyGradGradient));

} // namespace
} // namespace opc::ops::loss
