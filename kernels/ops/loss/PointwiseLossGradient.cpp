// Gradients of the losses that work element by element, as elementwise ops, whose own gradients are derived; and the
// rules that use them.
// SPDX-License-Identifier: Apache-2.0
#include "opc/Elementwise.h"
#include "support/Operator.h"
#include "support/ScalarSteps.h"

#include <numeric>

namespace opc::ops::loss {
namespace {

// The denominator's bound is PyTorch's: a certain and wrong input has a large finite gradient.
OPC_SCALAR(BinaryCrossEntropyGrad, input, target, dy) {
  return dy * (input - target) / max(input * (1 - input), 1e-12);
}
OPC_SCALAR(BinaryCrossEntropyWithLogitsGrad, input, target, dy) { return dy * (sigmoid(input) - target); }
OPC_SCALAR(SmoothL1LossGrad, input, target, dy, beta) {
  return dy * select(abs(input - target) < beta, (input - target) / beta, sign(input - target));
}

void gradientArgs(OpRegistry &op) { op.Input("input").Input("target").Input("dy").Output("dx"); }

REGISTER_USER_OP("binary_cross_entropy_grad")
    .With(gradientArgs)
    .GradientOf("binary_cross_entropy")
    .Doc("dx = dy * (input - target) / max(input * (1 - input), 1e-12): the gradient of binary_cross_entropy by "
         "input; dy is multiplied by the loss's weight before.")
    .Elementwise<BinaryCrossEntropyGrad>(ElementwiseOptions().SameShape().Domain(0, 0.05, 0.95).Domain(1, 0, 1));
REGISTER_USER_OP("binary_cross_entropy_with_logits_grad")
    .With(gradientArgs)
    .GradientOf("binary_cross_entropy_with_logits")
    .Doc("dx = dy * (sigmoid(input) - target): the gradient of binary_cross_entropy_with_logits without pos_weight "
         "by input; dy is multiplied by the loss's weight before.")
    .Elementwise<BinaryCrossEntropyWithLogitsGrad>(ElementwiseOptions().SameShape().Domain(1, 0, 1));
REGISTER_USER_OP("smooth_l1_loss_grad")
    .With(gradientArgs)
    .GradientOf("smooth_l1_loss")
    .ArgAlias("prediction", "input")
    .ArgAlias("label", "target")
    .ArgAlias("loss_grad", "dy")
    .ArgAlias("prediction_grad", "dx")
    .Attr<float>("beta", 0.0f)
    .Doc("With d = input - target: dx = dy * d / beta where |d| < beta, else dy * sign(d): the gradient of "
         "smooth_l1_loss by input.")
    .Elementwise<SmoothL1LossGrad>(ElementwiseOptions().SameShape().CaseAttr("beta", 1.0f));

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

GradientOp inputGradient(GradientRule &g, const char *op, const std::string &dy) {
  auto grad = g.add(op, "input");
  grad.in("input", g.x("input")).in("target", g.x("target")).in("dy", dy);
  return grad;
}

std::string boundedLog(GradientRule &g, const std::string &a, const std::string &suffix) {
  const std::string log = unary(g, "log", a, suffix + "_log");
  return g.add("clip_by_scalar_min", suffix).in("x", log).attr("floating_min", -100.0).out("y");
}
/// 1 - a.
std::string complement(GradientRule &g, const std::string &a, const std::string &suffix) {
  const std::string minus = unary(g, "negative", a, suffix + "_minus");
  return withScalar(g, "scalar_add", minus, 1, suffix);
}

/// d target = dy (max(log(1 - input), -100) - max(log input, -100)).
void bceGradient(GradientRule &g) {
  const std::string dy = weightedDy(g);
  if (g.needs("input")) g.bind("input", inputGradient(g, "binary_cross_entropy_grad", dy).out("dx"));
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
    g.bind("input", inputGradient(g, "binary_cross_entropy_with_logits_grad", dy).out("dx"));
  } else if (g.needs("input")) {
    const std::string pt = binary(g, "broadcast_mul", g.x("target"), p, "input_pt");
    const std::string excess = binary(g, "broadcast_sub", pt, g.x("target"), "input_excess");
    const std::string factor = withScalar(g, "scalar_add", excess, 1, "input_factor");
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
      std::vector<int32_t> all(static_cast<size_t>(have.NumAxes()));
      std::iota(all.begin(), all.end(), 0);
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
  const std::string dx = inputGradient(g, "smooth_l1_loss_grad", g.dy("out")).same({"beta"}).out("dx");
  g.bind("input", dx);
  if (target) g.bind("target", unary(g, "negative", dx, "target"));
}
REGISTER_USER_OP_GRAD("smooth_l1_loss").SetBackwardOpConfGenFn(gradientRule(smoothL1Gradient));

/// loss = t (log t - x), 0 where t is 0, or e^t (t - x). d x = -t or -e^t; d t = log t - x + 1 where t is not 0, or
/// e^t (t - x + 1).
void klDivGradient(GradientRule &g) {
  const bool logs = g.attr<bool>("log_target"), input = g.needs("input"), target = g.needs("target");
  if (!input && !target) return;
  const std::string p = logs ? unary(g, "exp", g.x("target"), "probability") : g.x("target");
  if (input) g.bind("input", unary(g, "negative", g.multiply(g.dy("out"), p, "input_product"), "input"));
  if (!target) return;
  if (logs) {
    const std::string slope = g.add("add_n", "target_slope").in("in", g.y("out")).in("in", p).out();
    g.bind("target", g.multiply(g.dy("out"), slope, "target"));
    return;
  }
  const std::string log = unary(g, "log", g.x("target"), "target_log");
  const std::string excess = binary(g, "broadcast_sub", log, g.x("input"), "target_excess");
  const std::string slope = withScalar(g, "scalar_add", excess, 1, "target_slope");
  const std::string some = withScalar(g, "scalar_logical_not_equal", g.x("target"), 0, "target_some");
  const std::string zeros = g.add("zero_like", "target_zeros").in("like", slope).out();
  const std::string inside = g.add("where", "target_inside").in("condition", some).in("x", slope).in("y", zeros).out();
  g.bind("target", g.multiply(g.dy("out"), inside, "target"));
}
REGISTER_USER_OP_GRAD("kl_div_loss").SetBackwardOpConfGenFn(gradientRule(klDivGradient));

} // namespace
} // namespace opc::ops::loss
