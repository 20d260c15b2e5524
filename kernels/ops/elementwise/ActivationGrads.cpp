// Gradients of the usual activations under OneFlow's names, compiled instead of interpreted, and the rules that use
// them; rules of functions whose derivative their own result gives.
// SPDX-License-Identifier: Apache-2.0
#include "elementwise/ElementwiseOps.h"
#include "support/GradientSteps.h"

namespace opc::scalar {

OPC_SCALAR(ReluGrad, y, dy) { return select(y > 0, dy, 0); }
OPC_SCALAR(LeakyReluGrad, x, dy, alpha) { return select(x > 0, dy, alpha * dy); }
OPC_SCALAR(SigmoidGrad, y, dy) { return dy * y * (1 - y); }
OPC_SCALAR(TanhGrad, x, dy) {
  auto y = tanh(x);
  return dy * (1 - y * y);
}
// The normal distribution's function and density.
OPC_SCALAR(GeluGrad, x, dy) {
  return dy * (0.5 * (1 + erf(x * 0.7071067811865476)) + x * 0.3989422804014327 * exp(-0.5 * x * x));
}
OPC_SCALAR(FastGeluGrad, x, dy) {
  auto t = tanh(0.7978845608028654 * (x + 0.044715 * x * x * x));
  return dy * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * (0.7978845608028654 + 0.1070322244089233 * x * x));
}
OPC_SCALAR(SiluGrad, x, dy) {
  auto s = sigmoid(x);
  return dy * s * (1 + x * (1 - s));
}
OPC_SCALAR(QuickGeluGrad, x, dy) {
  auto s = sigmoid(1.702 * x);
  return dy * s * (1 + 1.702 * x * (1 - s));
}

#define OPC_GRAD_BY_Y(name) REGISTER_USER_OP(name).Input("y").Input("dy").Output("dx")
#define OPC_GRAD_BY_X(name) REGISTER_USER_OP(name).Input("x").ArgAlias("in", "x").Input("dy").Output("dx")
static ElementwiseOptions sameShape() { return ElementwiseOptions().SameShape(); }

OPC_GRAD_BY_Y("relu_grad")
    .GradientOf("relu")
    .Doc("dx = dy where y > 0, 0 elsewhere: the gradient of y = relu(x).")
    .Elementwise<ReluGrad>(sameShape());
OPC_GRAD_BY_X("leaky_relu_grad")
    .GradientOf("leaky_relu")
    .Attr<float>("alpha", 0.01f)
    .Doc("dx = dy where x > 0, alpha * dy elsewhere: the gradient of leaky_relu.")
    .Elementwise<LeakyReluGrad>(sameShape().CaseAttr("alpha", 0.2f));
OPC_GRAD_BY_Y("sigmoid_grad")
    .GradientOf("sigmoid")
    .Doc("dx = dy * y * (1 - y): the gradient of y = sigmoid(x).")
    .Elementwise<SigmoidGrad>(sameShape().Domain(0, 0, 1));
OPC_GRAD_BY_X("tanh_grad")
    .GradientOf("tanh")
    .Doc("dx = dy * (1 - tanh(x)^2): the gradient of tanh.")
    .Elementwise<TanhGrad>(sameShape());
OPC_GRAD_BY_X("gelu_grad")
    .GradientOf("gelu")
    .Doc("dx = dy * (P(x) + x p(x)), P and p the normal distribution's function and density: the gradient of gelu.")
    .Elementwise<GeluGrad>(sameShape());
OPC_GRAD_BY_X("fast_gelu_grad")
    .GradientOf("fast_gelu")
    .Doc("The gradient of fast_gelu.")
    .Elementwise<FastGeluGrad>(sameShape());
OPC_GRAD_BY_X("quick_gelu_grad")
    .GradientOf("quick_gelu")
    .Doc("The gradient of quick_gelu.")
    .Elementwise<QuickGeluGrad>(sameShape());
OPC_GRAD_BY_X("silu_grad")
    .GradientOf("silu")
    .Doc("dx = dy * s * (1 + x * (1 - s)), s = sigmoid(x): the gradient of silu.")
    .Elementwise<SiluGrad>(sameShape());

} // namespace opc::scalar

namespace opc::ops {
namespace {

/// `op`_grad of the output.
void byOutput(GradientRule &g) {
  if (g.needs("x"))
    g.bind("x", g.add(g.op().op_type_name() + "_grad", "x").in("y", g.y("y")).in("dy", g.dy("y")).out("dx"));
}
REGISTER_USER_OP_GRAD("relu").SetBackwardOpConfGenFn(gradientRule(byOutput));
REGISTER_USER_OP_GRAD("sigmoid").SetBackwardOpConfGenFn(gradientRule(byOutput));

/// `op`_grad of the input, which some ops call x and some in.
template <int kName> void byInput(GradientRule &g) {
  const char *x = kName ? "in" : "x", *y = kName ? "out" : "y";
  if (!g.needs(x)) return;
  auto grad = g.add(g.op().op_type_name() + "_grad", x);
  if (g.op().op_type_name() == "leaky_relu") grad.same({"alpha"});
  g.bind(x, grad.in("x", g.x(x)).in("dy", g.dy(y)).out("dx"));
}
REGISTER_USER_OP_GRAD("leaky_relu").SetBackwardOpConfGenFn(gradientRule(byInput<0>));
REGISTER_USER_OP_GRAD("tanh").SetBackwardOpConfGenFn(gradientRule(byInput<0>));
REGISTER_USER_OP_GRAD("quick_gelu").SetBackwardOpConfGenFn(gradientRule(byInput<0>));
REGISTER_USER_OP_GRAD("gelu").SetBackwardOpConfGenFn(gradientRule(byInput<1>));
REGISTER_USER_OP_GRAD("fast_gelu").SetBackwardOpConfGenFn(gradientRule(byInput<1>));
REGISTER_USER_OP_GRAD("silu").SetBackwardOpConfGenFn(gradientRule(byInput<1>));

/// Linear in dy, and piecewise constant in the other input.
void reluGradGradient(GradientRule &g) {
  if (g.needs("dy")) g.bind("dy", g.add("relu_grad", "dy").in("y", g.x("y")).in("dy", g.dy("dx")).out("dx"));
}
REGISTER_USER_OP_GRAD("relu_grad").SetBackwardOpConfGenFn(gradientRule(reluGradGradient));
void leakyReluGradGradient(GradientRule &g) {
  if (g.needs("dy"))
    g.bind("dy", g.add("leaky_relu_grad", "dy").in("x", g.x("x")).in("dy", g.dy("dx")).same({"alpha"}).out("dx"));
}
REGISTER_USER_OP_GRAD("leaky_relu_grad").SetBackwardOpConfGenFn(gradientRule(leakyReluGradGradient));

void expGradient(GradientRule &g) {
  if (g.needs("x")) g.bind("x", g.multiply(g.dy("y"), g.y("y"), "x"));
}
REGISTER_USER_OP_GRAD("exp").SetBackwardOpConfGenFn(gradientRule(expGradient));

void logGradient(GradientRule &g) {
  if (g.needs("x")) g.bind("x", binary(g, "broadcast_div", g.dy("y"), g.x("x"), "x"));
}
REGISTER_USER_OP_GRAD("log").SetBackwardOpConfGenFn(gradientRule(logGradient));

/// d x = dy / (2 y).
void sqrtGradient(GradientRule &g) {
  if (g.needs("x")) g.bind("x", g.scale(binary(g, "broadcast_div", g.dy("y"), g.y("y"), "x_ratio"), 0.5, "x"));
}
REGISTER_USER_OP_GRAD("sqrt").SetBackwardOpConfGenFn(gradientRule(sqrtGradient));

void absGradient(GradientRule &g) {
  if (g.needs("x")) g.bind("x", g.multiply(g.dy("y"), unary(g, "sign", g.x("x"), "x_sign"), "x"));
}
REGISTER_USER_OP_GRAD("abs").SetBackwardOpConfGenFn(gradientRule(absGradient));

} // namespace
} // namespace opc::ops
