// Gradient rules of gather and batch_gather.
// SPDX-License-Identifier: Apache-2.0
#include "support/Axes.h"
#include "support/GradientSteps.h"

namespace opc::ops {
namespace {

void gatherGradient(GradientRule &g) {
  if (!g.needs("in")) return;
  const int64_t axis = valueOf(resolveAxis(g.attr<int64_t>("axis"), g.shape("in").NumAxes()));
  std::string dy = g.dy("out"), indices = g.x("indices");
  if (g.shape("indices").NumAxes() == 0) { // the axis that the index took away comes back with size 1
    DimVector dims = g.shape("in").dim_vec();
    dims[static_cast<size_t>(axis)] = 1;
    dy = reshaped(g, dy, g.shape("out"), Shape(dims), "dy_kept");
    indices = reshaped(g, indices, Shape{}, Shape{1}, "index");
  }
  g.bind("in", g.add("unsorted_segment_sum_like", "in")
                   .in("data", dy)
                   .in("segment_ids", indices)
                   .in("like", g.x("in"))
                   .attr("axis", axis)
                   .out());
}
REGISTER_USER_OP_GRAD("gather").SetBackwardOpConfGenFn(gradientRule(gatherGradient));

void batchGatherGradient(GradientRule &g) {
  if (g.needs("in"))
    g.bind("in", g.add("unsorted_batch_segment_sum", "in")
                     .in("data", g.dy("out"))
                     .in("segment_ids", g.x("indices"))
                     .attr("num_segments", g.shape("in").At(g.shape("indices").NumAxes() - 1))
                     .out());
}
REGISTER_USER_OP_GRAD("batch_gather").SetBackwardOpConfGenFn(gradientRule(batchGatherGradient));

} // namespace
} // namespace opc::ops
