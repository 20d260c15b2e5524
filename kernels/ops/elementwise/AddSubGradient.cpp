// Gradient rules of sums and differences.
// SPDX-License-Identifier: Apache-2.0
#include "elementwise/BroadcastSteps.h"

namespace opc::ops {
namespace {

/// z = x + y, whatever they are called.
auto sumGradient(const char *y, const char *z) {
  return gradientRule([=](GradientRule &g) {
    for (const char *arg : {"x", y})
      if (g.needs(arg)) bindSum(g, arg, g.dy(z), g.shape(z));
  });
}
REGISTER_USER_OP_GRAD("broadcast_add").SetBackwardOpConfGenFn(sumGradient("y", "z"));
REGISTER_USER_OP_GRAD("scalar_add_by_tensor").SetBackwardOpConfGenFn(sumGradient("scalar", "y"));

auto differenceGradient(const char *y, const char *z) {
  return gradientRule([=](GradientRule &g) {
    if (g.needs("x")) bindSum(g, "x", g.dy(z), g.shape(z));
    if (g.needs(y)) bindNegatedSum(g, y, g.dy(z), g.shape(z));
  });
}
REGISTER_USER_OP_GRAD("broadcast_sub").SetBackwardOpConfGenFn(differenceGradient("y", "z"));
REGISTER_USER_OP_GRAD("scalar_sub_by_tensor").SetBackwardOpConfGenFn(differenceGradient("scalar", "y"));

void scalarAddGradient(GradientRule &g) {
  if (g.needs("in")) g.bind("in", g.dy("out"));
}
REGISTER_USER_OP_GRAD("scalar_add").SetBackwardOpConfGenFn(gradientRule(scalarAddGradient));

} // namespace
} // namespace opc::ops
