// Gradient rules of logsumexp and var.
// SPDX-License-Identifier: Apache-2.0
#include "reduce/ReductionSteps.h"

namespace opc::ops::reduce {
namespace {

/// d x = dy exp(x - out).
void logSumExpGradient(GradientRule &g) {
  if (!g.needs("input_tensor")) return;
  const Reduction r = reduction(g);
  const std::string shifted = binary(g, "broadcast_sub", r.in, r.keptOut(), "shifted");
  const std::string share = unary(g, "exp", shifted, "share");
  g.bind("input_tensor", binary(g, "broadcast_mul", share, r.keptDy(), "input"));
}
REGISTER_USER_OP_GRAD("logsumexp").SetBackwardOpConfGenFn(gradientRule(logSumExpGradient));

/// d x = dy 2 (x - mean) / divisor.
void varGradient(GradientRule &g) {
  if (!g.needs("input")) return;
  const Reduction r(g, "input", "output", "dim", true);
  const int64_t n = r.count();
  const double divisor = static_cast<double>(g.attr<bool>("unbiased") ? n - 1 : n);
  const std::string mean = g.add("reduce_mean", "mean")
                               .in("input_tensor", r.in)
                               .attr("axis", r.axisList())
                               .attr("keepdims", true)
                               .out("output_tensor");
  const std::string centered = binary(g, "broadcast_sub", r.in, mean, "centered");
  const std::string share = g.scale(r.keptDy(), 2 / divisor, "share");
  g.bind("input", binary(g, "broadcast_mul", centered, share, "input"));
}
REGISTER_USER_OP_GRAD("var").SetBackwardOpConfGenFn(gradientRule(varGradient));

} // namespace
} // namespace opc::ops::reduce
