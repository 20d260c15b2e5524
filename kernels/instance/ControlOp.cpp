// Ops whose work is graphs of their own.
// SPDX-License-Identifier: Apache-2.0
#include "ControlOp.h"

#include <algorithm>

namespace opc {

using user_op::TensorDesc;

namespace {

/// A tensor without its first axis.
TensorDesc elementOf(const TensorDesc &whole) {
  const Shape &shape = whole.shape();
  return TensorDesc(Shape(DimVector(shape.begin() + 1, shape.end())), whole.data_type());
}

} // namespace

ControlKind controlKind(std::string_view opType) {
  return opType == kIfType      ? ControlKind::kIf
         : opType == kLoopType  ? ControlKind::kLoop
         : opType == kPartsType ? ControlKind::kParts
                                : ControlKind::kNone;
}

std::vector<std::string> controlGraphs(ControlKind kind) {
  switch (kind) {
  case ControlKind::kIf: return {"then_graph", "else_graph"};
  case ControlKind::kLoop:
  case ControlKind::kParts: return {"graph"};
  case ControlKind::kNone: break;
  }
  return {};
}

LoopParts loopParts(const OpInstance &op) {
  LoopParts parts;
  const auto number = [&](const char *attr) {
    return static_cast<size_t>(*op.conf().attrs.at(attr).get<int64_t>()); // the op's rule has looked at them
  };
  parts.states = number("states");
  parts.sequences = number("sequences");
  parts.captures = op.inputDescs().size() - LoopParts::kFirst - parts.states - parts.sequences;
  parts.rows = op.outputDescs().size() - parts.states;
  const auto isSet = [&](const char *attr) { return *op.conf().attrs.at(attr).get<bool>(); };
  parts.isPartial = isSet("partial");
  parts.isReverse = isSet("reverse");
  if (const size_t most = number("most")) parts.length = static_cast<int64_t>(most);
  const auto fits = [&](const TensorDesc &d) {
    parts.length = parts.length < 0 ? d.shape().At(0) : std::min(parts.length, d.shape().At(0));
  };
  for (size_t k = 0; k < parts.sequences; ++k) fits(op.inputDescs()[LoopParts::kFirst + parts.states + k]);
  for (size_t k = 0; k < parts.rows; ++k) fits(op.outputDescs()[parts.states + k]);
  return parts;
}

BatchParts batchParts(const OpInstance &op) {
  const auto number = [&](const char *attr) { return *op.conf().attrs.at(attr).get<int64_t>(); };
  return {number("parts"), static_cast<size_t>(number("cut"))}; // the op's rule has looked at them
}

TensorDesc partOf(const TensorDesc &whole, int64_t parts) {
  DimVector dims(whole.shape().begin(), whole.shape().end());
  dims[0] /= parts;
  return TensorDesc(Shape(dims), whole.data_type());
}

ControlPorts controlPorts(const OpInstance &op) {
  ControlPorts ports;
  const auto &in = op.inputDescs(), &out = op.outputDescs();
  const ControlKind kind = controlKind(op.def().name);
  if (kind == ControlKind::kParts) {
    const BatchParts parts = batchParts(op);
    for (size_t k = 0; k < in.size(); ++k) ports.inputs.push_back(k < parts.cut ? partOf(in[k], parts.parts) : in[k]);
    for (const TensorDesc &whole : out) ports.outputs.push_back(partOf(whole, parts.parts));
    return ports;
  }
  if (kind == ControlKind::kIf) {
    ports.inputs.assign(in.begin() + 1, in.end());
    ports.outputs = out;
    return ports;
  }
  const LoopParts parts = loopParts(op);
  ports.inputs = {TensorDesc(Shape(), kInt64)}; // the number of the turn
  for (size_t k = LoopParts::kFirst; k < in.size(); ++k) {
    const size_t at = k - LoopParts::kFirst;
    const bool isSequence = at >= parts.states && at < parts.states + parts.sequences;
    ports.inputs.push_back(isSequence ? elementOf(in[k]) : in[k]);
  }
  ports.outputs = {TensorDesc(Shape(), kBool)}; // whether it goes on
  for (size_t k = 0; k < out.size(); ++k) ports.outputs.push_back(k < parts.states ? out[k] : elementOf(out[k]));
  return ports;
}

} // namespace opc
