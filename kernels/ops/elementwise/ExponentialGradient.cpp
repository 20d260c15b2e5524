// Gradient rules of functions whose derivative their own result gives.
// SPDX-License-Identifier: Apache-2.0
#include "support/GradientSteps.h"

namespace opc::ops {
namespace {

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

} // namespace
} // namespace opc::ops
