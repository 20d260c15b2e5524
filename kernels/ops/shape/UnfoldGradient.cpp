// Gradient rules of unfold and fold: each is the other's.
// SPDX-License-Identifier: Apache-2.0
#include "support/LinearGradient.h"

namespace opc::ops {
namespace {

void unfoldGradient(GradientRule &g) {
  if (!g.needs("x")) return;
  const std::vector<int32_t> size{static_cast<int32_t>(g.shape("x").At(2)), static_cast<int32_t>(g.shape("x").At(3))};
  g.bind("x", g.add("fold", "x")
                  .in("x", g.dy("y"))
                  .attr("output_size", size)
                  .same({"data_format", "kernel_size", "padding", "strides", "dilation_rate"})
                  .out("y"));
}
REGISTER_USER_OP_GRAD("unfold").SetBackwardOpConfGenFn(gradientRule(unfoldGradient));
REGISTER_USER_OP_GRAD("fold").SetBackwardOpConfGenFn(linearGradient({"x", "y"}, "unfold", {"x", "y"},
                                                                    {"data_format", "kernel_size", "padding", "strides",
                                                                     "dilation_rate"}));

} // namespace
} // namespace opc::ops
