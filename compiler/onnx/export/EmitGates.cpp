// The functions of the gates of recurrent layers as ONNX nodes.
// SPDX-License-Identifier: Apache-2.0
#include "EmitGates.h"
#include "OnnxEmitters.h"

namespace opc::onnx_export {

std::vector<Gate> gatesOf(Emission &e) {
  const std::vector<float> &alphas = e.reals("activation_alpha"), &betas = e.reals("activation_beta");
  size_t alpha = 0, beta = 0;
  std::vector<Gate> gates;
  for (const std::string &name : e.texts("activations"))
    for (const GateName &g : kGateNames) {
      if (name != g.name) continue;
      Gate gate{g, g.alpha, g.beta};
      if (g.hasAlpha && alpha < alphas.size()) gate.alpha = alphas[alpha++];
      if (g.hasBeta && beta < betas.size()) gate.beta = betas[beta++];
      gates.push_back(gate);
    }
  return gates;
}

namespace {

GateValue unclipped(Emission &e, const Gate &gate, const Wire &x) {
  const double a = static_cast<double>(gate.alpha), b = static_cast<double>(gate.beta);
  const Wire zero = e.number(x, 0), one = e.number(x, 1);
  const auto given = [&](const Wire &condition) { return e.cast(condition, x.type); };
  switch (gate.name.form) {
  case GateForm::kSigmoid: {
    const Wire y = e.unary("Sigmoid", x);
    return {y, e.mul(y, e.sub(one, y))};
  }
  case GateForm::kTanh: {
    const Wire y = e.unary("Tanh", x);
    return {y, e.sub(one, e.mul(y, y))};
  }
  case GateForm::kRelu: return {e.unary("Relu", x), given(e.test("Greater", x, zero))};
  case GateForm::kAffine: return {e.plus(e.scaled(x, a), b), e.filled(x.type, x.shape, a)};
  case GateForm::kLeakyRelu: {
    const Wire below = e.test("Less", x, zero);
    return {e.select(below, e.scaled(x, a), x), e.select(below, e.number(x, a), one)};
  }
  case GateForm::kThresholdedRelu: {
    const Wire below = e.test("Less", x, e.number(x, a));
    return {e.select(below, zero, x), given(e.negated(below))};
  }
  case GateForm::kScaledTanh: {
    const Wire y = e.unary("Tanh", e.scaled(x, b));
    return {e.scaled(y, a), e.scaled(e.sub(one, e.mul(y, y)), a * b)};
  }
  case GateForm::kHardSigmoid: {
    const Wire y = e.plus(e.scaled(x, a), b);
    const Wire inside = e.mul(given(e.test("Greater", y, zero)), given(e.test("Less", y, one)));
    return {e.binary("Min", e.binary("Max", y, zero), one), e.scaled(inside, a)};
  }
  case GateForm::kElu: {
    const Wire below = e.test("Less", x, zero);
    return {e.select(below, e.scaled(expm1(e, x), a), x), e.select(below, e.scaled(e.unary("Exp", x), a), one)};
  }
  case GateForm::kSoftsign: {
    const Wire y = e.div(one, e.plus(e.unary("Abs", x), 1));
    return {e.mul(x, y), e.mul(y, y)};
  }
  case GateForm::kSoftplus: return {softplus(e, x), e.unary("Sigmoid", x)};
  }
  e.refuse("no form of the function " + std::string(gate.name.name));
}

} // namespace

GateValue gateValue(Emission &e, const Gate &gate, double clip, const Wire &x) {
  if (clip <= 0) return unclipped(e, gate, x);
  GateValue made = unclipped(e, gate, e.binary("Min", e.binary("Max", x, e.number(x, -clip)), e.number(x, clip)));
  made.slope = e.select(e.test("Greater", e.unary("Abs", x), e.number(x, clip)), e.number(x, 0), made.slope);
  return made;
}

} // namespace opc::onnx_export
