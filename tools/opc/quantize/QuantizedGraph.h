// A graph whose convolutions and products are quantised, as facts: what is written as an ONNX model.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GraphFacts.h"
#include "OnnxExport.h"
#include "StoredTensor.h"
#include "TensorRanges.h"

#include <map>
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

struct QuantizableOps {
  std::vector<QuantizableOp> ops;
  std::vector<std::string> updated; // ops, by name, that are left out since the graph updates their weight
};

/// Those of a graph whose weights have values, and keep them: `updated` are the tensors of variables that do not. In
/// kBlocks products alone.
QuantizableOps quantizableOps(const GraphFacts &facts, const std::map<std::string, StoredTensor> &values,
                              const std::set<std::string> &updated, QuantizeMode mode);

/// Errors: OPC0620 for a weight that has no scale, since it has NaN or infinities.
Status checkWeights(const GraphFacts &facts, const std::map<std::string, StoredTensor> &values,
                    const std::vector<QuantizableOp> &ops);

struct QuantizedGraph {
  GraphFacts facts;
  std::map<std::string, StoredTensor> values; // by variable
  std::map<std::string, BlockProduct> blocks; // by op: of kBlocks
};

/// `ops` of `facts` with quantised weights, one scale for each element of the weight's axis, and in kStatic with
/// quantised data, whose ranges are given by op. In kBlocks there is one for `block` elements along the other axis, and
/// the ops are not changed: `blocks` says what stands for their weights. The other ops are as they were.
QuantizedGraph quantizedGraph(const GraphFacts &facts, const std::map<std::string, StoredTensor> &values,
                              const std::vector<QuantizableOp> &ops, QuantizeMode mode,
                              const std::map<std::string, TensorRange> &ranges, int64_t block);

} // namespace opc::cli
