// Gradients of the usual activations under OneFlow's names, compiled instead of interpreted, and the rules that use
// them.
// SPDX-License-Identifier: Apache-2.0
#include "elementwise/ElementwiseOps.h"
#include "support/GradientSteps.h"

namespace opc::ops {
namespace {

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
  return dy * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * (0.7978845608028654 + 0.10703222440890037 * x * x));
}
OPC_SCALAR(SiluGrad, x, dy) {
  auto s = sigmoid(x);
  return dy * s * (1 + x * (1 - s));
}
OPC_SCALAR(QuickGeluGrad, x, dy) {
  auto s = sigmoid(1.702 * x);
  return dy * s * (1 + 1.702 * x * (1 - s));
}

void fromY(OpRegistry &op) { op.Input("y").Input("dy").Output("dx"); }
void fromX(OpRegistry &op) { op.Input("x").ArgAlias("in", "x").Input("dy").Output("dx"); }
/// The gradient F of an activation, computed from its output or its input.
template <class F> auto byY(const ElementwiseOptions &options = sameShape()) {
  return elementwiseOp<F, types::Floating, output::Same>(fromY, options);
}
template <class F> auto byX(const ElementwiseOptions &options = sameShape()) {
  return elementwiseOp<F, types::Floating, output::Same>(fromX, options);
}

REGISTER_USER_OP("relu_grad")
    .With(byY<ReluGrad>())
    .GradientOf("relu")
    .Doc("dx = dy where y > 0, 0 elsewhere: the gradient of y = relu(x).");
REGISTER_USER_OP("leaky_relu_grad")
    .Attr<float>("alpha", 0.01f)
    .With(byX<LeakyReluGrad>(sameShape().CaseAttr("alpha", 0.2f)))
    .GradientOf("leaky_relu")
    .Doc("dx = dy where x > 0, alpha * dy elsewhere: the gradient of leaky_relu.");
REGISTER_USER_OP("sigmoid_grad")
    .With(byY<SigmoidGrad>(sameShape().Domain(0, 0, 1)))
    .GradientOf("sigmoid")
    .Doc("dx = dy * y * (1 - y): the gradient of y = sigmoid(x).");
REGISTER_USER_OP("tanh_grad")
    .With(byX<TanhGrad>())
    .GradientOf("tanh")
    .Doc("dx = dy * (1 - tanh(x)^2): the gradient of tanh.");
REGISTER_USER_OP("gelu_grad")
    .With(byX<GeluGrad>())
    .GradientOf("gelu")
    .Doc("dx = dy * (P(x) + x p(x)), P and p the normal distribution's function and density: the gradient of gelu.");
REGISTER_USER_OP("fast_gelu_grad").With(byX<FastGeluGrad>()).GradientOf("fast_gelu").Doc("The gradient of fast_gelu.");
REGISTER_USER_OP("quick_gelu_grad")
    .With(byX<QuickGeluGrad>())
    .GradientOf("quick_gelu")
    .Doc("The gradient of quick_gelu.");
REGISTER_USER_OP("silu_grad")
    .With(byX<SiluGrad>())
    .GradientOf("silu")
    .Doc("dx = dy * s * (1 + x * (1 - s)), s = sigmoid(x): the gradient of silu.");

/// The rule that the gradient of the activation x -> y is `op`, which takes y.
auto byOutput(const char *op) {
  return gradientRule([op](GradientRule &g) {
    if (g.needs("x")) g.bind("x", g.add(op, "x").in("y", g.y("y")).in("dy", g.dy("y")).out("dx"));
  });
}
REGISTER_USER_OP_GRAD("relu").SetBackwardOpConfGenFn(byOutput("relu_grad"));
REGISTER_USER_OP_GRAD("sigmoid").SetBackwardOpConfGenFn(byOutput("sigmoid_grad"));

/// `op` takes the activation's input.
auto byInput(const char *op, const char *x, const char *y) {
  return gradientRule([=](GradientRule &g) {
    if (g.needs(x)) g.bind(x, g.add(op, x).in("x", g.x(x)).in("dy", g.dy(y)).out("dx"));
  });
}
REGISTER_USER_OP_GRAD("tanh").SetBackwardOpConfGenFn(byInput("tanh_grad", "x", "y"));
REGISTER_USER_OP_GRAD("quick_gelu").SetBackwardOpConfGenFn(byInput("quick_gelu_grad", "x", "y"));
REGISTER_USER_OP_GRAD("gelu").SetBackwardOpConfGenFn(byInput("gelu_grad", "in", "out"));
REGISTER_USER_OP_GRAD("fast_gelu").SetBackwardOpConfGenFn(byInput("fast_gelu_grad", "in", "out"));
REGISTER_USER_OP_GRAD("silu").SetBackwardOpConfGenFn(byInput("silu_grad", "in", "out"));

void leakyReluGradient(GradientRule &g) {
  if (g.needs("x"))
    g.bind("x", g.add("leaky_relu_grad", "x").same({"alpha"}).in("x", g.x("x")).in("dy", g.dy("y")).out("dx"));
}
REGISTER_USER_OP_GRAD("leaky_relu").SetBackwardOpConfGenFn(gradientRule(leakyReluGradient));

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

} // namespace
} // namespace opc::ops
