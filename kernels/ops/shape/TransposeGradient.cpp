// Gradient rule of transpose.
// SPDX-License-Identifier: Apache-2.0
#include "support/Axes.h"
#include "support/GradientSteps.h"

namespace opc::ops {
namespace {

void transposeGradient(GradientRule &g) {
  if (!g.needs("input")) return;
  const auto &perm = g.attr<std::vector<int32_t>>("perm");
  const int64_t rank = g.shape("input").NumAxes();
  std::vector<int32_t> inverse(perm.size());
  for (size_t i = 0; i < perm.size(); ++i)
    inverse[static_cast<size_t>(valueOf(resolveAxis(perm[i], rank)))] = static_cast<int32_t>(i);
  g.bind("input", g.add("transpose", "input").in("input", g.dy("output")).attr("perm", inverse).out("output"));
}
REGISTER_USER_OP_GRAD("transpose").SetBackwardOpConfGenFn(gradientRule(transposeGradient));

} // namespace
} // namespace opc::ops
