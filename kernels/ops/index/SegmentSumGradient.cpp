// Gradient rules of the segment sums.
// SPDX-License-Identifier: Apache-2.0
#include "support/Axes.h"
#include "support/LinearGradient.h"

namespace opc::ops {
namespace {

void segmentSumGradient(GradientRule &g) {
  if (g.needs("data"))
    g.bind("data", g.add("gather", "data")
                       .in("in", g.dy("out"))
                       .in("indices", g.x("segment_ids"))
                       .attr("axis", valueOf(resolveAxis(g.attr<int64_t>("axis"), g.shape("out").NumAxes())))
                       .out());
}
REGISTER_USER_OP_GRAD("unsorted_segment_sum").SetBackwardOpConfGenFn(gradientRule(segmentSumGradient));
REGISTER_USER_OP_GRAD("unsorted_segment_sum_like").SetBackwardOpConfGenFn(gradientRule(segmentSumGradient));

REGISTER_USER_OP_GRAD("unsorted_batch_segment_sum")
    .SetBackwardOpConfGenFn(linearGradient({"data", "out"}, "batch_gather", {"in", "out"}, {},
                                           {{"indices", "segment_ids"}}));

} // namespace
} // namespace opc::ops
