// Gradient rules of reduce_sum, reduce_mean and reduce_nansum.
// SPDX-License-Identifier: Apache-2.0
#include "reduce/ReductionSteps.h"

namespace opc::ops::reduce {
namespace {

void sumGradient(GradientRule &g) {
  if (g.needs("input_tensor")) g.bind("input_tensor", reduction(g).repeated(g.dy("output_tensor"), "input"));
}
REGISTER_USER_OP_GRAD("reduce_sum").SetBackwardOpConfGenFn(gradientRule(sumGradient));

/// The division comes first: it is the smaller tensor.
void meanGradient(GradientRule &g) {
  if (!g.needs("input_tensor")) return;
  const Reduction r = reduction(g);
  const double n = static_cast<double>(std::max<int64_t>(1, r.count()));
  const std::string share = n == 1 ? g.dy("output_tensor") : g.scale(g.dy("output_tensor"), 1 / n, "share");
  g.bind("input_tensor", r.repeated(share, "input"));
}
REGISTER_USER_OP_GRAD("reduce_mean").SetBackwardOpConfGenFn(gradientRule(meanGradient));

void nanSumGradient(GradientRule &g) {
  if (!g.needs("input_tensor")) return;
  const Reduction r = reduction(g);
  const std::string full = r.repeated(g.dy("output_tensor"), "repeated");
  const std::string nan = g.add("isnan", "is_nan").in("in", r.in).out();
  g.bind("input_tensor", g.add("masked_fill", "input")
                             .in("x", full)
                             .in("mask", nan)
                             .attr("has_float_operand", true)
                             .attr("float_operand", 0.0)
                             .out());
}
REGISTER_USER_OP_GRAD("reduce_nansum").SetBackwardOpConfGenFn(gradientRule(nanSumGradient));

} // namespace
} // namespace opc::ops::reduce
