// Gradient rules of expand and broadcast_like.
// SPDX-License-Identifier: Apache-2.0
#include "support/Axes.h"
#include "support/GradientSteps.h"

namespace opc::ops {
namespace {

using Ints = std::vector<int32_t>;

void expandGradient(GradientRule &g) {
  if (g.needs("in")) g.bind("in", g.reduceLike(g.dy("out"), g.shape("out"), g.x("in"), g.shape("in"), "in"));
}
REGISTER_USER_OP_GRAD("expand").SetBackwardOpConfGenFn(gradientRule(expandGradient));

/// The axes of like along which x is repeated: those it has with size 1, and those it lacks.
void broadcastLikeGradient(GradientRule &g) {
  if (!g.needs("x")) return;
  const Shape &x = g.shape("x"), &like = g.shape("like");
  const auto listed = valueOf(resolveAxes(g.attr<Ints>("broadcast_axes"), like.NumAxes()));
  if (listed.empty() || x.NumAxes() == like.NumAxes()) {
    g.bind("x", g.reduceLike(g.dy("y"), like, g.x("x"), x, "x"));
    return;
  }
  const Ints axes(listed.begin(), listed.end());
  g.bind("x", g.add("reduce_sum_like", "x").in("x", g.dy("y")).in("like", g.x("x")).attr("axis", axes).out("y"));
}
REGISTER_USER_OP_GRAD("broadcast_like").SetBackwardOpConfGenFn(gradientRule(broadcastLikeGradient));

} // namespace
} // namespace opc::ops
