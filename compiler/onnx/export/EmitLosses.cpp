// Losses as ONNX.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxEmitters.h"

#include <cmath>
#include <numeric>

namespace opc::onnx_export {
namespace {

/// One more dimension of size 1 at the end.
Wire column(Emission &e, const Wire &x) {
  std::vector<int64_t> dims(x.shape.begin(), x.shape.end());
  dims.push_back(1);
  return e.reshape(x, dims);
}

Wire withoutLast(Emission &e, const Wire &x) { return e.reshape(x, Shape(x.shape.ptr(), x.rank() - 1)); }

/// x at the label of each row.
Wire picked(Emission &e, const Wire &x, const Wire &labels) {
  const Wire at = column(e, labels);
  return withoutLast(e, e.node("GatherElements", {x, at}, {{"axis", x.rank() - 1}}, x.type, at.shape));
}

/// Whether a class is that of the label.
Wire isLabel(Emission &e, const Wire &labels, int64_t classes) {
  std::vector<int64_t> all(static_cast<size_t>(classes));
  std::iota(all.begin(), all.end(), 0);
  return e.test("Equal", column(e, labels), e.integers(all));
}

Wire negative(Emission &e, const Wire &x) { return e.unary("Neg", x); }

void convertSoftmaxLoss(Emission &e, bool sparse) {
  const Wire log = e.unary("LogSoftmax", e.in("prediction"), {{"axis", -1}});
  const Wire sum = sparse ? picked(e, log, e.indices("label"))
                          : e.reduce("ReduceSum", e.mul(e.in("label"), log), {log.rank() - 1}, false);
  e.out("prob", e.unary("Exp", log));
  e.out("out", e.reshape(negative(e, sum), e.made("out").shape()));
}

void convertSoftmaxLossGrad(Emission &e) {
  const Wire label = e.in("label"), prob = e.in("prob");
  const Wire sum = e.reduce("ReduceSum", label, {label.rank() - 1});
  e.out(e.mul(column(e, e.in("dy")), e.sub(e.mul(prob, sum), label)));
}

void convertSparseSoftmaxLossGrad(Emission &e) {
  const Wire prob = e.in("prob"), hot = e.cast(isLabel(e, e.indices("label"), prob.dim(-1)), prob.type);
  e.out(e.mul(column(e, e.in("dy")), e.sub(prob, hot)));
}

void convertSparseLoss(Emission &e) {
  e.out(
      e.reshape(negative(e, e.unary("Log", picked(e, e.in("prediction"), e.indices("label")))), e.madeFirst().shape()));
}

void convertSparseLossGrad(Emission &e) {
  const Wire p = e.in("prediction");
  const Wire slope = negative(e, e.div(column(e, e.in("dy")), p));
  e.out(e.select(isLabel(e, e.indices("label"), p.dim(-1)), slope, e.number(p, 0)));
}

Wire weighted(Emission &e, const Wire &loss) { return e.has("weight") ? e.mul(loss, e.in("weight")) : loss; }

/// Logarithms end at -100.
void convertBinaryLoss(Emission &e) {
  const Wire x = e.in("input"), t = e.in("target"), one = e.number(x, 1);
  const auto log = [&](const Wire &v) { return e.binary("Max", e.unary("Log", v), e.number(v, -100)); };
  const Wire sum = e.add(e.mul(t, log(x)), e.mul(e.sub(one, t), log(e.sub(one, x))));
  e.out(weighted(e, negative(e, sum)));
}

void convertLogitsLoss(Emission &e) {
  const Wire x = e.in("input"), t = e.in("target"), one = e.number(x, 1);
  Wire log = softplus(e, negative(e, x));
  if (e.has("pos_weight")) log = e.mul(log, e.add(e.mul(e.sub(e.in("pos_weight"), one), t), one));
  e.out(weighted(e, e.add(e.mul(e.sub(one, t), x), log)));
}

void convertSmoothLoss(Emission &e) {
  const Wire apart = e.unary("Abs", e.sub(e.in("input"), e.in("target")));
  const double beta = e.f("beta");
  if (beta == 0) return e.out(apart);
  const Wire square = e.scaled(e.mul(apart, apart), 0.5 / beta);
  e.out(e.select(e.test("Less", apart, e.number(apart, beta)), square, e.plus(apart, -0.5 * beta)));
}

void convertDivergence(Emission &e) {
  const Wire x = e.in("input"), t = e.in("target");
  if (e.b("log_target")) return e.out(e.mul(e.unary("Exp", t), e.sub(t, x)));
  const Wire none = e.test("Equal", t, e.number(t, 0));
  const Wire log = e.mul(t, e.unary("Log", e.select(none, e.number(t, 1), t)));
  e.out(e.sub(log, e.mul(t, x)));
}

/// The weight of each label, 0 for those that are passed over; and labels that can be looked up.
std::pair<Wire, Wire> labelWeights(Emission &e, const Wire &x) {
  const Wire labels = e.indices("target"), passed = e.test("Equal", labels, e.integers({e.i("ignore_index")}, Shape()));
  const Wire safe = e.select(passed, e.integers({0}, Shape()), labels);
  const Wire weights = e.has("weight") ? e.gather(e.in("weight"), safe, 0) : e.filled(x.type, labels.shape, 1);
  return {e.select(passed, e.number(x, 0), weights), safe};
}

void convertNll(Emission &e) {
  const Wire x = e.in("input");
  const auto [weights, labels] = labelWeights(e, x);
  e.out("output", e.mul(negative(e, picked(e, x, labels)), weights));
  e.out("out_weight", weights);
}

void convertNllGrad(Emission &e) {
  const Wire x = e.in("input");
  const auto [weights, labels] = labelWeights(e, x);
  const Wire slope = negative(e, e.mul(e.in("out_grad"), weights));
  e.out(e.select(isLabel(e, labels, x.dim(-1)), column(e, slope), e.number(x, 0)));
}

void convertDropoutGrad(Emission &e) {
  const Wire dy = e.in("dy");
  e.out(e.select(e.cast(e.raw("mask"), kBool), e.scaled(dy, e.f("scale")), e.number(dy, 0)));
}

} // namespace

void addLosses(EmitterTable *t) {
  t->add(
      "softmax_cross_entropy", Types::kWide, [](Emission &e) { convertSoftmaxLoss(e, false); },
      "LogSoftmax, Mul, ReduceSum, Exp");
  t->add(
      "sparse_softmax_cross_entropy", Types::kWide, [](Emission &e) { convertSoftmaxLoss(e, true); },
      "LogSoftmax, GatherElements, Exp");
  t->add("softmax_cross_entropy_grad", Types::kWide, convertSoftmaxLossGrad, "ReduceSum, Mul, Sub");
  t->add("sparse_softmax_cross_entropy_grad", Types::kWide, convertSparseSoftmaxLossGrad, "Equal, Sub, Mul");
  t->add("sparse_cross_entropy", Types::kWide, convertSparseLoss, "GatherElements, Log, Neg");
  t->add("sparse_cross_entropy_grad", Types::kWide, convertSparseLossGrad, "Equal, Div, Where");
  t->add("binary_cross_entropy", Types::kWide, convertBinaryLoss, "Log, Max, Mul, Add");
  t->add("binary_cross_entropy_with_logits", Types::kWide, convertLogitsLoss, "Exp, Log, Abs, Mul, Add");
  t->add("smooth_l1_loss", Types::kWide, convertSmoothLoss, "Sub, Abs, Mul, Where");
  t->add("kl_div_loss", Types::kWide, convertDivergence, "Log, Mul, Sub");
  t->add("nll", Types::kWide, convertNll, "GatherElements, Gather, Mul");
  t->add("nll_grad", Types::kWide, convertNllGrad, "Equal, Gather, Mul, Where");
  t->add("dropout_grad", Types::kWide, convertDropoutGrad, "Where, Mul");
}

} // namespace opc::onnx_export
