// Gradient rules of cat, concat, stack and split_like.
// SPDX-License-Identifier: Apache-2.0
#include "support/Axes.h"
#include "support/GradientSteps.h"

namespace opc::ops {
namespace {

std::string narrowed(GradientRule &g, const std::string &a, int64_t axis, int64_t start, int64_t length,
                     const std::string &suffix) {
  return g.add("narrow", suffix).in("in", a).attr("dim", axis).attr("start", start).attr("length", length).out();
}

/// Few inputs: a piece for each that wants one, and nothing of the forward graph kept. Many: one split_like.
void catGradient(GradientRule &g) {
  const int32_t n = g.op().input_size("in");
  const int64_t axis = valueOf(resolveAxis(g.attr<int64_t>("axis"), g.shape("out").NumAxes()));
  int32_t wanted = 0;
  for (int32_t i = 0; i < n; ++i) wanted += g.needs("in", i);
  if (wanted == 0) return;
  if (wanted <= 3) {
    int64_t start = 0;
    for (int32_t i = 0; i < n; ++i) {
      const int64_t length = g.shape("in", i).At(axis);
      if (g.needs("in", i)) g.bind("in", i, narrowed(g, g.dy("out"), axis, start, length, "in" + std::to_string(i)));
      start += length;
    }
    return;
  }
  auto split = g.add("split_like", "in");
  split.in("in", g.dy("out")).attr("axis", axis).output("out", n);
  for (int32_t i = 0; i < n; ++i) split.in("like", g.x("in", i));
  for (int32_t i = 0; i < n; ++i) g.bind("in", i, split.out("out", i));
}
REGISTER_USER_OP_GRAD("cat").SetBackwardOpConfGenFn(gradientRule(catGradient));
REGISTER_USER_OP_GRAD("concat").SetBackwardOpConfGenFn(gradientRule(catGradient));

void stackGradient(GradientRule &g) {
  const int64_t axis = valueOf(resolveAxis(g.attr<int64_t>("axis"), g.shape("out").NumAxes()));
  for (int32_t i = 0; i < g.op().input_size("in"); ++i) {
    if (!g.needs("in", i)) continue;
    const std::string suffix = "in" + std::to_string(i);
    const std::string piece = narrowed(g, g.dy("out"), axis, i, 1, suffix + "_piece");
    g.bind("in", i, g.add("reshape", suffix).in("in", piece).attr("shape", g.shape("in", i)).out());
  }
}
REGISTER_USER_OP_GRAD("stack").SetBackwardOpConfGenFn(gradientRule(stackGradient));

/// An output that nobody used has a gradient of zeros.
void splitLikeGradient(GradientRule &g) {
  if (!g.needs("in")) return;
  auto joined = g.add("cat", "in");
  for (int32_t i = 0; i < g.op().output_size("out"); ++i) joined.in("in", g.dy("out", i));
  g.bind("in", joined.same({"axis"}).out());
}
REGISTER_USER_OP_GRAD("split_like").SetBackwardOpConfGenFn(gradientRule(splitLikeGradient));

} // namespace
} // namespace opc::ops
