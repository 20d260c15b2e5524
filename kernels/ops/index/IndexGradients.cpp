// Gradient rules of the gathers, the scatters and the segment sums.
// SPDX-License-Identifier: Apache-2.0
#include "support/Axes.h"
#include "support/GradientSteps.h"

namespace opc::ops {
namespace {

// --- gathers ---------------------------------------------------------------------------------------------------------

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

void dimGatherGradient(GradientRule &g) {
  if (g.needs("input"))
    g.bind("input", g.add("dim_scatter_add_like", "input")
                        .in("like", g.x("input"))
                        .in("index", g.x("index"))
                        .in("src", g.dy("output"))
                        .same({"dim"})
                        .out("output"));
}
REGISTER_USER_OP_GRAD("dim_gather").SetBackwardOpConfGenFn(gradientRule(dimGatherGradient));

void gatherNdGradient(GradientRule &g) {
  if (g.needs("params"))
    g.bind("params", g.add("scatter_nd_like", "params")
                         .in("like", g.x("params"))
                         .in("indices", g.x("indices"))
                         .in("updates", g.dy("out"))
                         .out());
}
REGISTER_USER_OP_GRAD("gather_nd").SetBackwardOpConfGenFn(gradientRule(gatherNdGradient));

// --- segment sums ----------------------------------------------------------------------------------------------------

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

void batchSegmentSumGradient(GradientRule &g) {
  if (g.needs("data"))
    g.bind("data", g.add("batch_gather", "data").in("in", g.dy("out")).in("indices", g.x("segment_ids")).out());
}
REGISTER_USER_OP_GRAD("unsorted_batch_segment_sum").SetBackwardOpConfGenFn(gradientRule(batchSegmentSumGradient));

// --- scatters of slices ----------------------------------------------------------------------------------------------

std::string gatheredNd(GradientRule &g, const std::string &a, const std::string &suffix) {
  return g.add("gather_nd", suffix).in("params", a).in("indices", g.x("indices")).out();
}

void scatterNdGradient(GradientRule &g) {
  if (g.needs("params")) g.bind("params", g.dy("out"));
  if (g.needs("updates")) g.bind("updates", gatheredNd(g, g.dy("out"), "updates"));
}
REGISTER_USER_OP_GRAD("scatter_nd").SetBackwardOpConfGenFn(gradientRule(scatterNdGradient));
REGISTER_USER_OP_GRAD("scatter_nd_like").SetBackwardOpConfGenFn(gradientRule(scatterNdGradient));
REGISTER_USER_OP_GRAD("tensor_scatter_nd_add").SetBackwardOpConfGenFn(gradientRule(scatterNdGradient));

/// Of updates for one place the last one counts; the others have no gradient.
void scatterNdUpdateGradient(GradientRule &g) {
  if (g.needs("params")) {
    const std::string zeros = g.add("zero_like", "params_zeros").in("like", g.x("updates")).out();
    g.bind("params", g.add("tensor_scatter_nd_update", "params")
                         .in("params", g.dy("out"))
                         .in("updates", zeros)
                         .in("indices", g.x("indices"))
                         .out());
  }
  if (g.needs("updates"))
    g.bind("updates", g.add("tensor_scatter_nd_update_grad", "updates")
                          .in("dy", g.dy("out"))
                          .in("indices", g.x("indices"))
                          .out("dx"));
}
REGISTER_USER_OP_GRAD("tensor_scatter_nd_update").SetBackwardOpConfGenFn(gradientRule(scatterNdUpdateGradient));

/// The places that were read, written where they came from: those that were not read get zeros.
void scatterNdUpdateGradGradient(GradientRule &g) {
  if (!g.needs("dy")) return;
  const std::string zeros = g.add("zero_like", "dy_zeros").in("like", g.x("dy")).out();
  g.bind("dy", g.add("tensor_scatter_nd_update", "dy")
                   .in("params", zeros)
                   .in("updates", g.dy("dx"))
                   .in("indices", g.x("indices"))
                   .out());
}
REGISTER_USER_OP_GRAD("tensor_scatter_nd_update_grad")
    .SetBackwardOpConfGenFn(gradientRule(scatterNdUpdateGradGradient));

// --- scatters along an axis ------------------------------------------------------------------------------------------

/// `a`, which has the shape of index, in the shape of src: what index does not reach of src has no gradient.
std::string likeSource(GradientRule &g, const std::string &a) {
  const Shape &index = g.shape("index"), &src = g.shape("src");
  if (index == src) return a;
  const size_t rank = static_cast<size_t>(src.NumAxes());
  return g.add("slice_grad", "src_rest")
      .in("dy", a)
      .attr("like_shape", src)
      .attr("start", std::vector<int64_t>(rank, 0))
      .attr("stop", index.dim_vec())
      .attr("step", std::vector<int64_t>(rank, 1))
      .out("dx");
}
std::string dimGathered(GradientRule &g, const std::string &a, const std::string &suffix) {
  return g.add("dim_gather", suffix).in("input", a).in("index", g.x("index")).same({"dim"}).out("output");
}

void dimScatterAddGradient(GradientRule &g) {
  if (g.needs("input")) g.bind("input", g.dy("output"));
  if (g.needs("src")) g.bind("src", likeSource(g, dimGathered(g, g.dy("output"), "src")));
}
REGISTER_USER_OP_GRAD("dim_scatter_add").SetBackwardOpConfGenFn(gradientRule(dimScatterAddGradient));
REGISTER_USER_OP_GRAD("dim_scatter_add_like").SetBackwardOpConfGenFn(gradientRule(dimScatterAddGradient));

void dimScatterUpdateGradient(GradientRule &g) {
  if (g.needs("input")) {
    const std::string zeros = g.add("zero_like", "input_zeros").in("like", g.x("src")).out();
    g.bind("input", g.add("dim_scatter_update", "input")
                        .in("input", g.dy("output"))
                        .in("index", g.x("index"))
                        .in("src", zeros)
                        .same({"dim"})
                        .out("output"));
  }
  if (g.needs("src"))
    g.bind("src", likeSource(g, g.add("dim_scatter_update_grad", "src")
                                    .in("dy", g.dy("output"))
                                    .in("index", g.x("index"))
                                    .same({"dim"})
                                    .out("dx")));
}
REGISTER_USER_OP_GRAD("dim_scatter_update").SetBackwardOpConfGenFn(gradientRule(dimScatterUpdateGradient));

void dimScatterUpdateGradGradient(GradientRule &g) {
  if (!g.needs("dy")) return;
  const std::string zeros = g.add("zero_like", "dy_zeros").in("like", g.x("dy")).out();
  g.bind("dy", g.add("dim_scatter_update", "dy")
                   .in("input", zeros)
                   .in("index", g.x("index"))
                   .in("src", g.dy("dx"))
                   .same({"dim"})
                   .out("output"));
}
REGISTER_USER_OP_GRAD("dim_scatter_update_grad").SetBackwardOpConfGenFn(gradientRule(dimScatterUpdateGradGradient));

std::string scaledByDim(GradientRule &g, const std::string &input, const std::string &src, const char *suffix) {
  return g.add("dim_scatter_mul", suffix)
      .in("input", input)
      .in("index", g.x("index"))
      .in("src", src)
      .same({"dim"})
      .out("output");
}

/// output = input times the factors of src: d input is dy times the same factors.
void dimScatterMulGradient(GradientRule &g) {
  if (g.needs("input")) g.bind("input", scaledByDim(g, g.dy("output"), g.x("src"), "input"));
  if (!g.needs("src")) return;
  const Shape &index = g.shape("index"), &src = g.shape("src");
  std::string used = g.x("src");
  if (src != index)
    used = g.add("slice", "src_used")
               .in("x", used)
               .attr("start", std::vector<int64_t>(src.dim_vec().size(), 0))
               .attr("stop", index.dim_vec())
               .attr("step", std::vector<int64_t>(src.dim_vec().size(), 1))
               .out("y");
  g.bind("src", likeSource(g, g.add("dim_scatter_mul_grad", "src")
                                  .in("dy", g.dy("output"))
                                  .in("input", g.x("input"))
                                  .in("index", g.x("index"))
                                  .in("src", used)
                                  .same({"dim"})
                                  .out("dsrc")));
}
REGISTER_USER_OP_GRAD("dim_scatter_mul").SetBackwardOpConfGenFn(gradientRule(dimScatterMulGradient));

/// dsrc = (dy input P)[index] / src with P the product of a place's factors, for factors that are not 0. With r = ddsrc
/// / src and S the sum of r over a place: d dy = S input P, d input = S dy P, d src = (S[index] - r) dsrc.
void dimScatterMulGradGradient(GradientRule &g) {
  const std::string r = binary(g, "broadcast_div", g.dy("dsrc"), g.x("src"), "ratio");
  const std::string sums = g.add("dim_scatter_add_like", "sums")
                               .in("like", g.x("input"))
                               .in("index", g.x("index"))
                               .in("src", r)
                               .same({"dim"})
                               .out("output");
  if (g.needs("dy")) g.bind("dy", g.multiply(sums, scaledByDim(g, g.x("input"), g.x("src"), "dy_scaled"), "dy"));
  if (g.needs("input"))
    g.bind("input", g.multiply(sums, scaledByDim(g, g.x("dy"), g.x("src"), "input_scaled"), "input"));
  if (g.needs("src"))
    g.bind("src", g.multiply(binary(g, "broadcast_sub", dimGathered(g, sums, "src_sums"), r, "src_others"), g.y("dsrc"),
                             "src"));
}
REGISTER_USER_OP_GRAD("dim_scatter_mul_grad").SetBackwardOpConfGenFn(gradientRule(dimScatterMulGradGradient));

// --- embedding -------------------------------------------------------------------------------------------------------

void embeddingGradient(GradientRule &g) {
  if (g.needs("weight"))
    g.bind("weight", g.add("embedding_grad", "weight")
                         .in("dy", g.dy("out"))
                         .in("weight", g.x("weight"))
                         .in("indices", g.x("indices"))
                         .same({"padding_idx", "scale_grad_by_freq"})
                         .out("dx"));
}
REGISTER_USER_OP_GRAD("embedding").SetBackwardOpConfGenFn(gradientRule(embeddingGradient));

} // namespace
} // namespace opc::ops
