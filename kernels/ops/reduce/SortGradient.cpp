// Gradient rule of sort.
// SPDX-License-Identifier: Apache-2.0
#include "support/GradientSteps.h"

namespace opc::ops::reduce {
namespace {

void sortGradient(GradientRule &g) {
  if (!g.needs("in")) return;
  const std::string order = g.add("arg_sort", "order").in("in", g.x("in")).same({"direction"}).out();
  g.bind("in", g.add("dim_scatter_add_like", "in")
                   .in("like", g.x("in"))
                   .in("index", order)
                   .in("src", g.dy("out"))
                   .attr("dim", int32_t{-1})
                   .out("output"));
}
REGISTER_USER_OP_GRAD("sort").SetBackwardOpConfGenFn(gradientRule(sortGradient));

} // namespace
} // namespace opc::ops::reduce
