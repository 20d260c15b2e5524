// Gradient rule of prelu.
// SPDX-License-Identifier: Apache-2.0
#include "support/GradientSteps.h"

namespace opc::ops {
namespace {

/// dx = dy where x > 0, else alpha dy; dalpha is the sum of x dy where x is not above 0.
void preluGradient(GradientRule &g) {
  if (!g.needs("x") && !g.needs("alpha")) return;
  const Shape &x = g.shape("x"), &alpha = g.shape("alpha");
  const bool isOfChannels = alpha.elem_cnt() != 1;
  const std::string zero = g.add("constant", "zero")
                               .attr("shape", Shape{})
                               .attr("dtype", g.desc("x").data_type())
                               .attr("is_floating_value", true)
                               .out();
  const std::string isAbove = binary(g, "broadcast_greater", g.x("x"), zero, "above");
  const auto select = [&](const std::string &a, const std::string &b, const char *suffix) {
    return g.add("where", suffix).in("condition", isAbove).in("x", a).in("y", b).out();
  };
  if (g.needs("x")) {
    DimVector dims(static_cast<size_t>(isOfChannels ? x.NumAxes() : 0), 1);
    if (isOfChannels) dims[1] = alpha.At(0);
    const std::string slopes = reshaped(g, g.x("alpha"), alpha, Shape(dims), "slopes");
    g.bind("x", select(g.dy("y"), binary(g, "broadcast_mul", g.dy("y"), slopes, "scaled"), "x"));
  }
  if (!g.needs("alpha")) return;
  const std::string parts = select(zero, g.multiply(g.dy("y"), g.x("x"), "product"), "parts");
  std::vector<int32_t> axes;
  for (int32_t a = 0; a < x.NumAxes(); ++a)
    if (!isOfChannels || a != 1) axes.push_back(a);
  const std::string sum = axes.empty() ? parts : summed(g, parts, axes, false, "sum");
  g.bind("alpha", reshaped(g, sum, isOfChannels ? alpha : Shape(), alpha, "alpha"));
}
REGISTER_USER_OP_GRAD("prelu").SetBackwardOpConfGenFn(gradientRule(preluGradient));

} // namespace
} // namespace opc::ops
