// Graphs that are checked in processes of their own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GraphCheck.h"

#include <string>
#include <vector>

namespace opc::cli {

/// As checkGuarded() of each, at most `workers` at once: whatever code of a plugin does to its process, by a signal or
/// by ending it, is a finding of that graph, RUN_FAILED or INTERNAL_ERROR, and the others go on. The calling thread is
/// the only one of its process.
std::vector<CheckedGraph> checkInProcesses(const Registry &registry, const CheckSettings &settings,
                                           const std::vector<std::string> &paths, size_t workers);

} // namespace opc::cli
