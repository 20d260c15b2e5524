// Gradient rule of reduce_sum_like.
// SPDX-License-Identifier: Apache-2.0
#include "reduce/ReductionSteps.h"

namespace opc::ops::reduce {
namespace {

void sumLikeGradient(GradientRule &g) {
  if (!g.needs("x")) return;
  const Shape &x = g.shape("x"), &y = g.shape("y");
  const auto axes = valueOf(resolveAxes(g.attr<Ints>("axis"), x.NumAxes()));
  const Shape kept = reducedShape(x, axes, true);
  const std::string dy = reshaped(g, g.dy("y"), y, kept, "dy_kept");
  g.bind("x", repeatedLike(g, dy, kept, g.x("x"), x, axes, "x"));
}
REGISTER_USER_OP_GRAD("reduce_sum_like").SetBackwardOpConfGenFn(gradientRule(sumLikeGradient));

} // namespace
} // namespace opc::ops::reduce
