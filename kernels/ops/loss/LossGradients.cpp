// Gradient rules of the losses and of their gradients.
// SPDX-License-Identifier: Apache-2.0
#include "support/GradientSteps.h"

namespace opc::ops {
namespace {

using Ints = std::vector<int32_t>;

Shape withOne(const Shape &rows) {
  DimVector d = rows.dim_vec();
  d.push_back(1);
  return Shape(d);
}
/// A tensor of rows with an axis of one class.
std::string column(GradientRule &g, const std::string &a, const Shape &rows, const std::string &suffix) {
  return reshaped(g, a, rows, withOne(rows), suffix);
}
std::string rowSums(GradientRule &g, const std::string &a, const Shape &rows, bool keep, const std::string &suffix) {
  return summed(g, a, {static_cast<int32_t>(rows.NumAxes())}, keep, suffix);
}
std::string sumOf(GradientRule &g, const std::string &a, const std::string &b, const std::string &suffix) {
  return g.add("add_n", suffix).in("in", a).in("in", b).out();
}

// --- cross entropies with a softmax ----------------------------------------------------------------------------------

/// The output prob is a softmax of its own.
std::string withProb(GradientRule &g, const std::string &fromOut) {
  if (!g.hasDy("prob")) return fromOut;
  const std::string fromProb = g.add("softmax_grad", "prob").in("y", g.y("prob")).in("dy", g.dy("prob")).out("dx");
  return fromOut.empty() ? fromProb : sumOf(g, fromOut, fromProb, "prediction_sum");
}

void sparseSoftmaxGradient(GradientRule &g) {
  if (!g.needs("prediction")) return;
  std::string fromOut;
  if (g.hasDy("out"))
    fromOut = g.add("sparse_softmax_cross_entropy_grad", "prediction")
                  .in("label", g.x("label"))
                  .in("dy", g.dy("out"))
                  .in("prob", g.y("prob"))
                  .same({"depth"})
                  .out("prediction_diff");
  const std::string all = withProb(g, fromOut);
  if (!all.empty()) g.bind("prediction", all);
}
REGISTER_USER_OP_GRAD("sparse_softmax_cross_entropy").SetBackwardOpConfGenFn(gradientRule(sparseSoftmaxGradient));

/// d label = -dy log(prob).
void softmaxCrossEntropyGradient(GradientRule &g) {
  const Shape &rows = g.shape("out");
  if (g.needs("prediction")) {
    std::string fromOut;
    if (g.hasDy("out"))
      fromOut = g.add("softmax_cross_entropy_grad", "prediction")
                    .in("label", g.x("label"))
                    .in("dy", g.dy("out"))
                    .in("prob", g.y("prob"))
                    .out("prediction_diff");
    const std::string all = withProb(g, fromOut);
    if (!all.empty()) g.bind("prediction", all);
  }
  if (g.needs("label") && g.hasDy("out")) {
    const std::string logs = g.add("log_softmax", "label_logs").in("in", g.x("prediction")).out("prob");
    const std::string minus = unary(g, "negative", column(g, g.dy("out"), rows, "dy_column"), "label_minus");
    g.bind("label", binary(g, "broadcast_mul", logs, minus, "label"));
  }
}
REGISTER_USER_OP_GRAD("softmax_cross_entropy").SetBackwardOpConfGenFn(gradientRule(softmaxCrossEntropyGradient));

/// dx = dy (prob - onehot). With v = ddx: the gradient by dy is sum(v prob) - v[label], by prob v dy.
void sparseSoftmaxGradGradient(GradientRule &g) {
  const std::string v = g.dy("prediction_diff");
  const Shape &rows = g.shape("dy");
  if (g.needs("prob")) g.bind("prob", binary(g, "broadcast_mul", v, column(g, g.x("dy"), rows, "dy_column"), "prob"));
  if (!g.needs("dy")) return;
  const std::string expected = rowSums(g, g.multiply(v, g.x("prob"), "dy_product"), rows, true, "dy_expected");
  const std::string at = column(g, g.x("label"), rows, "label_column");
  const std::string there = g.add("dim_gather", "dy_there")
                                .in("input", v)
                                .in("index", at)
                                .attr("dim", static_cast<int32_t>(rows.NumAxes()))
                                .out("output");
  g.bind("dy", reshaped(g, binary(g, "broadcast_sub", expected, there, "dy_kept"), withOne(rows), rows, "dy"));
}
REGISTER_USER_OP_GRAD("sparse_softmax_cross_entropy_grad")
    .SetBackwardOpConfGenFn(gradientRule(sparseSoftmaxGradGradient));

/// dx = dy (prob S - label), S = sum(label). With v = ddx: by dy sum(v (prob S - label)), by prob v dy S, by label
/// dy (sum(v prob) - v).
void softmaxCrossEntropyGradGradient(GradientRule &g) {
  const std::string v = g.dy("prediction_diff");
  const Shape &rows = g.shape("dy");
  const std::string dy = column(g, g.x("dy"), rows, "dy_column");
  const std::string total = rowSums(g, g.x("label"), rows, true, "total");
  if (g.needs("prob"))
    g.bind("prob", binary(g, "broadcast_mul", v, binary(g, "broadcast_mul", dy, total, "prob_factor"), "prob"));
  if (g.needs("dy")) {
    const std::string scaled = binary(g, "broadcast_mul", g.x("prob"), total, "dy_scaled");
    const std::string slope = binary(g, "broadcast_sub", scaled, g.x("label"), "dy_slope");
    g.bind("dy", rowSums(g, g.multiply(v, slope, "dy_product"), rows, false, "dy"));
  }
  if (g.needs("label")) {
    const std::string expected = rowSums(g, g.multiply(v, g.x("prob"), "label_product"), rows, true, "label_expected");
    const std::string slope = binary(g, "broadcast_sub", expected, v, "label_slope");
    g.bind("label", binary(g, "broadcast_mul", slope, dy, "label"));
  }
}
REGISTER_USER_OP_GRAD("softmax_cross_entropy_grad")
    .SetBackwardOpConfGenFn(gradientRule(softmaxCrossEntropyGradGradient));

// --- cross entropies of probabilities --------------------------------------------------------------------------------

std::string sparseGrad(GradientRule &g, const std::string &dy, const char *suffix) {
  return g.add("sparse_cross_entropy_grad", suffix)
      .in("prediction", g.x("prediction"))
      .in("label", g.x("label"))
      .in("dy", dy)
      .same({"depth"})
      .out("prediction_diff");
}
void sparseCrossEntropyGradient(GradientRule &g) {
  if (g.needs("prediction")) g.bind("prediction", sparseGrad(g, g.dy("out"), "prediction"));
}
REGISTER_USER_OP_GRAD("sparse_cross_entropy").SetBackwardOpConfGenFn(gradientRule(sparseCrossEntropyGradient));

/// dx = dy h with h = -onehot / prediction. With v = ddx: by dy sum(v h), by prediction v dy h^2.
void sparseCrossEntropyGradGradient(GradientRule &g) {
  const std::string v = g.dy("prediction_diff");
  const Shape &rows = g.shape("dy");
  const std::string ones = g.add("ones_like", "ones").in("like", g.x("dy")).out();
  const std::string vh = g.multiply(v, sparseGrad(g, ones, "slope"), "v_slope");
  if (g.needs("dy")) g.bind("dy", rowSums(g, vh, rows, false, "dy"));
  if (g.needs("prediction")) g.bind("prediction", g.multiply(vh, g.y("prediction_diff"), "prediction"));
}
REGISTER_USER_OP_GRAD("sparse_cross_entropy_grad").SetBackwardOpConfGenFn(gradientRule(sparseCrossEntropyGradGradient));

/// The weight of the classes is a constant of the loss (the definition says so), and out_weight depends on nothing
/// else.
void nllGradient(GradientRule &g) {
  if (!g.needs("input") || !g.hasDy("output")) return;
  auto grad = g.add("nll_grad", "input");
  grad.in("out_grad", g.dy("output")).in("input", g.x("input")).in("target", g.x("target")).same({"ignore_index"});
  if (g.hasInput("weight")) grad.in("weight", g.x("weight"));
  g.bind("input", grad.out("in_grad"));
}
REGISTER_USER_OP_GRAD("nll").SetBackwardOpConfGenFn(gradientRule(nllGradient));

/// Linear in out_grad: nll of the upstream gradient.
void nllGradGradient(GradientRule &g) {
  if (!g.needs("out_grad")) return;
  auto nll = g.add("nll", "out_grad");
  nll.in("input", g.dy("in_grad")).in("target", g.x("target")).same({"ignore_index"});
  if (g.hasInput("weight")) nll.in("weight", g.x("weight"));
  g.bind("out_grad", nll.out("output"));
}
REGISTER_USER_OP_GRAD("nll_grad").SetBackwardOpConfGenFn(gradientRule(nllGradGradient));

// --- losses element by element ---------------------------------------------------------------------------------------

/// dy times the weight, if there is one; and the weight's own gradient, dy times the loss without it.
std::string weightedDy(GradientRule &g) {
  if (!g.hasInput("weight")) return g.dy("out");
  if (g.needs("weight")) {
    auto plain = g.add(g.op().op_type_name(), "weight_loss");
    plain.in("input", g.x("input")).in("target", g.x("target"));
    if (g.hasInput("pos_weight")) plain.in("pos_weight", g.x("pos_weight")).same({"has_pos_weight"});
    g.bind("weight", g.multiply(g.dy("out"), plain.out(), "weight"));
  }
  if (!g.needs("input") && !g.needs("target") && !g.needs("pos_weight")) return "";
  return g.multiply(g.dy("out"), g.x("weight"), "weighted");
}

std::string boundedLog(GradientRule &g, const std::string &a, const std::string &suffix) {
  const std::string log = unary(g, "log", a, suffix + "_log");
  return g.add("clip_by_scalar_min", suffix).in("x", log).attr("floating_min", -100.0).out("y");
}
/// 1 - a.
std::string complement(GradientRule &g, const std::string &a, const std::string &suffix) {
  const std::string minus = unary(g, "negative", a, suffix + "_minus");
  return g.add("scalar_add", suffix).in("in", minus).attr("has_float_operand", true).attr("float_operand", 1.0).out();
}

/// d target = dy (max(log(1 - input), -100) - max(log input, -100)).
void bceGradient(GradientRule &g) {
  const std::string dy = weightedDy(g);
  if (g.needs("input"))
    g.bind("input", g.add("binary_cross_entropy_grad", "input")
                        .in("input", g.x("input"))
                        .in("target", g.x("target"))
                        .in("dy", dy)
                        .out("dx"));
  if (!g.needs("target")) return;
  const std::string no = boundedLog(g, complement(g, g.x("input"), "target_complement"), "target_no");
  const std::string yes = boundedLog(g, g.x("input"), "target_yes");
  g.bind("target", g.multiply(dy, binary(g, "broadcast_sub", no, yes, "target_slope"), "target"));
}
REGISTER_USER_OP_GRAD("binary_cross_entropy").SetBackwardOpConfGenFn(gradientRule(bceGradient));

std::string softplus(GradientRule &g, const std::string &a, const std::string &suffix) {
  return g.add("softplus", suffix).in("x", a).attr("threshold", 1e4).out("y"); // exact to the last bit of f64
}

/// loss = p t softplus(-x) + (1 - t) softplus(x), p = pos_weight or 1. d x = s(x) (1 + t (p - 1)) - p t with s the
/// sigmoid; d t = p softplus(-x) - softplus(x); d p = t softplus(-x).
void bceLogitsGradient(GradientRule &g) {
  const std::string dy = weightedDy(g);
  const bool pos = g.hasInput("pos_weight");
  std::string p;
  if (pos) {
    p = g.x("pos_weight");
    // One element of any rank counts for all.
    if (g.shape("pos_weight").elem_cnt() == 1) p = reshaped(g, p, g.shape("pos_weight"), Shape{}, "pos_scalar");
  }
  if (g.needs("input") && !pos) {
    g.bind("input", g.add("binary_cross_entropy_with_logits_grad", "input")
                        .in("input", g.x("input"))
                        .in("target", g.x("target"))
                        .in("dy", dy)
                        .out("dx"));
  } else if (g.needs("input")) {
    const std::string pt = binary(g, "broadcast_mul", g.x("target"), p, "input_pt");
    const std::string excess = binary(g, "broadcast_sub", pt, g.x("target"), "input_excess");
    const std::string factor = g.add("scalar_add", "input_factor")
                                   .in("in", excess)
                                   .attr("has_float_operand", true)
                                   .attr("float_operand", 1.0)
                                   .out();
    const std::string scaled = g.multiply(unary(g, "sigmoid", g.x("input"), "input_sigmoid"), factor, "input_scaled");
    g.bind("input", g.multiply(dy, binary(g, "broadcast_sub", scaled, pt, "input_slope"), "input"));
  }
  const bool needsP = g.needs("pos_weight");
  if (!g.needs("target") && !needsP) return;
  const std::string yes = softplus(g, unary(g, "negative", g.x("input"), "minus"), "yes");
  if (g.needs("target")) {
    const std::string weighted = pos ? binary(g, "broadcast_mul", yes, p, "target_yes") : yes;
    const std::string slope = binary(g, "broadcast_sub", weighted, softplus(g, g.x("input"), "no"), "target_slope");
    g.bind("target", g.multiply(dy, slope, "target"));
  }
  if (needsP) {
    const std::string full = g.multiply(dy, g.multiply(g.x("target"), yes, "pos_slope"), "pos_full");
    const Shape &want = g.shape("pos_weight"), &have = g.shape("out");
    if (want.elem_cnt() == 1) {
      Ints all;
      for (int64_t a = 0; a < have.NumAxes(); ++a) all.push_back(static_cast<int32_t>(a));
      g.bind("pos_weight", reshaped(g, summed(g, full, all, false, "pos_sum"), Shape{}, want, "pos_weight"));
    } else {
      g.bind("pos_weight", g.reduceLike(full, have, g.x("pos_weight"), want, "pos_weight"));
    }
  }
}
REGISTER_USER_OP_GRAD("binary_cross_entropy_with_logits").SetBackwardOpConfGenFn(gradientRule(bceLogitsGradient));

void smoothL1Gradient(GradientRule &g) {
  const bool target = g.needs("target");
  if (!g.needs("input") && !target) return;
  const std::string dx = g.add("smooth_l1_loss_grad", "input")
                             .in("input", g.x("input"))
                             .in("target", g.x("target"))
                             .in("dy", g.dy("out"))
                             .same({"beta"})
                             .out("dx");
  g.bind("input", dx);
  if (target) g.bind("target", unary(g, "negative", dx, "target"));
}
REGISTER_USER_OP_GRAD("smooth_l1_loss").SetBackwardOpConfGenFn(gradientRule(smoothL1Gradient));

/// loss = t (log t - x) where t > 0, or e^t (t - x). d x = -max(t, 0) or -e^t; d t = log t - x + 1 where t > 0, or
/// e^t (t - x + 1).
void klDivGradient(GradientRule &g) {
  const bool logs = g.attr<bool>("log_target"), input = g.needs("input"), target = g.needs("target");
  if (!input && !target) return;
  const std::string p = unary(g, logs ? "exp" : "relu", g.x("target"), "probability");
  if (input) g.bind("input", unary(g, "negative", g.multiply(g.dy("out"), p, "input_product"), "input"));
  if (!target) return;
  if (logs) {
    const std::string slope = sumOf(g, g.y("out"), p, "target_slope");
    g.bind("target", g.multiply(g.dy("out"), slope, "target"));
    return;
  }
  const std::string log = unary(g, "log", g.x("target"), "target_log");
  const std::string excess = binary(g, "broadcast_sub", log, g.x("input"), "target_excess");
  const std::string slope = g.add("scalar_add", "target_slope")
                                .in("in", excess)
                                .attr("has_float_operand", true)
                                .attr("float_operand", 1.0)
                                .out();
  const std::string positive = g.add("scalar_logical_greater", "target_positive")
                                   .in("in", g.x("target"))
                                   .attr("has_float_operand", true)
                                   .attr("float_operand", 0.0)
                                   .out();
  const std::string zeros = g.add("zero_like", "target_zeros").in("like", slope).out();
  const std::string inside =
      g.add("where", "target_inside").in("condition", positive).in("x", slope).in("y", zeros).out();
  g.bind("target", g.multiply(g.dy("out"), inside, "target"));
}
REGISTER_USER_OP_GRAD("kl_div_loss").SetBackwardOpConfGenFn(gradientRule(klDivGradient));

} // namespace
} // namespace opc::ops
