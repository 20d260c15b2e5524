// The functions of the gates of ONNX's recurrent layers: which of them take numbers, and the usual ones.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace opc {

enum class GateForm {
  kSigmoid,
  kTanh,
  kRelu,
  kAffine,
  kLeakyRelu,
  kThresholdedRelu,
  kScaledTanh,
  kHardSigmoid,
  kElu,
  kSoftsign,
  kSoftplus
};

struct GateName {
  const char *name;
  GateForm form;
  bool hasAlpha, hasBeta;
  float alpha, beta; // of the ops of these names
};

inline constexpr GateName kGateNames[] = {{"Sigmoid", GateForm::kSigmoid, false, false, 0, 0},
                                          {"Tanh", GateForm::kTanh, false, false, 0, 0},
                                          {"Relu", GateForm::kRelu, false, false, 0, 0},
                                          {"Affine", GateForm::kAffine, true, true, 1, 0},
                                          {"LeakyRelu", GateForm::kLeakyRelu, true, false, 0.01F, 0},
                                          {"ThresholdedRelu", GateForm::kThresholdedRelu, true, false, 1, 0},
                                          {"ScaledTanh", GateForm::kScaledTanh, true, true, 1, 1},
                                          {"HardSigmoid", GateForm::kHardSigmoid, true, true, 0.2F, 0.5F},
                                          {"Elu", GateForm::kElu, true, false, 1, 0},
                                          {"Softsign", GateForm::kSoftsign, false, false, 0, 0},
                                          {"Softplus", GateForm::kSoftplus, false, false, 0, 0}};

} // namespace opc
