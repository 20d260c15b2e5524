// Gradient rule of add_n.
// SPDX-License-Identifier: Apache-2.0
#include "support/GradientSteps.h"

namespace opc::ops {
namespace {

void addNGradient(GradientRule &g) {
  for (int32_t i = 0; i < g.op().input_size("in"); ++i)
    if (g.needs("in", i)) g.bind("in", i, g.dy("out"));
}
REGISTER_USER_OP_GRAD("add_n").SetBackwardOpConfGenFn(gradientRule(addNGradient));

} // namespace
} // namespace opc::ops
