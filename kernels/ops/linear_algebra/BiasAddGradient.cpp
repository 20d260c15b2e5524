// Gradient rule of bias_add.
// SPDX-License-Identifier: Apache-2.0
#include "support/GradientSteps.h"

namespace opc::ops {
namespace {

void biasAddGradient(GradientRule &g) {
  if (g.needs("a")) g.bind("a", g.dy("out"));
  if (!g.needs("b")) return;
  const int64_t rank = g.shape("a").NumAxes(), axis = g.attr<int32_t>("axis");
  std::vector<int32_t> axes;
  for (int64_t i = 0; i < rank; ++i)
    if (i != (axis < 0 ? axis + rank : axis)) axes.push_back(static_cast<int32_t>(i));
  g.bind("b", summed(g, g.dy("out"), axes, false, "b"));
}
REGISTER_USER_OP_GRAD("bias_add").SetBackwardOpConfGenFn(gradientRule(biasAddGradient));

} // namespace
} // namespace opc::ops
