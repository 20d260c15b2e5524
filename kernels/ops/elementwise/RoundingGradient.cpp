// Gradient rules of abs, negative and square.
// SPDX-License-Identifier: Apache-2.0
#include "support/GradientSteps.h"

namespace opc::ops {
namespace {

void absGradient(GradientRule &g) {
  if (g.needs("x")) g.bind("x", g.multiply(g.dy("y"), unary(g, "sign", g.x("x"), "x_sign"), "x"));
}
REGISTER_USER_OP_GRAD("abs").SetBackwardOpConfGenFn(gradientRule(absGradient));

void negativeGradient(GradientRule &g) {
  if (g.needs("x")) g.bind("x", unary(g, "negative", g.dy("y"), "x"));
}
REGISTER_USER_OP_GRAD("negative").SetBackwardOpConfGenFn(gradientRule(negativeGradient));

/// d x = 2 x dy.
void squareGradient(GradientRule &g) {
  if (g.needs("x")) g.bind("x", g.scale(g.multiply(g.dy("y"), g.x("x"), "x_product"), 2, "x"));
}
REGISTER_USER_OP_GRAD("square").SetBackwardOpConfGenFn(gradientRule(squareGradient));

} // namespace
} // namespace opc::ops
