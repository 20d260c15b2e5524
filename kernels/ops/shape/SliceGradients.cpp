// Gradient rules of the ops that cut tensors apart and put them together.
// SPDX-License-Identifier: Apache-2.0
#include "support/Axes.h"
#include "support/GradientSteps.h"

namespace opc::ops {
namespace {

using List = std::vector<int64_t>;

std::string narrowed(GradientRule &g, const std::string &a, int64_t axis, int64_t start, int64_t length,
                     const std::string &suffix) {
  return g.add("narrow", suffix).in("in", a).attr("dim", axis).attr("start", start).attr("length", length).out();
}

// --- boxes -----------------------------------------------------------------------------------------------------------

void sliceGradient(GradientRule &g) {
  if (g.needs("x"))
    g.bind("x", g.add("slice_grad", "x")
                    .in("dy", g.dy("y"))
                    .attr("like_shape", g.shape("x"))
                    .same({"start", "stop", "step"})
                    .out("dx"));
}
REGISTER_USER_OP_GRAD("slice").SetBackwardOpConfGenFn(gradientRule(sliceGradient));

void sliceGradGradient(GradientRule &g) {
  if (g.needs("dy")) g.bind("dy", g.add("slice", "dy").in("x", g.dy("dx")).same({"start", "stop", "step"}).out("y"));
}
REGISTER_USER_OP_GRAD("slice_grad").SetBackwardOpConfGenFn(gradientRule(sliceGradGradient));

void narrowGradient(GradientRule &g) {
  if (!g.needs("in")) return;
  const Shape &in = g.shape("in");
  const int64_t axis = valueOf(resolveAxis(g.attr<int64_t>("dim"), in.NumAxes()));
  const int64_t given = g.attr<int64_t>("start"), start = given < 0 ? given + in.At(axis) : given;
  List first(static_cast<size_t>(in.NumAxes()), 0), end = in.dim_vec(), step(first.size(), 1);
  first[static_cast<size_t>(axis)] = start;
  end[static_cast<size_t>(axis)] = start + g.attr<int64_t>("length");
  g.bind("in", g.add("slice_grad", "in")
                   .in("dy", g.dy("out"))
                   .attr("like_shape", in)
                   .attr("start", first)
                   .attr("stop", end)
                   .attr("step", step)
                   .out("dx"));
}
REGISTER_USER_OP_GRAD("narrow").SetBackwardOpConfGenFn(gradientRule(narrowGradient));

void narrowGradGradient(GradientRule &g) {
  if (g.needs("dy")) g.bind("dy", g.add("narrow", "dy").in("in", g.dy("dx")).same({"dim", "start", "length"}).out());
}
REGISTER_USER_OP_GRAD("narrow_grad").SetBackwardOpConfGenFn(gradientRule(narrowGradGradient));

/// What value replaced gets no gradient.
void sliceUpdateGradient(GradientRule &g) {
  if (g.needs("ref")) {
    const std::string zeros = g.add("zero_like", "ref_zeros").in("like", g.x("value")).out();
    g.bind(
        "ref",
        g.add("slice_update", "ref").in("ref", g.dy("y")).in("value", zeros).same({"start", "stop", "step"}).out("y"));
  }
  if (g.needs("value"))
    g.bind("value", g.add("slice", "value").in("x", g.dy("y")).same({"start", "stop", "step"}).out("y"));
}
REGISTER_USER_OP_GRAD("slice_update").SetBackwardOpConfGenFn(gradientRule(sliceUpdateGradient));

// --- joining ---------------------------------------------------------------------------------------------------------

/// Few inputs: a piece for each that wants one, and nothing of the forward graph kept. Many: one split_like.
void catGradient(GradientRule &g) {
  const int32_t n = g.op().input_size("in");
  const int64_t axis = valueOf(resolveAxis(g.attr<int64_t>("axis"), g.shape("out").NumAxes()));
  int32_t wanted = 0;
  for (int32_t i = 0; i < n; ++i) wanted += g.needs("in", i);
  if (wanted == 0) return;
  if (wanted <= 3) {
    int64_t start = 0;
    for (int32_t i = 0; i < n; ++i) {
      const int64_t length = g.shape("in", i).At(axis);
      if (g.needs("in", i)) g.bind("in", i, narrowed(g, g.dy("out"), axis, start, length, "in" + std::to_string(i)));
      start += length;
    }
    return;
  }
  auto split = g.add("split_like", "in");
  split.in("in", g.dy("out")).attr("axis", axis).output("out", n);
  for (int32_t i = 0; i < n; ++i) split.in("like", g.x("in", i));
  for (int32_t i = 0; i < n; ++i) g.bind("in", i, split.out("out", i));
}
REGISTER_USER_OP_GRAD("cat").SetBackwardOpConfGenFn(gradientRule(catGradient));
REGISTER_USER_OP_GRAD("concat").SetBackwardOpConfGenFn(gradientRule(catGradient));

void stackGradient(GradientRule &g) {
  const int64_t axis = valueOf(resolveAxis(g.attr<int64_t>("axis"), g.shape("out").NumAxes()));
  for (int32_t i = 0; i < g.op().input_size("in"); ++i) {
    if (!g.needs("in", i)) continue;
    const std::string suffix = "in" + std::to_string(i);
    const std::string piece = narrowed(g, g.dy("out"), axis, i, 1, suffix + "_piece");
    g.bind("in", i, g.add("reshape", suffix).in("in", piece).attr("shape", g.shape("in", i)).out());
  }
}
REGISTER_USER_OP_GRAD("stack").SetBackwardOpConfGenFn(gradientRule(stackGradient));

/// An output that nobody used has a gradient of zeros.
void splitLikeGradient(GradientRule &g) {
  if (!g.needs("in")) return;
  auto joined = g.add("cat", "in");
  for (int32_t i = 0; i < g.op().output_size("out"); ++i) joined.in("in", g.dy("out", i));
  g.bind("in", joined.same({"axis"}).out());
}
REGISTER_USER_OP_GRAD("split_like").SetBackwardOpConfGenFn(gradientRule(splitLikeGradient));

// --- padding ---------------------------------------------------------------------------------------------------------

/// Negated paddings cut what was added, and put zeros where the forward op cut.
void padGradient(GradientRule &g) {
  if (!g.needs("x")) return;
  const auto negated = [&](const char *name) {
    List list = g.attr<List>(name);
    for (int64_t &p : list) p = -p;
    return list;
  };
  if (g.op().op_type_name() == "pad") {
    g.bind("x", g.add("pad", "x")
                    .in("x", g.dy("y"))
                    .attr("padding_before", negated("padding_before"))
                    .attr("padding_after", negated("padding_after"))
                    .attr("padding", negated("padding"))
                    .out("y"));
    return;
  }
  g.bind("x", g.add(g.op().op_type_name(), "x").in("x", g.dy("y")).attr("padding", negated("padding")).out("y"));
}
REGISTER_USER_OP_GRAD("pad").SetBackwardOpConfGenFn(gradientRule(padGradient));
REGISTER_USER_OP_GRAD("constant_pad1d").SetBackwardOpConfGenFn(gradientRule(padGradient));
REGISTER_USER_OP_GRAD("constant_pad2d").SetBackwardOpConfGenFn(gradientRule(padGradient));
REGISTER_USER_OP_GRAD("constant_pad3d").SetBackwardOpConfGenFn(gradientRule(padGradient));

void edgePadGradient(GradientRule &g) {
  if (g.needs("x"))
    g.bind(
        "x",
        g.add(g.op().op_type_name() + "_grad", "x").in("dy", g.dy("y")).in("x", g.x("x")).same({"padding"}).out("dx"));
}
/// The gradient is linear: its own gradient is the pad.
void edgePadGradGradient(GradientRule &g) {
  const std::string &type = g.op().op_type_name();
  if (g.needs("dy"))
    g.bind("dy", g.add(type.substr(0, type.size() - 5), "dy").in("x", g.dy("dx")).same({"padding"}).out("y"));
}
#define OPC_EDGE_PAD_GRADIENTS(op)                                                                                     \
  REGISTER_USER_OP_GRAD(op).SetBackwardOpConfGenFn(gradientRule(edgePadGradient));                                     \
  REGISTER_USER_OP_GRAD(op "_grad").SetBackwardOpConfGenFn(gradientRule(edgePadGradGradient))
OPC_EDGE_PAD_GRADIENTS("reflection_pad1d");
OPC_EDGE_PAD_GRADIENTS("reflection_pad2d");
OPC_EDGE_PAD_GRADIENTS("replication_pad1d");
OPC_EDGE_PAD_GRADIENTS("replication_pad2d");

// --- patches ---------------------------------------------------------------------------------------------------------

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

void foldGradient(GradientRule &g) {
  if (g.needs("x"))
    g.bind("x", g.add("unfold", "x")
                    .in("x", g.dy("y"))
                    .same({"data_format", "kernel_size", "padding", "strides", "dilation_rate"})
                    .out("y"));
}
REGISTER_USER_OP_GRAD("fold").SetBackwardOpConfGenFn(gradientRule(foldGradient));

} // namespace
} // namespace opc::ops
