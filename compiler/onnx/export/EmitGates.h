// The functions of the gates of recurrent layers as ONNX nodes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GateNames.h"
#include "OnnxEmission.h"

namespace opc::onnx_export {

/// A function with its numbers.
struct Gate {
  GateName name;
  float alpha, beta;
};
/// Those that the op's attributes name, of each direction in turn; empty where they name none.
std::vector<Gate> gatesOf(Emission &e);

/// f(x) and its slope, of what `clip` holds; 0 does not.
struct GateValue {
  Wire value, slope;
};
GateValue gateValue(Emission &e, const Gate &gate, double clip, const Wire &x);

} // namespace opc::onnx_export
