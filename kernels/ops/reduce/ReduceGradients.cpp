// Gradient rules of the reductions, the scans, the sort and the losses that are reductions.
// SPDX-License-Identifier: Apache-2.0
#include "reduce/ReduceOp.h"
#include "support/GradientSteps.h"

namespace opc::ops::reduce {
namespace {

using Ints = std::vector<int32_t>;

/// A reduction over axes: its input, its axes, and its output and gradient with the axes kept as 1.
struct Reduction {
  Reduction(GradientRule &rule, const char *inArg, const char *outArg, const char *axisAttr, bool emptyIsAll)
      : g(rule), in(rule.x(inArg)), shape(rule.shape(inArg)), outShape(rule.shape(outArg)), out(outArg) {
    axes = valueOf(resolveAxes(rule.attr<Ints>(axisAttr), shape.NumAxes()));
    if (axes.empty() && emptyIsAll)
      for (int64_t a = 0; a < shape.NumAxes(); ++a) axes.push_back(a);
    kept = reducedShape(shape, axes, true);
  }
  Ints axisList() const { return Ints(axes.begin(), axes.end()); }
  int64_t count() const {
    int64_t n = 1;
    for (int64_t a : axes) n *= shape.At(a);
    return n;
  }
  std::string keptDy() const { return reshaped(g, g.dy(out), outShape, kept, "dy_kept"); }
  std::string keptOut() const { return reshaped(g, g.y(out), outShape, kept, "out_kept"); }
  /// A tensor of the output's shape repeated to the input's.
  std::string repeated(const std::string &a, const std::string &suffix) const {
    return repeatedLike(g, a, outShape, in, shape, axes, suffix);
  }
  GradientRule &g;
  std::string in;
  Shape shape, outShape, kept;
  std::string out;
  std::vector<int64_t> axes;
};
Reduction reduction(GradientRule &g) { return Reduction(g, "input_tensor", "output_tensor", "axis", false); }

void sumGradient(GradientRule &g) {
  if (g.needs("input_tensor")) g.bind("input_tensor", reduction(g).repeated(g.dy("output_tensor"), "input"));
}
REGISTER_USER_OP_GRAD("reduce_sum").SetBackwardOpConfGenFn(gradientRule(sumGradient));

/// The division comes first: it is the smaller tensor.
void meanGradient(GradientRule &g) {
  if (!g.needs("input_tensor")) return;
  const Reduction r = reduction(g);
  const double n = static_cast<double>(std::max<int64_t>(1, r.count()));
  const std::string share = n == 1 ? g.dy("output_tensor") : g.scale(g.dy("output_tensor"), 1 / n, "share");
  g.bind("input_tensor", r.repeated(share, "input"));
}
REGISTER_USER_OP_GRAD("reduce_mean").SetBackwardOpConfGenFn(gradientRule(meanGradient));

void nanSumGradient(GradientRule &g) {
  if (!g.needs("input_tensor")) return;
  const Reduction r = reduction(g);
  const std::string full = r.repeated(g.dy("output_tensor"), "repeated");
  const std::string nan = g.add("isnan", "is_nan").in("in", r.in).out();
  g.bind("input_tensor", g.add("masked_fill", "input")
                             .in("x", full)
                             .in("mask", nan)
                             .attr("has_float_operand", true)
                             .attr("float_operand", 0.0)
                             .out());
}
REGISTER_USER_OP_GRAD("reduce_nansum").SetBackwardOpConfGenFn(gradientRule(nanSumGradient));

/// Elements that tie share the gradient evenly, as in OneFlow and PyTorch's amax.
void extremeGradient(GradientRule &g) {
  if (!g.needs("input_tensor")) return;
  const Reduction r = reduction(g);
  const std::string isExtreme = binary(g, "broadcast_equal", r.in, r.keptOut(), "is_extreme");
  const std::string mask = g.add("cast_like", "mask").in("in", isExtreme).in("dtype_like", r.in).out();
  const std::string ties = summed(g, mask, r.axisList(), true, "ties");
  const std::string share = binary(g, "broadcast_div", r.keptDy(), ties, "share");
  g.bind("input_tensor", binary(g, "broadcast_mul", mask, share, "input"));
}
REGISTER_USER_OP_GRAD("reduce_max").SetBackwardOpConfGenFn(gradientRule(extremeGradient));
REGISTER_USER_OP_GRAD("reduce_min").SetBackwardOpConfGenFn(gradientRule(extremeGradient));

void prodGradient(GradientRule &g) {
  if (g.needs("input_tensor"))
    g.bind("input_tensor", g.add("reduce_prod_grad", "input")
                               .in("x", g.x("input_tensor"))
                               .in("dy", reduction(g).keptDy())
                               .same({"axis"})
                               .out("dx"));
}
REGISTER_USER_OP_GRAD("reduce_prod").SetBackwardOpConfGenFn(gradientRule(prodGradient));

/// dx = dy * prod(x) / x, for x without zeros: with q = dy / x, dx = q p; the gradient by dy is sum(ddx / x) p, by x
/// (sum(ddx q) - ddx q) p / x.
void prodGradGradient(GradientRule &g) {
  const Reduction r(g, "x", "dy", "axis", false);
  const std::string p = g.add("reduce_prod", "prod")
                            .in("input_tensor", r.in)
                            .attr("axis", r.axisList())
                            .attr("keepdims", true)
                            .out("output_tensor");
  const std::string ratio = binary(g, "broadcast_div", g.dy("dx"), r.in, "ratio");
  const std::string total = summed(g, ratio, r.axisList(), true, "total");
  if (g.needs("dy")) g.bind("dy", binary(g, "broadcast_mul", total, p, "dy"));
  if (!g.needs("x")) return;
  const std::string rest = binary(g, "broadcast_sub", total, ratio, "rest");
  const std::string weight = binary(g, "broadcast_mul", p, g.x("dy"), "weight");
  const std::string scaled = binary(g, "broadcast_mul", rest, weight, "scaled");
  g.bind("x", binary(g, "broadcast_div", scaled, r.in, "x"));
}
REGISTER_USER_OP_GRAD("reduce_prod_grad").SetBackwardOpConfGenFn(gradientRule(prodGradGradient));

/// d x = dy exp(x - out).
void logSumExpGradient(GradientRule &g) {
  if (!g.needs("input_tensor")) return;
  const Reduction r = reduction(g);
  const std::string shifted = binary(g, "broadcast_sub", r.in, r.keptOut(), "shifted");
  const std::string share = unary(g, "exp", shifted, "share");
  g.bind("input_tensor", binary(g, "broadcast_mul", share, r.keptDy(), "input"));
}
REGISTER_USER_OP_GRAD("logsumexp").SetBackwardOpConfGenFn(gradientRule(logSumExpGradient));

/// d x = dy 2 (x - mean) / divisor.
void varGradient(GradientRule &g) {
  if (!g.needs("input")) return;
  const Reduction r(g, "input", "output", "dim", true);
  const int64_t n = r.count();
  const double divisor = static_cast<double>(g.attr<bool>("unbiased") ? n - 1 : n);
  const std::string mean = g.add("reduce_mean", "mean")
                               .in("input_tensor", r.in)
                               .attr("axis", r.axisList())
                               .attr("keepdims", true)
                               .out("output_tensor");
  const std::string centered = binary(g, "broadcast_sub", r.in, mean, "centered");
  const std::string share = g.scale(r.keptDy(), 2 / divisor, "share");
  g.bind("input", binary(g, "broadcast_mul", centered, share, "input"));
}
REGISTER_USER_OP_GRAD("var").SetBackwardOpConfGenFn(gradientRule(varGradient));

void sumLikeGradient(GradientRule &g) {
  if (!g.needs("x")) return;
  const Shape &x = g.shape("x"), &y = g.shape("y");
  const auto axes = valueOf(resolveAxes(g.attr<Ints>("axis"), x.NumAxes()));
  const Shape kept = reducedShape(x, axes, true);
  const std::string dy = reshaped(g, g.dy("y"), y, kept, "dy_kept");
  g.bind("x", repeatedLike(g, dy, kept, g.x("x"), x, axes, "x"));
}
REGISTER_USER_OP_GRAD("reduce_sum_like").SetBackwardOpConfGenFn(gradientRule(sumLikeGradient));

/// y = sum of x^2 over all inputs: d x = 2 dy x.
void squareSumGradient(GradientRule &g) {
  std::string twice;
  for (int32_t i = 0; i < g.op().input_size("x"); ++i) {
    if (!g.needs("x", i)) continue;
    if (twice.empty()) twice = g.scale(g.dy("y"), 2, "twice");
    const std::string suffix = "x" + std::to_string(i);
    // A scalar times a tensor of one element would be a tensor of one element.
    const std::string factor =
        g.shape("x", i).NumAxes() > 0 ? twice : reshaped(g, twice, Shape{1}, Shape{}, suffix + "_scalar");
    g.bind("x", i, g.add("scalar_mul_by_tensor", suffix).in("x", g.x("x", i)).in("scalar", factor).out("y"));
  }
}
REGISTER_USER_OP_GRAD("square_sum").SetBackwardOpConfGenFn(gradientRule(squareSumGradient));
REGISTER_USER_OP_GRAD("multi_square_sum").SetBackwardOpConfGenFn(gradientRule(squareSumGradient));

// --- scans and sorting -----------------------------------------------------------------------------------------------

std::string flipped(GradientRule &g, const std::string &a, int64_t axis, const std::string &suffix) {
  return g.add("flip", suffix).in("x", a).attr("dims", Ints{static_cast<int32_t>(axis)}).out("y");
}

/// A running sum from the other end.
std::string reverseCumsum(GradientRule &g, const std::string &a, int64_t axis, const std::string &suffix) {
  const std::string back = flipped(g, a, axis, suffix + "_flipped");
  const std::string sums = g.add("cumsum", suffix + "_sums").in("x", back).attr("dim", axis).out("y");
  return flipped(g, sums, axis, suffix);
}

void cumsumGradient(GradientRule &g) {
  if (g.needs("x")) g.bind("x", reverseCumsum(g, g.dy("y"), g.attr<int64_t>("dim"), "x"));
}
REGISTER_USER_OP_GRAD("cumsum").SetBackwardOpConfGenFn(gradientRule(cumsumGradient));

void cumprodGradient(GradientRule &g) {
  if (g.needs("x"))
    g.bind("x", g.add("cumprod_grad", "x")
                    .in("dy", g.dy("y"))
                    .in("output", g.y("y"))
                    .in("input", g.x("x"))
                    .same({"dim"})
                    .out("dx"));
}
REGISTER_USER_OP_GRAD("cumprod").SetBackwardOpConfGenFn(gradientRule(cumprodGradient));

/// dx = reverseCumsum(dy y) / x, for x without zeros. With s = cumsum(ddx / x): the gradient by dy is s y, by y s dy,
/// by x -ddx dx / x.
void cumprodGradGradient(GradientRule &g) {
  const int64_t axis = g.attr<int64_t>("dim");
  const std::string ratio = binary(g, "broadcast_div", g.dy("dx"), g.x("input"), "ratio");
  const std::string sums = g.add("cumsum", "sums").in("x", ratio).attr("dim", axis).out("y");
  if (g.needs("dy")) g.bind("dy", g.multiply(sums, g.x("output"), "dy"));
  if (g.needs("output")) g.bind("output", g.multiply(sums, g.x("dy"), "output"));
  if (g.needs("input")) g.bind("input", g.scale(g.multiply(ratio, g.y("dx"), "input_ratio"), -1, "input"));
}
REGISTER_USER_OP_GRAD("cumprod_grad").SetBackwardOpConfGenFn(gradientRule(cumprodGradGradient));

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
