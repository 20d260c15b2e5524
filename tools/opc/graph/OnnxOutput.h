// opc compile --emit onnx: a graph as an ONNX model, with its weights.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Failure.h"
#include "Invocation.h"
#include "OnnxExport.h"
#include "Option.h"
#include "Pipeline.h"

#include <map>
#include <string>
#include <vector>

namespace opc::cli {

class OnnxOutput {
public:
  std::vector<Option> options();
  bool isGiven() const { return opset_ != 0 || !weights_.empty() || partialWeights_; }
  /// Only ONNX models have these options. Errors: OPC0003.
  Status check(bool isOnnx) const;
  /// What is read besides the graph.
  const std::vector<std::string> &weights() const { return weights_; }
  /// The files of data that go when a model is written to `output`: those that the model there names and that bear its
  /// name, unless another model of the folder names them, too.
  static std::vector<std::string> replacedData(const std::string &output);
  /// Writes the model of the graph as it is after the phase that was run, and returns its size. Errors: OPC0423 lists
  /// the ops that have no form; OPC0707, OPC0717.
  Outcome<size_t> write(Invocation &invocation, Pipeline &pipeline, const Registry &registry,
                        const std::string &output) const;

  /// Takes off the ops that do nothing for an output, and the variables that no other reads.
  static void dropUnread(const Registry &registry, GraphFacts *facts);
  /// What ExportRequest::graphs is. Errors: those of a graph in an op that cannot be read.
  static Outcome<std::map<std::string, InnerGraph>> innerGraphs(const GraphFacts &facts, const Registry &registry,
                                                                const SourceText &source);
  /// The same for facts that a command has made; without `output` nothing is written. `source`: what findings are
  /// about.
  static Outcome<size_t> writeModel(Invocation &invocation, const GraphFacts &facts, const Registry &registry,
                                    ExportRequest request, const SourceText &source, const std::string &output);

private:
  static Status writeFiles(Invocation &invocation, const ExportedModel &model, const std::string &output);
  /// Of the variables. Takes off `facts` what nothing reads, where the plan has no value for it.
  Result<std::map<std::string, StoredTensor>> values(Pipeline &pipeline, const Registry &registry,
                                                     GraphFacts *facts) const;
  int64_t opset_ = 0; // 0: the oldest that serves
  std::vector<std::string> weights_;
  bool partialWeights_ = false; // variables that none of them has are left to their initializers
};

} // namespace opc::cli
