// --dump: the IR after each phase as a file of its own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "FileUse.h"
#include "Option.h"
#include "Pipeline.h"

#include <optional>
#include <regex>
#include <string>
#include <vector>

namespace opc::cli {

class PhaseDump {
public:
  std::vector<Option> options();
  bool isAsked() const { return !folder_.empty(); }
  /// Makes the folder. Errors: OPC0001, OPC0707.
  Status open();
  /// Writes DIR/03-grad.mlir, if it is asked for. Errors are kept for status().
  void write(Phase phase, const std::string &text);
  const Status &status() const { return status_; }

private:
  std::string folder_, filter_;
  bool changedAlone_ = false;
  std::optional<std::regex> wanted_;
  std::string last_; // of the phase before
  Status status_;
};

} // namespace opc::cli
