// How a command fails, so that two failures can be told apart.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Status.h"

#include <string>

namespace opc::cli {

struct FailureSignature {
  int exitCode = 0; // 128 and the signal's number when a signal ended it
  bool isTimeout = false;
  std::string code; // the first "error[CODE]" that it printed; empty: none
  bool isFailure() const { return exitCode != 0 || isTimeout; }
  bool operator==(const FailureSignature &) const = default;
  /// "exit code 5, OPC0620", "Segmentation fault", "longer than 60 s".
  std::string text(double timeout) const;
};

/// Runs `command` in a shell, at most `timeout` seconds, and reads what it prints. A request to stop (StopSignal) ends
/// it as a timeout does. Errors: OPC0604 when no shell can be started.
Result<FailureSignature> runForSignature(const std::string &command, double timeout);

} // namespace opc::cli
