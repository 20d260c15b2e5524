// softmax_grad and log_softmax_grad over the last axis, and the gradient rules of both softmaxes.
// SPDX-License-Identifier: Apache-2.0
#include "RowMath.h"
#include "SimdExp.h"
#include "support/GradientSteps.h"
#include "support/Operator.h"

#include "opc/RowsKernel.h"

#include <cmath>

namespace opc::ops {
namespace {

using namespace opc::cpu;

Maybe<void> infer(InferContext *ctx, const char *output) {
  const TensorDesc y = ctx->In(output);
  if (y.shape().NumAxes() == 0)
    return Error::ShapeMismatch().help("reshape it to one dimension")
           << output << " is a scalar (" << y.toString() << "): there is no last axis";
  if (!IsFloatingDataType(y.data_type()))
    return Error::TypeError().id("OPC0204") << output << " is " << y.toString() << ", expected a floating type";
  JUST(expectIn(ctx, "dy", y, std::string(", the type of ") + output));
  return setOut(ctx, "dx", y);
}

/// Definition of softmax_grad and log_softmax_grad; `output` is the forward op's, with values in [lo, hi).
std::function<void(OpRegistry &)> definition(const char *output, double lo, double hi) {
  const auto make = [=](const char *name, Shape s) { return Case(name).In(output, s, lo, hi).In("dy", s); };
  return [=](OpRegistry &op) {
    op.With(TensorArgs{{output, "dy"}, {"dx"}})
        .With(rules([output](InferContext *ctx) { return infer(ctx, output); }, "... ., ... . -> ... .", Linear({1})))
        .Cases({make("rows", {5, 13}), make("long", {2, 3, 100}), make("one", {4, 1}), make("no_rows", {0, 3})});
  };
}

template <bool kLog> void computeRows(const float *y, const float *dy, float *dx, int64_t n, int64_t rows) {
  (kLog ? rowMath().logSoftmaxGradient : rowMath().softmaxGradient)(y, dy, dx, n, rows);
}

/// The sum of the products of two rows.
double rowDot(const double *a, const double *b, int64_t n) {
  using S = Simd<double>;
  auto s0 = S::zero(), s1 = s0;
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    s0 = S::fma(S::load(a + i), S::load(b + i), s0);
    s1 = S::fma(S::load(a + i + 4), S::load(b + i + 4), s1);
  }
  double tail = 0;
  for (; i < n; ++i) tail += a[i] * b[i];
  return S::sum(S::add(s0, s1)) + tail;
}

template <bool kLog> void computeRows(const double *y, const double *dy, double *dx, int64_t n, int64_t rows) {
  for (; rows > 0; --rows, y += n, dy += n, dx += n) {
    if constexpr (kLog) {
      const double sum = rowSum(dy, n, [](Simd<double>::V v) { return v; });
      for (int64_t i = 0; i < n; ++i) dx[i] = dy[i] - std::exp(y[i]) * sum;
    } else {
      const double sum = rowDot(y, dy, n);
      for (int64_t i = 0; i < n; ++i) dx[i] = y[i] * (dy[i] - sum);
    }
  }
}

template <class T, bool kLog> class RowGradKernel : public RowFunctionKernel<T> {
protected:
  RowFunction<T> Rows(const KernelContext &ctx) const override {
    const Shape &shape = ctx.Desc("dy").shape();
    const int64_t n = shape.At(shape.NumAxes() - 1);
    RowFunction<T> f;
    f.rows = n == 0 ? 0 : shape.elem_cnt() / n;
    f.size = n;
    f.inputs = {{kLog ? "prob" : "y", RowPart::kRow}, {"dy", RowPart::kRow}};
    f.outputs = {{"dx", RowPart::kRow}};
    f.run = [n](const RowArguments<T> &a) { computeRows<kLog>(a.x(0), a.x(1), a.out[0], n, a.count); };
    return f;
  }
};
template <class T> using SoftmaxGradKernel = RowGradKernel<T, false>;
template <class T> using LogSoftmaxGradKernel = RowGradKernel<T, true>;

REGISTER_USER_OP("softmax_grad")
    .GradientOf("softmax")
    .With(definition("y", 0, 1))
    .Doc("The gradient of y = softmax over the last axis: dx = y * (dy - sum over j of y[..., j] * dy[..., j]).")
    .Kernel<SoftmaxGradKernel, types::Floating>("dy");

REGISTER_USER_OP("log_softmax_grad")
    .GradientOf("log_softmax")
    .With(definition("prob", -4, 0))
    .Doc("The gradient of prob = log_softmax over the last axis: dx = dy - exp(prob) * sum over j of dy[..., j].")
    .Kernel<LogSoftmaxGradKernel, types::Floating>("dy");

void softmaxGradient(GradientRule &g) {
  if (g.needs("in")) g.bind("in", g.add("softmax_grad", "in").in("y", g.y("out")).in("dy", g.dy("out")).out("dx"));
}
REGISTER_USER_OP_GRAD("softmax").SetBackwardOpConfGenFn(gradientRule(softmaxGradient));

void logSoftmaxGradient(GradientRule &g) {
  if (g.needs("in"))
    g.bind("in", g.add("log_softmax_grad", "in").in("prob", g.y("prob")).in("dy", g.dy("prob")).out("dx"));
}
REGISTER_USER_OP_GRAD("log_softmax").SetBackwardOpConfGenFn(gradientRule(logSoftmaxGradient));

int32_t lastAxis(GradientRule &g) { return static_cast<int32_t>(g.shape("dy").NumAxes() - 1); }

/// dx = y (dy - s), s = sum(y dy). With v = ddx and t = sum(v y): the gradient by dy is y (v - t), softmax_grad again;
/// by y it is v (dy - s) - dy t.
void softmaxGradGradient(GradientRule &g) {
  const std::string &v = g.dy("dx");
  if (g.needs("dy")) g.bind("dy", g.add("softmax_grad", "dy").in("y", g.x("y")).in("dy", v).out("dx"));
  if (!g.needs("y")) return;
  const std::string s = summed(g, g.multiply(g.x("y"), g.x("dy"), "s_product"), {lastAxis(g)}, true, "s");
  const std::string t = summed(g, g.multiply(g.x("y"), v, "t_product"), {lastAxis(g)}, true, "t");
  const std::string first = g.multiply(v, binary(g, "broadcast_sub", g.x("dy"), s, "y_centered"), "y_first");
  const std::string second = binary(g, "broadcast_mul", g.x("dy"), t, "y_second");
  g.bind("y", binary(g, "broadcast_sub", first, second, "y"));
}
REGISTER_USER_OP_GRAD("softmax_grad").SetBackwardOpConfGenFn(gradientRule(softmaxGradGradient));

/// dx = dy - exp(p) sum(dy). With v = ddx and u = v exp(p): the gradient by dy is v - sum(u), by p it is -u sum(dy).
void logSoftmaxGradGradient(GradientRule &g) {
  const std::string &v = g.dy("dx");
  const std::string u = g.multiply(v, unary(g, "exp", g.x("prob"), "softmax"), "u");
  if (g.needs("dy")) g.bind("dy", binary(g, "broadcast_sub", v, summed(g, u, {lastAxis(g)}, true, "u_sum"), "dy"));
  if (!g.needs("prob")) return;
  const std::string sum = summed(g, g.x("dy"), {lastAxis(g)}, true, "dy_sum");
  g.bind("prob", unary(g, "negative", binary(g, "broadcast_mul", u, sum, "prob_product"), "prob"));
}
REGISTER_USER_OP_GRAD("log_softmax_grad").SetBackwardOpConfGenFn(gradientRule(logSoftmaxGradGradient));

} // namespace
} // namespace opc::ops
