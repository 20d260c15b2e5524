// The options of training, the part of `opc run` that feeds batches of a data set.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "CommandLine.h"
#include "RunTrap.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace opc::cli {

/// A file whose first axis are examples, and the input that they feed.
struct DataSet {
  std::string input, file;
};

/// "INPUT=@FILE", several with commas or in several flags. Errors: OPC0003, which names `option`.
Result<std::vector<DataSet>> parseDataSets(const std::string &option, const std::vector<std::string> &flags);

/// --keep-best: which number, and whether more of it is better.
struct BestMetric {
  std::string name;
  bool isLargest = false;
};

struct TrainingOptions {
  /// The options that fill this.
  std::vector<Option> options();
  /// Whether a data set was given; without one the other options are an error of the command line.
  bool isRequested() const { return !dataSetFlags.empty(); }
  bool validates() const { return !validation.empty(); }
  /// OPC0001 for options of training without --feed-dataset, OPC0003 for data sets that are none.
  Status check();

  std::vector<std::string> dataSetFlags, validationFlags;
  std::vector<DataSet> dataSets, validation;
  std::string metrics, save, resume, plot; // files
  std::string validationGraph;
  bool shuffle = false, otherGraph = false;
  int64_t batch = 0, epochs = 0, steps = 0, saveEvery = 0; // 0: not given
  int64_t validateEvery = 0, keep = 0, patience = 0;
  std::optional<int64_t> metricsEvery;
  std::optional<double> learningRate;
  std::optional<BestMetric> best;
  TrapKinds stopOn;
};

} // namespace opc::cli
