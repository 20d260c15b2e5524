// Gradient rule of cast and cast_like.
// SPDX-License-Identifier: Apache-2.0
#include "support/GradientSteps.h"

namespace opc::ops {
namespace {

/// A floating output of a floating input; integers have no gradient.
void castGradient(GradientRule &g) {
  if (!g.needs("in") || !IsFloatingDataType(g.desc("out").data_type())) return;
  g.bind("in", g.add("cast", "in").in("in", g.dy("out")).attr("dtype", g.desc("in").data_type()).out());
}
REGISTER_USER_OP_GRAD("cast").SetBackwardOpConfGenFn(gradientRule(castGradient));
REGISTER_USER_OP_GRAD("cast_like").SetBackwardOpConfGenFn(gradientRule(castGradient));

} // namespace
} // namespace opc::ops
