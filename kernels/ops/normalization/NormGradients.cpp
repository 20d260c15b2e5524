// Gradient rules of the normalisations, of their statistics, and of their gradients.
// SPDX-License-Identifier: Apache-2.0
#include "NormRules.h"
#include "support/Axes.h"
#include "support/GradientSteps.h"

#include <functional>

namespace opc::ops {
namespace {

using Ints = std::vector<int32_t>;
using Strings = std::vector<std::string>;

/// How a normalisation sees x: in the shape `view`, normalised over `axes`; statistics have the shape `stat` and the
/// parameters `parameter`, both of which broadcast to the view.
struct NormView {
  Shape view, stat, parameter;
  Ints axes;
  bool centered = true; // a mean is subtracted (not for rms_norm)
  const char *mean = "mean", *inverse = "inv_variance", *gamma = "gamma";

  double count() const {
    int64_t n = 1;
    for (int32_t a : axes) n *= view.At(a);
    return static_cast<double>(n);
  }
};

/// Leading dimensions are kept, the others normalised.
NormView trailingView(const Shape &x, int64_t begin, const Shape &parameter) {
  NormView v;
  v.view = x;
  DimVector stat(x.begin(), x.begin() + begin);
  for (int64_t a = begin; a < x.NumAxes(); ++a) {
    stat.push_back(1);
    v.axes.push_back(static_cast<int32_t>(a));
  }
  v.stat = Shape(stat);
  v.parameter = parameter;
  return v;
}
NormView layerView(GradientRule &g, int64_t begin) {
  Shape parameter;
  if (g.hasInput("gamma")) parameter = g.shape("gamma");
  return trailingView(g.shape("x"), begin, parameter);
}
NormView rmsView(GradientRule &g, int64_t begin) {
  const Shape &x = g.shape("x");
  NormView v = trailingView(x, begin, Shape(DimVector(x.begin() + begin, x.end())));
  v.centered = false;
  v.mean = nullptr;
  v.inverse = "inv_rms";
  v.gamma = "weight";
  return v;
}
NormView groupView(GradientRule &g) {
  const Shape &x = g.shape("x");
  const bool first = g.attr<std::string>("data_format") != "channels_last";
  const int64_t rank = x.NumAxes(), groups = g.attr<int32_t>("num_groups"), n = x.At(0);
  const int64_t channels = x.At(first ? 1 : rank - 1), own = channels / groups;
  const int64_t spatial = first ? x.Count(2) : x.Count(1, rank - 1);
  NormView v;
  v.view = first ? Shape{n, groups, own, spatial} : Shape{n, spatial, groups, own};
  v.stat = first ? Shape{n, groups, 1, 1} : Shape{n, 1, groups, 1};
  v.parameter = first ? Shape{1, groups, own, 1} : Shape{1, 1, groups, own};
  v.axes = first ? Ints{2, 3} : Ints{1, 3};
  return v;
}
NormView batchView(GradientRule &g) {
  const Shape &x = g.shape("x");
  const int64_t axis = valueOf(resolveAxis(g.attr<int32_t>("axis"), x.NumAxes()));
  NormView v;
  v.view = x;
  v.stat = Shape(DimVector(static_cast<size_t>(x.NumAxes()), 1));
  v.stat.Set(axis, x.At(axis));
  v.parameter = v.stat;
  for (int64_t a = 0; a < x.NumAxes(); ++a)
    if (a != axis) v.axes.push_back(static_cast<int32_t>(a));
  return v;
}

/// Composes backward ops over the view, in the statistics' element type; names them by a running number.
class NormSteps {
public:
  NormSteps(GradientRule &rule, NormView view) : g(rule), v(std::move(view)) {
    type_ = statisticsType(g.desc("x").data_type());
  }
  std::string in(const std::string &tensor, const user_op::TensorDesc &desc, const Shape &as) {
    return shaped(converted(tensor, desc.data_type(), type_), desc.shape(), as);
  }
  std::string input(const char *arg) { return in(g.x(arg), g.desc(arg), v.view); }
  /// A result of the view (or of `as`) as the gradient of an argument.
  std::string out(const std::string &a, const Shape &as, const user_op::TensorDesc &like) {
    return converted(shaped(a, as, like.shape()), type_, like.data_type());
  }
  std::string mul(const std::string &a, const std::string &b) { return binary(g, "broadcast_mul", a, b, name()); }
  std::string sub(const std::string &a, const std::string &b) { return binary(g, "broadcast_sub", a, b, name()); }
  std::string div(const std::string &a, const std::string &b) { return binary(g, "broadcast_div", a, b, name()); }
  std::string times(const std::string &a, double factor) { return g.scale(a, factor, name()); }
  std::string sum(const std::string &a) { return summed(g, a, v.axes, true, name()); }
  std::string mean(const std::string &a) { return times(sum(a), 1 / v.count()); }
  std::string expanded(const std::string &a) {
    return g.add("expand", name()).in("in", a).attr("expand_shape", v.view).out();
  }
  std::string total(const Strings &parts) {
    if (parts.size() == 1) return parts[0];
    auto add = g.add("add_n", name());
    for (const std::string &p : parts) add.in("in", p);
    return add.out();
  }
  /// Sums a tensor of the view to the parameters' shape.
  std::string toParameter(const std::string &a) {
    if (v.view == v.parameter) return a;
    Ints axes;
    const int64_t lead = v.view.NumAxes() - v.parameter.NumAxes();
    for (int64_t i = 0; i < v.view.NumAxes(); ++i)
      if (i < lead || (v.parameter.At(i - lead) == 1 && v.view.At(i) != 1)) axes.push_back(static_cast<int32_t>(i));
    const std::string sums = summed(g, a, axes, true, name());
    DimVector kept = v.view.dim_vec();
    for (int32_t i : axes) kept[static_cast<size_t>(i)] = 1;
    return shaped(sums, Shape(kept), v.parameter);
  }
  std::string centered() {
    if (centered_.empty()) centered_ = v.mean ? sub(input("x"), in(g.x(v.mean), g.desc(v.mean), v.stat)) : input("x");
    return centered_;
  }
  std::string inverse() {
    if (inverse_.empty()) inverse_ = in(g.x(v.inverse), g.desc(v.inverse), v.stat);
    return inverse_;
  }
  std::string hat() {
    if (hat_.empty()) hat_ = mul(centered(), inverse());
    return hat_;
  }
  /// For forward ops, whose statistics are outputs.
  void useOutputs() {
    inverse_ = in(g.y(v.inverse), g.desc(v.inverse), v.stat);
    if (v.mean) {
      const std::string mean = in(g.y(v.mean), g.desc(v.mean), v.stat);
      centered_ = sub(input("x"), mean);
    } else {
      centered_ = input("x");
    }
  }
  GradientRule &g;
  const NormView v;

private:
  std::string name() { return "n" + std::to_string(count_++); }
  std::string shaped(const std::string &a, const Shape &have, const Shape &want) {
    return have == want ? a : reshaped(g, a, have, want, name());
  }
  std::string converted(const std::string &a, DataType from, DataType to) {
    return from == to ? a : g.add("cast", name()).in("in", a).attr("dtype", to).out();
  }
  DataType type_;
  int count_ = 0;
  std::string centered_, inverse_, hat_;
};

/// What the outputs mean and inverse add to x's gradient: dmean / n - dinverse inverse^3 (x - mean) / n. Empty when
/// nobody used them.
std::string fromStatistics(GradientRule &g, const NormView &view) {
  const bool mean = view.mean && g.hasOutput(view.mean) && g.hasDy(view.mean);
  const bool inverse = g.hasOutput(view.inverse) && g.hasDy(view.inverse);
  if (!mean && !inverse) return "";
  NormSteps s(g, view);
  Strings parts;
  if (mean) parts.push_back(s.expanded(s.times(s.in(g.dy(view.mean), g.desc(view.mean), view.stat), 1 / view.count())));
  if (inverse) {
    s.useOutputs();
    const std::string cube = s.mul(s.mul(s.inverse(), s.inverse()), s.inverse());
    const std::string slope =
        s.times(s.mul(s.in(g.dy(view.inverse), g.desc(view.inverse), view.stat), cube), -1 / view.count());
    parts.push_back(s.mul(s.centered(), slope));
  }
  return s.out(s.total(parts), view.view, g.desc("x"));
}

void bindSum(GradientRule &g, const char *arg, const std::string &a, const std::string &b) {
  if (a.empty() && b.empty()) return;
  g.bind(arg, a.empty() ? b : b.empty() ? a : g.add("add_n", std::string(arg) + "_sum").in("in", a).in("in", b).out());
}
/// Parameters of a half-typed x may be of the half type; their gradients are computed in f32.
void bindParameter(GradientRule &g, const char *arg, const std::string &a) {
  const DataType have = statisticsType(g.desc("x").data_type()), want = g.desc(arg).data_type();
  g.bind(arg, have == want ? a : g.add("cast", std::string(arg) + "_cast").in("in", a).attr("dtype", want).out());
}

// --- layer_norm, rms_norm --------------------------------------------------------------------------------------------

int64_t axisOf(GradientRule &g, const char *attr) {
  return valueOf(resolveAxis(g.attr<int64_t>(attr), g.shape("x").NumAxes()));
}

void layerNormGradient(GradientRule &g) {
  const bool used = g.hasDy("y");
  if (g.needs("x")) {
    std::string direct;
    if (used) {
      auto grad = g.add("layer_norm_grad", "x");
      grad.in("dy", g.dy("y")).in("x", g.x("x")).in("mean", g.y("mean")).in("inv_variance", g.y("inv_variance"));
      if (g.hasInput("gamma")) grad.in("gamma", g.x("gamma"));
      direct = grad.same({"begin_norm_axis", "epsilon"}).out("dx");
    }
    bindSum(g, "x", direct, fromStatistics(g, layerView(g, axisOf(g, "begin_norm_axis"))));
  }
  const bool beta = g.needs("beta"), gamma = g.needs("gamma");
  if (!used || (!beta && !gamma)) return;
  auto params = g.add("layer_norm_param_grad", "params");
  params.in("dy", g.dy("y")).in("x", g.x("x")).in("mean", g.y("mean")).in("inv_variance", g.y("inv_variance"));
  params.same({"begin_params_axis"});
  if (beta) params.output("beta_diff");
  if (gamma) params.output("gamma_diff");
  if (beta) bindParameter(g, "beta", params.out("beta_diff"));
  if (gamma) bindParameter(g, "gamma", params.out("gamma_diff"));
}
REGISTER_USER_OP_GRAD("layer_norm").SetBackwardOpConfGenFn(gradientRule(layerNormGradient));

void rmsNormGradient(GradientRule &g) {
  const bool used = g.hasDy("y");
  const int64_t begin = g.shape("inv_rms").NumAxes();
  if (g.needs("x")) {
    std::string direct;
    if (used) {
      auto grad = g.add("rms_norm_grad", "x");
      grad.in("dy", g.dy("y")).in("x", g.x("x")).in("inv_rms", g.y("inv_rms"));
      if (g.hasInput("weight")) grad.in("weight", g.x("weight"));
      direct = grad.out("dx");
    }
    bindSum(g, "x", direct, fromStatistics(g, rmsView(g, begin)));
  }
  if (used && g.needs("weight"))
    bindParameter(g, "weight",
                  g.add("rms_norm_param_grad", "weight")
                      .in("dy", g.dy("y"))
                      .in("x", g.x("x"))
                      .in("inv_rms", g.y("inv_rms"))
                      .out("weight_grad"));
}
REGISTER_USER_OP_GRAD("rms_norm").SetBackwardOpConfGenFn(gradientRule(rmsNormGradient));

// --- group_norm ------------------------------------------------------------------------------------------------------

void groupNormGradient(GradientRule &g) {
  std::string dy;
  if (g.hasDy("y")) {
    dy = g.dy("y");
    if (g.attr<std::string>("activation") == "silu") {
      // What went into the activation is computed again.
      auto norm = g.add("group_norm", "linear");
      norm.in("x", g.x("x")).same({"affine", "num_groups", "epsilon", "data_format"});
      if (g.hasInput("beta")) norm.in("beta", g.x("beta"));
      if (g.hasInput("gamma")) norm.in("gamma", g.x("gamma"));
      dy = g.add("silu_grad", "activation").in("x", norm.out("y")).in("dy", dy).out("dx");
    }
  }
  if (g.needs("x")) {
    std::string direct;
    if (!dy.empty()) {
      auto grad = g.add("group_norm_grad", "x");
      grad.in("dy", dy).in("x", g.x("x")).in("mean", g.y("mean")).in("inv_variance", g.y("inv_variance"));
      if (g.hasInput("gamma")) grad.in("gamma", g.x("gamma"));
      direct = grad.same({"num_groups", "epsilon", "data_format"}).out("dx");
    }
    bindSum(g, "x", direct, fromStatistics(g, groupView(g)));
  }
  if (dy.empty() || (!g.needs("gamma") && !g.needs("beta"))) return;
  auto params = g.add("group_norm_param_grad", "params");
  params.in("dy", dy).in("x", g.x("x")).in("mean", g.y("mean")).in("inv_variance", g.y("inv_variance"));
  params.same({"num_groups", "data_format"});
  if (g.needs("gamma")) bindParameter(g, "gamma", params.out("dgamma"));
  if (g.needs("beta")) bindParameter(g, "beta", params.out("dbeta"));
}
REGISTER_USER_OP_GRAD("group_norm").SetBackwardOpConfGenFn(gradientRule(groupNormGradient));

// --- normalization ---------------------------------------------------------------------------------------------------

std::string inverseOf(GradientRule &g, const std::string &variance) {
  const std::string shifted = g.add("scalar_add", "variance_shifted")
                                  .in("in", variance)
                                  .attr("has_float_operand", true)
                                  .attr("float_operand", static_cast<double>(g.attr<float>("epsilon")))
                                  .out();
  return unary(g, "rsqrt", shifted, "inverse");
}

struct BatchGradient {
  std::string gamma, beta, x;
};
BatchGradient batchGradient(GradientRule &g, const std::string &mean, const std::string &inverse, bool gamma, bool beta,
                            bool dx) {
  auto grad = g.add("normalization_grad", "x");
  grad.in("x", g.x("x")).in("dy", g.dy("y")).in("mean", mean).in("inv_variance", inverse).in("gamma", g.x("gamma"));
  grad.same({"axis", "epsilon", "training"});
  if (gamma) grad.output("gamma_diff");
  if (beta) grad.output("beta_diff");
  if (dx) grad.output("dx");
  return {gamma ? grad.out("gamma_diff") : "", beta ? grad.out("beta_diff") : "", dx ? grad.out("dx") : ""};
}

/// Statistics of the batch: those of the forward op when it gives them, else computed again.
void trainedGradient(GradientRule &g) {
  const NormView view = batchView(g);
  const std::string extra = g.needs("x") ? fromStatistics(g, view) : "";
  if (!g.hasDy("y")) return bindSum(g, "x", "", extra);
  if (!g.needs("x") && !g.needs("gamma") && !g.needs("beta")) return;
  std::string mean, inverse;
  if (g.hasOutput("mean") && g.hasOutput("inv_variance")) {
    mean = g.y("mean");
    inverse = g.y("inv_variance");
  } else {
    const DataType type = g.desc("x").data_type(), wanted = statisticsType(type);
    const std::string x =
        type == wanted ? g.x("x") : g.add("cast", "x_wide").in("in", g.x("x")).attr("dtype", wanted).out();
    mean = g.add("reduce_mean", "mean").in("input_tensor", x).attr("axis", view.axes).out("output_tensor");
    inverse = inverseOf(
        g, g.add("var", "variance").in("input", x).attr("dim", view.axes).attr("unbiased", false).out("output"));
  }
  const BatchGradient d = batchGradient(g, mean, inverse, g.needs("gamma"), g.needs("beta"), g.needs("x"));
  bindSum(g, "x", g.needs("x") ? d.x : "", extra);
  if (g.needs("gamma")) bindParameter(g, "gamma", d.gamma);
  if (g.needs("beta")) bindParameter(g, "beta", d.beta);
}

/// Given statistics are constants. The moving statistics may be differentiated as well, by way of the sums that are the
/// parameters' gradients: d mean = -beta_diff gamma inverse, d variance = -gamma_diff gamma inverse^2 / 2.
void evaluatedGradient(GradientRule &g) {
  const bool used = g.hasDy("y"), mean = g.needs("moving_mean"), variance = g.needs("moving_variance");
  if (!g.needs("x") && !g.needs("gamma") && !g.needs("beta") && !mean && !variance) return;
  const DataType wide = statisticsType(g.desc("x").data_type());
  const auto widened = [&](const char *arg) {
    const DataType type = g.desc(arg).data_type();
    return type == wide ? g.x(arg)
                        : g.add("cast", std::string(arg) + "_wide").in("in", g.x(arg)).attr("dtype", wide).out();
  };
  const std::string inverse =
      g.hasOutput("inv_variance") ? g.y("inv_variance") : inverseOf(g, widened("moving_variance"));
  std::string meanPart, variancePart; // by way of y
  if (used) {
    const BatchGradient d = batchGradient(g, widened("moving_mean"), inverse, g.needs("gamma") || variance,
                                          g.needs("beta") || mean, g.needs("x"));
    if (g.needs("x")) g.bind("x", d.x);
    if (g.needs("gamma")) bindParameter(g, "gamma", d.gamma);
    if (g.needs("beta")) bindParameter(g, "beta", d.beta);
    if (mean || variance) {
      const std::string slope = g.multiply(widened("gamma"), inverse, "slope");
      if (mean) meanPart = g.scale(g.multiply(d.beta, slope, "mean_product"), -1, "mean_minus");
      if (variance) {
        const std::string square = g.multiply(slope, inverse, "variance_slope");
        variancePart = g.scale(g.multiply(d.gamma, square, "variance_product"), -0.5, "variance_half");
      }
    }
  }
  const auto total = [&](const std::string &a, const std::string &b, const char *suffix) {
    return a.empty() || b.empty() ? a + b : g.add("add_n", suffix).in("in", a).in("in", b).out();
  };
  // The outputs mean and inv_variance are moving_mean and 1 / sqrt(moving_variance + epsilon).
  const std::string fromMean = mean && g.hasOutput("mean") && g.hasDy("mean") ? g.dy("mean") : "";
  std::string fromInverse;
  if (variance && g.hasOutput("inv_variance") && g.hasDy("inv_variance")) {
    const std::string cube = g.multiply(g.multiply(inverse, inverse, "inverse_square"), inverse, "inverse_cube");
    fromInverse = g.scale(g.multiply(g.dy("inv_variance"), cube, "inverse_product"), -0.5, "inverse_half");
  }
  if (mean && !(meanPart + fromMean).empty()) bindParameter(g, "moving_mean", total(meanPart, fromMean, "mean_total"));
  if (variance && !(variancePart + fromInverse).empty())
    bindParameter(g, "moving_variance", total(variancePart, fromInverse, "variance_total"));
}

void normalizationGradient(GradientRule &g) {
  if (g.needs("_add_to_output") && g.hasDy("y")) g.bind("_add_to_output", g.dy("y"));
  if (g.attr<bool>("training"))
    trainedGradient(g);
  else
    evaluatedGradient(g);
}
REGISTER_USER_OP_GRAD("normalization").SetBackwardOpConfGenFn(gradientRule(normalizationGradient));

// --- l2_normalize ----------------------------------------------------------------------------------------------------

void l2NormalizeGradient(GradientRule &g) {
  if (!g.needs("x")) return;
  std::string direct, extra;
  if (g.hasDy("y"))
    direct = g.add("l2_normalize_grad", "x")
                 .in("dy", g.dy("y"))
                 .in("y", g.y("y"))
                 .in("square_x_sum", g.y("square_x_sum"))
                 .same({"axis", "epsilon"})
                 .out("dx");
  if (g.hasDy("square_x_sum")) // d x = 2 x dsum
    extra = g.scale(binary(g, "broadcast_mul", g.x("x"), g.dy("square_x_sum"), "square_product"), 2, "square");
  bindSum(g, "x", direct, extra);
}
REGISTER_USER_OP_GRAD("l2_normalize").SetBackwardOpConfGenFn(gradientRule(l2NormalizeGradient));

/// dx = (dy - y s) r with s = sum(y dy) and r = q^(-1/2), q = max(square_x_sum, epsilon). With v = ddx and t = sum(y
/// v): by dy (v - y t) r, l2_normalize_grad again; by y -r (v s + dy t); by square_x_sum -sum(v dx) / (2 q). Below
/// epsilon q is a constant and y s is missing; there the formulas for y and square_x_sum do not hold, and are cut off.
void l2NormalizeGradGradient(GradientRule &g) {
  const std::string v = g.dy("dx");
  if (g.needs("dy"))
    g.bind("dy", g.add("l2_normalize_grad", "dy")
                     .in("dy", v)
                     .in("y", g.x("y"))
                     .in("square_x_sum", g.x("square_x_sum"))
                     .same({"axis", "epsilon"})
                     .out("dx"));
  if (!g.needs("y") && !g.needs("square_x_sum")) return;
  const Ints axis{static_cast<int32_t>(valueOf(resolveAxis(g.attr<int32_t>("axis"), g.shape("dy").NumAxes())))};
  const std::string above = g.add("scalar_logical_greater_equal", "above")
                                .in("in", g.x("square_x_sum"))
                                .attr("has_float_operand", true)
                                .attr("float_operand", static_cast<double>(g.attr<float>("epsilon")))
                                .out();
  const std::string zeros = g.add("zero_like", "zeros").in("like", g.x("square_x_sum")).out();
  const auto cut = [&](const std::string &a, const char *suffix) {
    return g.add("where", suffix).in("condition", above).in("x", a).in("y", zeros).out();
  };
  if (g.needs("y")) {
    const std::string r = cut(unary(g, "rsqrt", g.x("square_x_sum"), "r"), "r_cut");
    const std::string s = summed(g, g.multiply(g.x("y"), g.x("dy"), "s_product"), axis, true, "s");
    const std::string t = summed(g, g.multiply(g.x("y"), v, "t_product"), axis, true, "t");
    const std::string both = g.add("add_n", "y_both")
                                 .in("in", binary(g, "broadcast_mul", v, s, "y_first"))
                                 .in("in", binary(g, "broadcast_mul", g.x("dy"), t, "y_second"))
                                 .out();
    g.bind("y", unary(g, "negative", binary(g, "broadcast_mul", both, r, "y_scaled"), "y"));
  }
  if (g.needs("square_x_sum")) {
    const std::string sum = summed(g, g.multiply(v, g.y("dx"), "q_product"), axis, true, "q_sum");
    const std::string ratio = binary(g, "broadcast_div", sum, g.x("square_x_sum"), "q_ratio");
    g.bind("square_x_sum", g.scale(cut(ratio, "q_cut"), -0.5, "q"));
  }
}
REGISTER_USER_OP_GRAD("l2_normalize_grad").SetBackwardOpConfGenFn(gradientRule(l2NormalizeGradGradient));

// --- gradients of gradients ------------------------------------------------------------------------------------------

/// The outputs of a gradient op that normalise (`dx`), and that sum to the parameters; null when it has none.
struct GradOutputs {
  const char *dx, *gamma, *beta;
};

/// With P(u) = u - mean(u) - xhat mean(u xhat), d = dy gamma: dx = inverse P(d), gamma_diff = sum(dy xhat), beta_diff =
/// sum(dy), as functions of dy, x, mean, inverse and gamma, each by itself. P is symmetric. With v = ddx, m2 =
/// mean(d xhat) and m3 = mean(v xhat):
///   d d = inverse P(v), d x = -inverse^2 (v m2 + d m3), d mean = -sum(d x), d inverse = sum(v dx) / inverse - 2 n m2
///   m3.
/// With u the upstream of gamma_diff and b of beta_diff:
///   d dy = u xhat + b, d x = u dy inverse, d mean = -sum(d x), d inverse = sum(u dy (x - mean)).
void secondGradient(GradientRule &g, const NormView &view, GradOutputs outputs) {
  NormSteps s(g, view);
  const bool dx = outputs.dx && g.hasOutput(outputs.dx) && g.hasDy(outputs.dx),
             gammas = outputs.gamma && g.hasOutput(outputs.gamma) && g.hasDy(outputs.gamma),
             betas = outputs.beta && g.hasOutput(outputs.beta) && g.hasDy(outputs.beta);
  const bool gammaGiven = outputs.dx && g.hasInput(view.gamma);
  // normalization_grad without training: dx = gamma inverse dy.
  const bool constant = g.op().op_conf().attrs.count("training") && !g.attr<bool>("training");
  const bool needsDy = g.needs("dy"), needsX = g.needs("x"), needsGamma = gammaGiven && g.needs(view.gamma);
  const bool needsMean = view.mean && g.needs(view.mean), needsInverse = g.needs(view.inverse);
  Strings dyParts, xParts, inverseParts;
  std::string gammaPart;
  const std::string dy = s.input("dy");
  if (dx) {
    const std::string v = s.in(g.dy(outputs.dx), g.desc(outputs.dx), view.view);
    const std::string gamma = gammaGiven ? s.in(g.x(view.gamma), g.desc(view.gamma), view.parameter) : "";
    const std::string d = gammaGiven ? s.mul(dy, gamma) : dy;
    if (constant) {
      const std::string scaled = s.mul(v, s.inverse());
      if (needsDy) dyParts.push_back(s.mul(scaled, gamma));
      if (needsGamma) gammaPart = s.toParameter(s.mul(scaled, dy));
      if (needsInverse) inverseParts.push_back(s.sum(s.mul(v, d)));
    }
    const std::string m3 = constant ? "" : s.mean(s.mul(v, s.hat()));
    if (!constant && (needsDy || needsGamma)) {
      std::string p = s.sub(v, s.mul(s.hat(), m3));
      if (view.centered) p = s.sub(p, s.mean(v));
      p = s.mul(p, s.inverse());
      if (needsDy) dyParts.push_back(gammaGiven ? s.mul(p, gamma) : p);
      if (needsGamma) gammaPart = s.toParameter(s.mul(p, dy));
    }
    if (!constant && (needsX || needsMean || needsInverse)) {
      const std::string m2 = s.mean(s.mul(d, s.hat()));
      if (needsX || needsMean) {
        const std::string both = s.total({s.mul(v, m2), s.mul(d, m3)});
        xParts.push_back(s.times(s.mul(both, s.mul(s.inverse(), s.inverse())), -1));
      }
      if (needsInverse) {
        std::string made = s.in(g.y(outputs.dx), g.desc(outputs.dx), view.view);
        if (g.hasInput("_add_to_output")) made = s.sub(made, s.input("_add_to_output"));
        const std::string product = s.sum(s.mul(v, made));
        inverseParts.push_back(s.div(product, s.inverse()));
        inverseParts.push_back(s.times(s.mul(m2, m3), -2 * view.count()));
      }
    }
  }
  if (gammas) {
    const std::string u = s.in(g.dy(outputs.gamma), g.desc(outputs.gamma), view.parameter);
    if (needsDy) dyParts.push_back(s.mul(s.hat(), u));
    if (needsX || needsMean || needsInverse) {
      const std::string product = s.mul(dy, u);
      if (needsX || needsMean) xParts.push_back(s.mul(product, s.inverse()));
      if (needsInverse) inverseParts.push_back(s.sum(s.mul(product, s.centered())));
    }
  }
  if (betas && needsDy) dyParts.push_back(s.expanded(s.in(g.dy(outputs.beta), g.desc(outputs.beta), view.parameter)));
  if (!dyParts.empty()) g.bind("dy", s.out(s.total(dyParts), view.view, g.desc("dy")));
  if (!gammaPart.empty()) g.bind(view.gamma, s.out(gammaPart, view.parameter, g.desc(view.gamma)));
  if (!xParts.empty()) {
    const std::string all = s.total(xParts);
    if (needsX) g.bind("x", s.out(all, view.view, g.desc("x")));
    if (needsMean) g.bind(view.mean, s.out(s.times(s.sum(all), -1), view.stat, g.desc(view.mean)));
  }
  if (!inverseParts.empty()) g.bind(view.inverse, s.out(s.total(inverseParts), view.stat, g.desc(view.inverse)));
}

void layerNormGradGradient(GradientRule &g) {
  if (g.needs("_add_to_output")) g.bind("_add_to_output", g.dy("dx"));
  secondGradient(g, layerView(g, g.shape("mean").NumAxes()), {"dx", nullptr, nullptr});
}
REGISTER_USER_OP_GRAD("layer_norm_grad").SetBackwardOpConfGenFn(gradientRule(layerNormGradGradient));

void layerNormParamGradGradient(GradientRule &g) {
  const Shape &x = g.shape("x");
  const int64_t params = axisOf(g, "begin_params_axis");
  secondGradient(g, trailingView(x, g.shape("mean").NumAxes(), Shape(DimVector(x.begin() + params, x.end()))),
                 {nullptr, "gamma_diff", "beta_diff"});
}
REGISTER_USER_OP_GRAD("layer_norm_param_grad").SetBackwardOpConfGenFn(gradientRule(layerNormParamGradGradient));

void rmsNormGradGradient(GradientRule &g) {
  secondGradient(g, rmsView(g, g.shape("inv_rms").NumAxes()), {"dx", nullptr, nullptr});
}
REGISTER_USER_OP_GRAD("rms_norm_grad").SetBackwardOpConfGenFn(gradientRule(rmsNormGradGradient));

void rmsNormParamGradGradient(GradientRule &g) {
  secondGradient(g, rmsView(g, g.shape("inv_rms").NumAxes()), {nullptr, "weight_grad", nullptr});
}
REGISTER_USER_OP_GRAD("rms_norm_param_grad").SetBackwardOpConfGenFn(gradientRule(rmsNormParamGradGradient));

void groupNormGradGradient(GradientRule &g) { secondGradient(g, groupView(g), {"dx", nullptr, nullptr}); }
REGISTER_USER_OP_GRAD("group_norm_grad").SetBackwardOpConfGenFn(gradientRule(groupNormGradGradient));

void groupNormParamGradGradient(GradientRule &g) { secondGradient(g, groupView(g), {nullptr, "dgamma", "dbeta"}); }
REGISTER_USER_OP_GRAD("group_norm_param_grad").SetBackwardOpConfGenFn(gradientRule(groupNormParamGradGradient));

void normalizationGradGradient(GradientRule &g) { secondGradient(g, batchView(g), {"dx", "gamma_diff", "beta_diff"}); }
REGISTER_USER_OP_GRAD("normalization_grad").SetBackwardOpConfGenFn(gradientRule(normalizationGradGradient));

} // namespace
} // namespace opc::ops
