// Gradient rule of square_sum and multi_square_sum.
// SPDX-License-Identifier: Apache-2.0
#include "support/GradientSteps.h"

namespace opc::ops::reduce {
namespace {

/// y = sum of x^2 over all inputs: d x = 2 dy x.
void squareSumGradient(GradientRule &g) {
  std::string twice;
  for (int32_t i = 0; i < g.op().input_size("x"); ++i) {
    if (!g.needs("x", i)) continue;
    if (twice.empty()) twice = g.scale(g.dy("y"), 2, "twice");
    const std::string suffix = "x" + std::to_string(i);
    // A scalar times a tensor of one element would be a tensor of one element.
    const std::string factor =
        g.shape("x", i).NumAxes() > 0 ? twice : reshaped(g, twice, Shape{1}, Shape{}, suffix + "_scalar");
    g.bind("x", i, g.add("scalar_mul_by_tensor", suffix).in("x", g.x("x", i)).in("scalar", factor).out("y"));
  }
}
REGISTER_USER_OP_GRAD("square_sum").SetBackwardOpConfGenFn(gradientRule(squareSumGradient));
REGISTER_USER_OP_GRAD("multi_square_sum").SetBackwardOpConfGenFn(gradientRule(squareSumGradient));

} // namespace
} // namespace opc::ops::reduce
