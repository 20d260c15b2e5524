// Gradient rules of where and masked_fill.
// SPDX-License-Identifier: Apache-2.0
#include "elementwise/BroadcastSteps.h"

namespace opc::ops {
namespace {

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
