// Gradient rules of products and quotients.
// SPDX-License-Identifier: Apache-2.0
#include "elementwise/BroadcastSteps.h"

namespace opc::ops {
namespace {

void mulGradient(GradientRule &g) {
  if (g.needs("x")) bindSum(g, "x", binary(g, "broadcast_mul", g.dy("z"), g.x("y"), "x"), g.shape("z"));
  if (g.needs("y")) bindSum(g, "y", binary(g, "broadcast_mul", g.dy("z"), g.x("x"), "y"), g.shape("z"));
}
REGISTER_USER_OP_GRAD("broadcast_mul").SetBackwardOpConfGenFn(gradientRule(mulGradient));

void multiplyGradient(GradientRule &g) {
  if (g.needs("x")) g.bind("x", g.multiply(g.dy("out"), g.x("y"), "x"));
  if (g.needs("y")) g.bind("y", g.multiply(g.dy("out"), g.x("x"), "y"));
}
REGISTER_USER_OP_GRAD("multiply").SetBackwardOpConfGenFn(gradientRule(multiplyGradient));

void mulByTensorGradient(GradientRule &g) {
  if (g.needs("x")) {
    const std::string product =
        g.add("scalar_mul_by_tensor", "x").in("x", g.dy("y")).in("scalar", g.x("scalar")).out("y");
    bindSum(g, "x", product, g.shape("y"));
  }
  if (g.needs("scalar")) bindSum(g, "scalar", binary(g, "broadcast_mul", g.dy("y"), g.x("x"), "scalar"), g.shape("y"));
}
REGISTER_USER_OP_GRAD("scalar_mul_by_tensor").SetBackwardOpConfGenFn(gradientRule(mulByTensorGradient));

/// scalar_mul and scalar_div do to the gradient what they do to the input.
void scalarFactorGradient(GradientRule &g) {
  if (g.needs("in"))
    g.bind("in", g.add(g.op().op_type_name(), "in")
                     .in("in", g.dy("out"))
                     .same({"has_int_operand", "has_float_operand", "int_operand", "float_operand"})
                     .out());
}
REGISTER_USER_OP_GRAD("scalar_mul").SetBackwardOpConfGenFn(gradientRule(scalarFactorGradient));
REGISTER_USER_OP_GRAD("scalar_div").SetBackwardOpConfGenFn(gradientRule(scalarFactorGradient));

/// z = x / y, whatever they are called: d x = dz / y, d y = -dz z / y.
auto quotientGradient(const char *y, const char *z) {
  return gradientRule([=](GradientRule &g) {
    const bool needsX = g.needs("x"), needsY = g.needs(y);
    if (!needsX && !needsY) return;
    const std::string ratio = binary(g, "broadcast_div", g.dy(z), g.x(y), "ratio");
    if (needsX) bindSum(g, "x", ratio, g.shape(z));
    if (needsY) bindNegatedSum(g, y, g.multiply(ratio, g.y(z), std::string(y) + "_product"), g.shape(z));
  });
}
REGISTER_USER_OP_GRAD("broadcast_div").SetBackwardOpConfGenFn(quotientGradient("y", "z"));
REGISTER_USER_OP_GRAD("scalar_div_by_tensor").SetBackwardOpConfGenFn(quotientGradient("scalar", "y"));

} // namespace
} // namespace opc::ops
