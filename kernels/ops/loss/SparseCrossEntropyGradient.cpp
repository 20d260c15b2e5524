// sparse_cross_entropy_grad and nll_grad, which are zero but at the label, and the gradient rules of all four.
// SPDX-License-Identifier: Apache-2.0
#include "loss/LossRows.h"
#include "support/GradientSteps.h"

#include "opc/RowsKernel.h"

#include <algorithm>

namespace opc::ops::loss {
namespace {

Maybe<void> infer(InferContext *ctx, const char *classes, const char *label, const char *dy, const char *out) {
  JUST(checkIndexType(ctx, label));
  const TensorDesc x = ctx->In(classes);
  if (x.shape().NumAxes() == 0) return Error::ShapeMismatch() << classes << " is a scalar: it has no axis of classes";
  const Shape rows = rowsOf(x.shape());
  if (ctx->In(label).shape() != rows || ctx->In(dy) != TensorDesc(rows, x.data_type()))
    return Error::ShapeMismatch() << label << " is " << ctx->In(label).shape().ToString() << ", " << dy << " is "
                                  << ctx->In(dy).toString() << ", expected the shape " << rows.ToString()
                                  << ", that of " << classes << ", " << x.toString() << ", without its last axis";
  JUST(checkWeight(ctx, classes));
  return setOut(ctx, out, x);
}

/// Zeros, and `value(arguments, row, class)` at the label of each row; the labels are argument `at`.
template <class T, class Value>
RowFunction<T> fillRows(const ClassOfRow &label, size_t at, const char *out,
                        std::vector<typename RowFunction<T>::Argument> in, Value value) {
  RowFunction<T> f = label.function<T>(std::move(in), {{out, RowPart::kRow}}, at);
  f.run = [label, at, value, n = f.size](const RowArguments<T> &a) {
    std::fill_n(a.out[0], a.count * n, T(0));
    for (int64_t r = 0; r < a.count; ++r)
      if (const int64_t k = label.of(a.in[at], r); k >= 0) a.out[0][r * n + k] = value(a, r, k);
  };
  return f;
}

template <class T> class SparseGradKernel final : public RowFunctionKernel<T> {
protected:
  RowFunction<T> Rows(const KernelContext &ctx) const override {
    const ClassOfRow label(ctx, "label", "prediction");
    return fillRows<T>(
        label, 1, "prediction_diff", {{"prediction", RowPart::kRow}, {"label", RowPart::kIndex}, {"dy", RowPart::kOne}},
        [n = label.size](const RowArguments<T> &a, int64_t r, int64_t k) { return -a.x(2)[r] / a.x(0)[r * n + k]; });
  }
};

template <class T> class NllGradKernel final : public RowFunctionKernel<T> {
protected:
  RowFunction<T> Rows(const KernelContext &ctx) const override {
    const ClassOfRow target(ctx, "target", "input", ctx.Attr<int64_t>("ignore_index"));
    return fillRows<T>(
        target, 1, "in_grad",
        {{"out_grad", RowPart::kOne},
         {"target", RowPart::kIndex},
         {"input", RowPart::kRow},
         {"weight", RowPart::kWhole}},
        [](const RowArguments<T> &a, int64_t r, int64_t k) { return a.x(3) ? -a.x(0)[r] * a.x(3)[k] : -a.x(0)[r]; });
  }
};

REGISTER_USER_OP("sparse_cross_entropy_grad")
    .GradientOf("sparse_cross_entropy")
    .With(TensorArgs{{"prediction", "label", "dy"}, {"prediction_diff"}})
    .Attr<int64_t>("depth", 0)
    .With(rules([](InferContext *ctx) { return infer(ctx, "prediction", "label", "dy", "prediction_diff"); },
                "... classes, ..., ... -> ... classes", Linear({2})))
    .Doc("The gradient of sparse_cross_entropy: prediction_diff = -dy / prediction at the label, 0 elsewhere.")
    .Cases({Case("rows")
                .In("prediction", {5, 7}, 0.1, 1)
                .In("label", kInt64, {5}, 0, 7)
                .In("dy", {5})
                .Attr<int64_t>("depth", 7)})
    .Kernel<SparseGradKernel, types::Floating>("prediction");

REGISTER_USER_OP("nll_grad")
    .GradientOf("nll")
    .With(TensorArgs{{"out_grad", "input", "target"}, {"in_grad"}})
    .OptionalInput("weight")
    .Attr<int64_t>("ignore_index", -100)
    .With(rules([](InferContext *ctx) { return infer(ctx, "input", "target", "out_grad", "in_grad"); },
                "..., ... classes, ..., classes -> ... classes", Linear({0})))
    .Doc("The gradient of nll: in_grad = -out_grad * weight[target] at the target, 0 elsewhere and where the target "
         "is ignore_index. The values of input are not read.")
    .Cases({Case("plain").In("out_grad", {5}).In("input", {5, 4}).In("target", kInt64, {5}, 0, 4),
            Case("weighted")
                .In("out_grad", {2, 3})
                .In("input", {2, 3, 4})
                .In("target", kInt32, {2, 3}, 0, 4)
                .In("weight", {4}, 0.5, 2)
                .Attr<int64_t>("ignore_index", 2)})
    .Kernel<NllGradKernel, types::Floating>("out_grad");

std::string sparseGrad(GradientRule &g, const std::string &dy, const char *suffix) {
  return g.add("sparse_cross_entropy_grad", suffix)
      .in("prediction", g.x("prediction"))
      .in("label", g.x("label"))
      .in("dy", dy)
      .same({"depth"})
      .out("prediction_diff");
}
void sparseCrossEntropyGradient(GradientRule &g) {
  if (g.needs("prediction")) g.bind("prediction", sparseGrad(g, g.dy("out"), "prediction"));
}
REGISTER_USER_OP_GRAD("sparse_cross_entropy").SetBackwardOpConfGenFn(gradientRule(sparseCrossEntropyGradient));

/// dx = dy h with h = -onehot / prediction. With v = ddx: by dy sum(v h), by prediction v dy h^2.
void sparseCrossEntropyGradGradient(GradientRule &g) {
  const std::string v = g.dy("prediction_diff");
  const std::string ones = g.add("ones_like", "ones").in("like", g.x("dy")).out();
  const std::string vh = g.multiply(v, sparseGrad(g, ones, "slope"), "v_slope");
  if (g.needs("dy")) g.bind("dy", summed(g, vh, {static_cast<int32_t>(g.shape("dy").NumAxes())}, false, "dy"));
  if (g.needs("prediction")) g.bind("prediction", g.multiply(vh, g.y("prediction_diff"), "prediction"));
}
REGISTER_USER_OP_GRAD("sparse_cross_entropy_grad").SetBackwardOpConfGenFn(gradientRule(sparseCrossEntropyGradGradient));

/// The weight of the classes is a constant of the loss (the definition says so), and out_weight depends on nothing
/// else.
void nllGradient(GradientRule &g) {
  if (!g.needs("input") || !g.hasDy("output")) return;
  auto grad = g.add("nll_grad", "input");
  grad.in("out_grad", g.dy("output")).in("input", g.x("input")).in("target", g.x("target")).same({"ignore_index"});
  if (g.hasInput("weight")) grad.in("weight", g.x("weight"));
  g.bind("input", grad.out("in_grad"));
}
REGISTER_USER_OP_GRAD("nll").SetBackwardOpConfGenFn(gradientRule(nllGradient));

/// Linear in out_grad: nll of the upstream gradient.
void nllGradGradient(GradientRule &g) {
  if (!g.needs("out_grad")) return;
  auto nll = g.add("nll", "out_grad");
  nll.in("input", g.dy("in_grad")).in("target", g.x("target")).same({"ignore_index"});
  if (g.hasInput("weight")) nll.in("weight", g.x("weight"));
  g.bind("out_grad", nll.out("output"));
}
REGISTER_USER_OP_GRAD("nll_grad").SetBackwardOpConfGenFn(gradientRule(nllGradGradient));

} // namespace
} // namespace opc::ops::loss
