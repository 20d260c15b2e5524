// Gradient rule of the ops whose output has the input's elements: reshape, flatten, squeeze and the like.
// SPDX-License-Identifier: Apache-2.0
#include "support/GradientSteps.h"

namespace opc::ops {
namespace {

/// The same elements under the input's shape.
void viewGradient(GradientRule &g) {
  if (g.needs("in")) g.bind("in", reshaped(g, g.dy("out"), g.shape("out"), g.shape("in"), "in"));
}
REGISTER_USER_OP_GRAD("reshape").SetBackwardOpConfGenFn(gradientRule(viewGradient));
REGISTER_USER_OP_GRAD("reshape_like").SetBackwardOpConfGenFn(gradientRule(viewGradient));
REGISTER_USER_OP_GRAD("flatten").SetBackwardOpConfGenFn(gradientRule(viewGradient));
REGISTER_USER_OP_GRAD("expand_dims").SetBackwardOpConfGenFn(gradientRule(viewGradient));
REGISTER_USER_OP_GRAD("squeeze").SetBackwardOpConfGenFn(gradientRule(viewGradient));
REGISTER_USER_OP_GRAD("identity").SetBackwardOpConfGenFn(gradientRule(viewGradient));
REGISTER_USER_OP_GRAD("copy").SetBackwardOpConfGenFn(gradientRule(viewGradient));

} // namespace
} // namespace opc::ops
