// A graph whose convolutions and products are quantised, as facts: what is written as an ONNX model.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GraphFacts.h"
#include "OnnxExport.h"
#include "QuantizableOps.h"
#include "StoredTensor.h"
#include "TensorRanges.h"

#include <map>
#include <set>
#include <string>
#include <vector>

namespace opc::cli {

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
