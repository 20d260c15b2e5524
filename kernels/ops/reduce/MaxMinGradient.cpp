// Gradient rule of reduce_max and reduce_min.
// SPDX-License-Identifier: Apache-2.0
#include "reduce/ReductionSteps.h"

namespace opc::ops::reduce {
namespace {

/// Elements that tie share the gradient evenly, as in OneFlow and PyTorch's amax.
void extremeGradient(GradientRule &g) {
  if (!g.needs("input_tensor")) return;
  const Reduction r = reduction(g);
  const std::string isExtreme = binary(g, "broadcast_equal", r.in, r.keptOut(), "is_extreme");
  const std::string mask = g.add("cast_like", "mask").in("in", isExtreme).in("dtype_like", r.in).out();
  const std::string ties = summed(g, mask, r.axisList(), true, "ties");
  const std::string share = binary(g, "broadcast_div", r.keptDy(), ties, "share");
  g.bind("input_tensor", binary(g, "broadcast_mul", mask, share, "input"));
}
REGISTER_USER_OP_GRAD("reduce_max").SetBackwardOpConfGenFn(gradientRule(extremeGradient));
REGISTER_USER_OP_GRAD("reduce_min").SetBackwardOpConfGenFn(gradientRule(extremeGradient));

} // namespace
} // namespace opc::ops::reduce
