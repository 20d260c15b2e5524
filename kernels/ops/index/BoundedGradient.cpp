// Gradient rule of bounded.
// SPDX-License-Identifier: Apache-2.0
#include "support/GradientSteps.h"

namespace opc::ops {
namespace {

void boundedGradient(GradientRule &g) {
  if (g.needs("x"))
    g.bind("x", g.add("bounded", "x")
                    .in("x", g.dy("y"))
                    .in("count", g.x("count"))
                    .attr("axis", g.attr<int64_t>("axis"))
                    .out("y"));
}
REGISTER_USER_OP_GRAD("bounded").SetBackwardOpConfGenFn(gradientRule(boundedGradient));

} // namespace
} // namespace opc::ops
