// Gradient rules of the ops that only reshape, move or repeat elements.
// SPDX-License-Identifier: Apache-2.0
#include "support/Axes.h"
#include "support/GradientSteps.h"

namespace opc::ops {
namespace {

using Ints = std::vector<int32_t>;

/// reshape, flatten, expand_dims, squeeze, identity, copy: the same elements under the input's shape.
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

void transposeGradient(GradientRule &g) {
  if (!g.needs("input")) return;
  const auto &perm = g.attr<Ints>("perm");
  const int64_t rank = g.shape("input").NumAxes();
  Ints inverse(perm.size());
  for (size_t i = 0; i < perm.size(); ++i)
    inverse[static_cast<size_t>(valueOf(resolveAxis(perm[i], rank)))] = static_cast<int32_t>(i);
  g.bind("input", g.add("transpose", "input").in("input", g.dy("output")).attr("perm", inverse).out("output"));
}
REGISTER_USER_OP_GRAD("transpose").SetBackwardOpConfGenFn(gradientRule(transposeGradient));

void expandGradient(GradientRule &g) {
  if (g.needs("in")) g.bind("in", g.reduceLike(g.dy("out"), g.shape("out"), g.x("in"), g.shape("in"), "in"));
}
REGISTER_USER_OP_GRAD("expand").SetBackwardOpConfGenFn(gradientRule(expandGradient));

/// The axes of like along which x is repeated: those it has with size 1, and those it lacks.
void broadcastLikeGradient(GradientRule &g) {
  if (!g.needs("x")) return;
  const Shape &x = g.shape("x"), &like = g.shape("like");
  const auto listed = valueOf(resolveAxes(g.attr<Ints>("broadcast_axes"), like.NumAxes()));
  if (listed.empty() || x.NumAxes() == like.NumAxes()) {
    g.bind("x", g.reduceLike(g.dy("y"), like, g.x("x"), x, "x"));
    return;
  }
  const Ints axes(listed.begin(), listed.end());
  g.bind("x", g.add("reduce_sum_like", "x").in("x", g.dy("y")).in("like", g.x("x")).attr("axis", axes).out("y"));
}
REGISTER_USER_OP_GRAD("broadcast_like").SetBackwardOpConfGenFn(gradientRule(broadcastLikeGradient));

void flipGradient(GradientRule &g) {
  if (g.needs("x")) g.bind("x", g.add("flip", "x").in("x", g.dy("y")).same({"dims"}).out("y"));
}
REGISTER_USER_OP_GRAD("flip").SetBackwardOpConfGenFn(gradientRule(flipGradient));

void rollGradient(GradientRule &g) {
  if (!g.needs("in")) return;
  Ints back;
  for (int32_t s : g.attr<Ints>("shifts")) back.push_back(s == INT32_MIN ? s : -s);
  g.bind("in", g.add("roll", "in").in("in", g.dy("out")).same({"dims"}).attr("shifts", back).out());
}
REGISTER_USER_OP_GRAD("roll").SetBackwardOpConfGenFn(gradientRule(rollGradient));

/// The other triangle holds a constant, which no input changes.
void trilGradient(GradientRule &g) {
  if (g.needs("in")) g.bind("in", g.add("tril", "in").in("in", g.dy("out")).same({"diagonal"}).out());
}
REGISTER_USER_OP_GRAD("tril").SetBackwardOpConfGenFn(gradientRule(trilGradient));

void triuGradient(GradientRule &g) {
  if (g.needs("in")) g.bind("in", g.add("triu", "in").in("in", g.dy("out")).same({"diagonal"}).out());
}
REGISTER_USER_OP_GRAD("triu").SetBackwardOpConfGenFn(gradientRule(triuGradient));

/// diag of a vector takes its diagonal back; diag of a matrix puts it back, into diagonal_grad's zeros.
void diagGradient(GradientRule &g) {
  if (!g.needs("in")) return;
  const int32_t k = g.attr<int32_t>("diagonal");
  if (g.shape("in").NumAxes() == 1)
    g.bind("in", g.add("diag", "in").in("in", g.dy("out")).attr("diagonal", k).out());
  else
    g.bind("in", g.add("diagonal_grad", "in").in("dy", g.dy("out")).in("in", g.x("in")).attr("offset", k).out("dx"));
}
REGISTER_USER_OP_GRAD("diag").SetBackwardOpConfGenFn(gradientRule(diagGradient));

void diagonalGradient(GradientRule &g) {
  if (g.needs("in"))
    g.bind("in", g.add("diagonal_grad", "in").in("dy", g.dy("out")).in("in", g.x("in")).same({"offset"}).out("dx"));
}
REGISTER_USER_OP_GRAD("diagonal").SetBackwardOpConfGenFn(gradientRule(diagonalGradient));

void diagonalGradGradient(GradientRule &g) {
  if (g.needs("dy")) g.bind("dy", g.add("diagonal", "dy").in("in", g.dy("dx")).same({"offset"}).out());
}
REGISTER_USER_OP_GRAD("diagonal_grad").SetBackwardOpConfGenFn(gradientRule(diagonalGradGradient));

} // namespace
} // namespace opc::ops
