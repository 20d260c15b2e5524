// The functions of the gates of recurrent layers.
// SPDX-License-Identifier: Apache-2.0
#include "recurrent/GateFunctions.h"

#include <limits>

namespace opc::ops {
namespace {

struct NamedFunction {
  const char *name;
  GateKind kind;
  bool hasAlpha, hasBeta;
  float alpha, beta; // where none are given: ONNX's attributes are f32
};
constexpr NamedFunction kFunctions[] = {
    {"Sigmoid", GateKind::kSigmoid, false, false, 0, 0},
    {"Tanh", GateKind::kTanh, false, false, 0, 0},
    {"Relu", GateKind::kRelu, false, false, 0, 0},
    {"Affine", GateKind::kAffine, true, true, 1, 0},
    {"LeakyRelu", GateKind::kLeakyRelu, true, false, 0.01F, 0},
    {"ThresholdedRelu", GateKind::kThresholdedRelu, true, false, 1, 0},
    {"ScaledTanh", GateKind::kScaledTanh, true, true, 1, 1},
    {"HardSigmoid", GateKind::kHardSigmoid, true, true, 0.2F, 0.5F},
    {"Elu", GateKind::kElu, true, false, 1, 0},
    {"Softsign", GateKind::kSoftsign, false, false, 0, 0},
    {"Softplus", GateKind::kSoftplus, false, false, 0, 0},
};

const NamedFunction *find(const std::string &name) {
  for (const NamedFunction &f : kFunctions)
    if (name == f.name) return &f;
  return nullptr;
}

std::string allNames() {
  std::string all;
  for (const NamedFunction &f : kFunctions) all += (all.empty() ? "" : ", ") + std::string(f.name);
  return all;
}

/// One loop for values alone, one for values and slopes: compilers leave out of the first what it does not need.
template <class T, class F> void each(T *values, T *slopes, int64_t n, T limit, F f) {
  if (!slopes) {
    for (int64_t i = 0; i < n; ++i) values[i] = f(heldIn(values[i], limit)).value;
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    const T v = values[i];
    const GatePoint<T> p = f(heldIn(v, limit));
    values[i] = p.value;
    slopes[i] = v > limit || v < -limit ? T(0) : p.slope;
  }
}

} // namespace

Maybe<std::vector<GateFunction>> gateFunctions(const std::vector<std::string> &names, const std::vector<float> &alphas,
                                               const std::vector<float> &betas) {
  std::vector<GateFunction> functions;
  size_t alpha = 0, beta = 0;
  for (const std::string &name : names) {
    const NamedFunction *f = find(name);
    if (!f)
      return (Error::InvalidValueError().id("OPC0205") << "activations has \"" << name << "\"")
          .help("there are " + allNames());
    GateFunction made{f->kind, static_cast<double>(f->alpha), static_cast<double>(f->beta)};
    if (f->hasAlpha && alpha < alphas.size()) made.alpha = static_cast<double>(alphas[alpha++]);
    if (f->hasBeta && beta < betas.size()) made.beta = static_cast<double>(betas[beta++]);
    functions.push_back(made);
  }
  if (alpha < alphas.size() || beta < betas.size())
    return Error::InvalidValueError().id("OPC0205")
           << (alpha < alphas.size() ? "activation_alpha has " : "activation_beta has ")
           << (alpha < alphas.size() ? alphas.size() : betas.size()) << " values, and the activations take "
           << (alpha < alphas.size() ? alpha : beta);
  return functions;
}

template <class T> void applyGate(const GateFunction &f, double clip, T *values, T *slopes, int64_t n) {
  const T a = static_cast<T>(f.alpha), b = static_cast<T>(f.beta);
  const T limit = clip > 0 ? static_cast<T>(clip) : std::numeric_limits<T>::infinity();
  withGateKind(f.kind, [=](auto kind) {
    each(values, slopes, n, limit, [=](T x) { return gatePoint<decltype(kind)::value>(a, b, x); });
  });
}

template void applyGate(const GateFunction &, double, float *, float *, int64_t);
template void applyGate(const GateFunction &, double, double *, double *, int64_t);

} // namespace opc::ops
