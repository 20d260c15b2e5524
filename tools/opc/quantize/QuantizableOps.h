// Which ops of a graph are quantised, and why the others are not.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ConstantTensors.h"
#include "GraphFacts.h"
#include "JsonOutput.h"
#include "OnnxExport.h"
#include "StoredTensor.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace opc::cli {

/// What is quantised.
enum class QuantizeMode { kStatic, kWeights, kBlocks, kBfloat16 };

/// An op that can be computed on integers: where its data and its constant weight come from.
struct QuantizableOp {
  size_t op = 0;               // in GraphFacts::ops
  std::string argument;        // of the data: "in"
  size_t data = 0, weight = 0; // inputs of the op
  size_t variable = 0;         // in GraphFacts::variables
  int64_t axis = 0;            // of the weight: the one that the result keeps
};

/// A product, a convolution or a recurrent layer that is not quantised.
struct PlainOp {
  std::string name, type, reason;
  bool isF32 = true;
};

struct QuantizableOps {
  std::vector<QuantizableOp> ops;
  std::vector<PlainOp> plain; // those that `kept` has are none of them
};

/// What quantizableOps() has to know of a graph besides its facts.
struct QuantizeContext {
  const std::map<std::string, StoredTensor> &values; // by variable
  const std::map<std::string, InnerGraph> &graphs;   // ExportRequest::graphs
  const ConstantTensors &constants;
  const std::set<std::string> &updated, &kept; // tensors of variables that the graph writes; names of ops
  QuantizeMode mode = QuantizeMode::kStatic;
};

/// Where the operands of a convolution or a product are among the inputs of the op; nothing for other ops.
struct OperandPlaces {
  size_t data = 0, weight = 0;
  bool isProduct = false;
};
std::optional<OperandPlaces> operandsOf(const GraphOp &op);
/// What a product is multiplied by.
double factorOf(const GraphOp &op);

/// Those whose weights have values, and keep them. In kBlocks products alone.
QuantizableOps quantizableOps(const GraphFacts &facts, const QuantizeContext &context);

/// For each reason "3 ops stay in f32: REASON (a, b, c)".
std::vector<std::string> plainOpTexts(const std::vector<PlainOp> &ops);
Json plainOpsJson(const std::vector<PlainOp> &ops);

/// Errors: OPC0620 for a weight that has no scale, since it has NaN or infinities.
Status checkWeights(const GraphFacts &facts, const std::map<std::string, StoredTensor> &values,
                    const std::vector<QuantizableOp> &ops);

} // namespace opc::cli
