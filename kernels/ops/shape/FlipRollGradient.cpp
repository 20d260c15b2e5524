// Gradient rules of flip and roll.
// SPDX-License-Identifier: Apache-2.0
#include "support/LinearGradient.h"

namespace opc::ops {
namespace {

REGISTER_USER_OP_GRAD("flip").SetBackwardOpConfGenFn(linearGradient({"x", "y"}, "flip", {"x", "y"}, {"dims"}));

void rollGradient(GradientRule &g) {
  if (!g.needs("in")) return;
  std::vector<int32_t> back;
  for (int32_t s : g.attr<std::vector<int32_t>>("shifts")) back.push_back(s == INT32_MIN ? s : -s);
  g.bind("in", g.add("roll", "in").in("in", g.dy("out")).same({"dims"}).attr("shifts", back).out());
}
REGISTER_USER_OP_GRAD("roll").SetBackwardOpConfGenFn(gradientRule(rollGradient));

} // namespace
} // namespace opc::ops
