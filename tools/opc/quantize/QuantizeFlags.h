// What opc quantize is asked for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GraphInput.h"
#include "ModelFlags.h"
#include "Option.h"
#include "QuantizedGraph.h"
#include "TrainingOptions.h"
#include "ValueGiver.h"

#include <optional>
#include <string>
#include <vector>

namespace opc::cli {

class Invocation;

struct QuantizeFlags {
  std::string output, to = "int8", how;
  std::vector<std::string> calibrate, keep, shapes;
  std::optional<double> percentile;
  std::optional<int64_t> block;
  int64_t batches = 0, top = 10; // 0 batches: all
  uint64_t compareMemory = uint64_t{1} << 30;
  ValueFlags values;
  ModelFlags model;
  std::vector<DataSet> dataSets; // of calibrate: read()

  std::vector<Option> options();
  QuantizeMode mode() const;
  /// Of --method; min-max where it is not given.
  RangeMethod method() const;
  std::string methodName() const { return how.empty() ? "min-max" : how; }
  /// Elements that share a scale of 4-bit weights.
  int64_t blockSize() const { return block.value_or(32); }
  /// Errors: OPC0001, OPC0002, OPC0003.
  Status read(const std::string &graph, bool json);
  /// What is read is not written over: neither by the model nor by the file of its large tensors. Errors: OPC0002.
  Status checkFiles(const Invocation &invocation, const GraphInput &input) const;
};

} // namespace opc::cli
