// Gradient rules of the cheap elementwise ops, as composites of fast kernels. The other
// elementwise ops have derived gradients (docs/writing-an-op.md).
// SPDX-License-Identifier: Apache-2.0
#include "support/GradientSteps.h"

namespace opc::ops {
namespace {

/// `a`, of the output's shape, summed down to what the input `arg` has.
void bindSum(GradientRule &g, const std::string &arg, const std::string &a, const Shape &have) {
  g.bind(arg, g.reduceLike(a, have, g.x(arg), g.shape(arg), arg + "_sum"));
}
std::string byTensor(GradientRule &g, const char *op, const std::string &a, const std::string &scalar,
                     const std::string &suffix) {
  return g.add(op, suffix).in("x", a).in("scalar", scalar).out("y");
}

// --- sums ------------------------------------------------------------------------------------------------------------

void addGradient(GradientRule &g) {
  for (const char *arg : {"x", "y"})
    if (g.needs(arg)) bindSum(g, arg, g.dy("z"), g.shape("z"));
}
REGISTER_USER_OP_GRAD("broadcast_add").SetBackwardOpConfGenFn(gradientRule(addGradient));

void subGradient(GradientRule &g) {
  if (g.needs("x")) bindSum(g, "x", g.dy("z"), g.shape("z"));
  if (g.needs("y")) {
    // Summed first: the sign is then changed in the smaller tensor.
    const std::string sum = g.reduceLike(g.dy("z"), g.shape("z"), g.x("y"), g.shape("y"), "y_sum");
    g.bind("y", unary(g, "negative", sum, "y"));
  }
}
REGISTER_USER_OP_GRAD("broadcast_sub").SetBackwardOpConfGenFn(gradientRule(subGradient));

void scalarAddGradient(GradientRule &g) {
  if (g.needs("in")) g.bind("in", g.dy("out"));
}
REGISTER_USER_OP_GRAD("scalar_add").SetBackwardOpConfGenFn(gradientRule(scalarAddGradient));

void addByTensorGradient(GradientRule &g) {
  for (const char *arg : {"x", "scalar"})
    if (g.needs(arg)) bindSum(g, arg, g.dy("y"), g.shape("y"));
}
REGISTER_USER_OP_GRAD("scalar_add_by_tensor").SetBackwardOpConfGenFn(gradientRule(addByTensorGradient));

void subByTensorGradient(GradientRule &g) {
  if (g.needs("x")) bindSum(g, "x", g.dy("y"), g.shape("y"));
  if (g.needs("scalar")) {
    const std::string sum = g.reduceLike(g.dy("y"), g.shape("y"), g.x("scalar"), g.shape("scalar"), "scalar_sum");
    g.bind("scalar", unary(g, "negative", sum, "scalar"));
  }
}
REGISTER_USER_OP_GRAD("scalar_sub_by_tensor").SetBackwardOpConfGenFn(gradientRule(subByTensorGradient));

// --- products --------------------------------------------------------------------------------------------------------

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
  if (g.needs("x")) bindSum(g, "x", byTensor(g, "scalar_mul_by_tensor", g.dy("y"), g.x("scalar"), "x"), g.shape("y"));
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

void negativeGradient(GradientRule &g) {
  if (g.needs("x")) g.bind("x", unary(g, "negative", g.dy("y"), "x"));
}
REGISTER_USER_OP_GRAD("negative").SetBackwardOpConfGenFn(gradientRule(negativeGradient));

/// d x = 2 x dy.
void squareGradient(GradientRule &g) {
  if (g.needs("x")) g.bind("x", g.scale(g.multiply(g.dy("y"), g.x("x"), "x_product"), 2, "x"));
}
REGISTER_USER_OP_GRAD("square").SetBackwardOpConfGenFn(gradientRule(squareGradient));

// --- quotients -------------------------------------------------------------------------------------------------------

/// z = x / y: d x = dz / y, d y = -dz z / y.
void quotientGradient(GradientRule &g, const char *y, const char *z) {
  const bool needsX = g.needs("x");
  if (!needsX && !g.needs(y)) return;
  const std::string ratio = binary(g, "broadcast_div", g.dy(z), g.x(y), "ratio");
  if (needsX) bindSum(g, "x", ratio, g.shape(z));
  if (g.needs(y)) {
    const std::string product = g.multiply(ratio, g.y(z), std::string(y) + "_product");
    const std::string sum = g.reduceLike(product, g.shape(z), g.x(y), g.shape(y), std::string(y) + "_sum");
    g.bind(y, unary(g, "negative", sum, y));
  }
}
REGISTER_USER_OP_GRAD("broadcast_div").SetBackwardOpConfGenFn(gradientRule([](GradientRule &g) {
  quotientGradient(g, "y", "z");
}));
REGISTER_USER_OP_GRAD("scalar_div_by_tensor").SetBackwardOpConfGenFn(gradientRule([](GradientRule &g) {
  quotientGradient(g, "scalar", "y");
}));

// --- selection -------------------------------------------------------------------------------------------------------

void whereGradient(GradientRule &g) {
  const bool x = g.needs("x"), y = g.needs("y");
  if (!x && !y) return;
  const std::string zero = g.add("constant", "zero")
                               .attr("shape", Shape{})
                               .attr("dtype", g.desc("out").data_type())
                               .attr("is_floating_value", true)
                               .out();
  const auto select = [&](const std::string &a, const std::string &b, const char *suffix) {
    return g.add("where", suffix).in("condition", g.x("condition")).in("x", a).in("y", b).out();
  };
  if (x) bindSum(g, "x", select(g.dy("out"), zero, "x"), g.shape("out"));
  if (y) bindSum(g, "y", select(zero, g.dy("out"), "y"), g.shape("out"));
}
REGISTER_USER_OP_GRAD("where").SetBackwardOpConfGenFn(gradientRule(whereGradient));

void maskedFillGradient(GradientRule &g) {
  if (!g.needs("x")) return;
  const std::string rest = g.add("masked_fill", "x")
                               .in("x", g.dy("out"))
                               .in("mask", g.x("mask"))
                               .attr("has_float_operand", true)
                               .attr("float_operand", 0.0)
                               .out();
  bindSum(g, "x", rest, g.shape("out"));
}
REGISTER_USER_OP_GRAD("masked_fill").SetBackwardOpConfGenFn(gradientRule(maskedFillGradient));

} // namespace
} // namespace opc::ops
