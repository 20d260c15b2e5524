// What `opc doctor` says of a machine: processor, memory, limits, libraries, programs beside opc.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace opc::cli {

struct MachineReport {
  struct Finding {
    std::string section, name, value;
    bool isProblem = false; // opc cannot work, or not well
  };
  std::vector<Finding> findings; // grouped by section
  bool hasNvidia = false;
  std::string processor; // its name; "unknown" when the system does not say
};

/// Looks at files and at the process; runs no program and changes nothing.
MachineReport inspectMachine();

} // namespace opc::cli
