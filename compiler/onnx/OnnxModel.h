// A graph as an ONNX model of opc's own ops: what viewers of ONNX files draw.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GraphFacts.h"

#include <string>

namespace opc {

/// Forward ops, or those of the backward pass and of updates: viewers cannot lay out both at once.
enum class OnnxPart { kForward, kBackward };

/// The bytes of a model whose nodes are ops of the domain "opc.ops", version 1, and `Identity` of ONNX's own for what
/// leaves the graph. Variables are inputs: no value is copied. What one part makes and the other reads is an output of
/// the one and an input of the other. The same facts give the same bytes. All types and shapes must be known.
std::string onnxModel(const GraphFacts &facts, const std::string &name, OnnxPart part);

/// Whether there is anything but forward ops.
bool hasBackwardPart(const GraphFacts &facts);

} // namespace opc
