// What this program writes when it is run once more, as a process of its own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Status.h"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace opc::cli {

struct ProcessEnd {
  std::string output;  // what it wrote to standard output
  int code = 0;        // its exit code
  int signal = 0;      // that ended it, or 0
  bool isLate = false; // it was ended: nothing had come from it for the time that it had
};

/// What is heard of a process while it runs.
struct ProcessWatch {
  double seconds = 0; // that it has until the first line that is progress; 0: any
  /// Those that it has from a line of its standard output to the next progress; nothing where the line is none.
  std::function<std::optional<double>(std::string_view line)> progress = nullptr;
};

/// Runs this program with other arguments and waits for it. Its standard error is this process's; it leaves a
/// crash bundle only where OPC_CRASH_DIR names a folder. Error: OPC0604 when it cannot be started.
Result<ProcessEnd> runOwnProgram(const std::vector<std::string> &arguments, const ProcessWatch &watch = {});

/// How it ended, for `a second process of opc ...`: OPC0604, or nothing wrong.
Status failureOf(const ProcessEnd &end);

/// What it writes to standard output. Errors: OPC0604, also when it ends otherwise than with 0.
Result<std::string> outputOfOwnProgram(const std::vector<std::string> &arguments, const ProcessWatch &watch = {});

} // namespace opc::cli
