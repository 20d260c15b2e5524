// --dim, --const, --weights-out: what only models of other systems (ONNX) have.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GraphInput.h"
#include "Invocation.h"
#include "Option.h"
#include "Pipeline.h"

#include <string>
#include <vector>

namespace opc::cli {

class ModelFlags {
public:
  /// `writes`: of a command that writes a graph or plan, with --weights-out.
  std::vector<Option> options(bool writes = false);
  /// `options` with what the flags say. Errors: OPC0003 for what cannot be read, and for a graph that is no model.
  Result<CompileOptions> applied(const GraphInput &input, CompileOptions options) const;
  /// Whether --dim or --const are given, and what they say of any model. Errors: OPC0003.
  bool isGiven() const { return !dims_.empty() || !constants_.empty(); }
  Result<ModelRequest> request() const;
  const std::string &weightsOut() const { return weightsOut_; }
  /// What pipeline.emit() gives. With --weights-out a graph's constants that its file cannot hold are variables.
  std::string emitted(Pipeline &pipeline, Emit what) const;
  /// Writes the values that came with the graph as safetensors where --weights-out asks for it; else says that a graph
  /// file lacks them. Errors: OPC0003 where there are none, OPC0707.
  Status giveWeights(Invocation &invocation, const Pipeline &pipeline, bool isGraph) const;

private:
  std::vector<std::string> dims_, constants_;
  std::string weightsOut_;
};

} // namespace opc::cli
