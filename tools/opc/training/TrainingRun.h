// Training: the part of `opc run` that feeds batches of a data set, step after step, and saves what was learnt.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "CommandLine.h"
#include "GraphInput.h"
#include "Invocation.h"
#include "Session.h"
#include "ValueGiver.h"

#include <optional>
#include <string>
#include <vector>

namespace opc::cli {

/// The flags of training, and the run they ask for.
class TrainingRun {
public:
  /// The options that fill this.
  std::vector<Option> options();
  /// Whether a data set was given; without one the other flags are an error of the command line.
  bool isRequested() const { return !dataSets_.empty(); }
  /// OPC0001 for flags of training without --feed-dataset, OPC0003 for values that are none.
  Status readFlags();

  /// What comes from the other flags of the command.
  struct Setup {
    std::string graph; // the path
    const NamedValues *inputs = nullptr;
    ValueFlags values;
    bool seedGiven = false;
    CompileOptions compile;
    SessionOptions session;
    bool writes = true; // whether this process writes the files of the run: the first of several
  };
  /// The whole run; gives the exit code. SIGINT and SIGTERM end it after the step, with a checkpoint if --save is
  /// given; the exit codes are then 130 and 143.
  int run(Invocation &invocation, Setup setup);

private:
  std::vector<std::string> dataSets_;
  std::string metrics_, save_, resume_, plot_;
  bool shuffle_ = false;
  int64_t batch_ = 0, epochs_ = 0, steps_ = 0, saveEvery_ = 0; // 0: not given
  std::optional<int64_t> metricsEvery_;
  std::vector<std::pair<std::string, std::string>> files_; // input, file
};

} // namespace opc::cli
