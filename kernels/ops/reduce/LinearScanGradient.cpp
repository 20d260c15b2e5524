// Gradient rule of linear_scan.
// SPDX-License-Identifier: Apache-2.0
#include "reduce/ScanSteps.h"
#include "support/Operator.h"

namespace opc::ops::reduce {
namespace {

/// With s the scan of dy the other way: by b it is s, by a[i] the product of what the factor joins, s and y one place
/// apart.
void linearScanGradient(GradientRule &g) {
  if (!g.needs("a") && !g.needs("b")) return;
  const Shape &shape = g.shape("a");
  const int64_t dim = valueOf(resolveAxis(g.attr<int64_t>("dim"), shape.NumAxes()));
  const bool reverse = g.attr<bool>("reverse");
  const std::string s = linearScan(g, g.x("a"), g.dy("y"), dim, !reverse, "b");
  if (g.needs("b")) g.bind("b", s);
  if (!g.needs("a")) return;
  const std::string &ahead = reverse ? g.y("y") : s, &behind = reverse ? s : g.y("y");
  g.bind("a", g.multiply(ahead, shifted(g, behind, shape, dim, 1, 0, "a_behind"), "a"));
}
REGISTER_USER_OP_GRAD("linear_scan").SetBackwardOpConfGenFn(gradientRule(linearScanGradient));

} // namespace
} // namespace opc::ops::reduce
