// Many graphs at once: each is compiled and run by one thread.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GraphCheck.h"

namespace opc::cli {

/// The graphs' checks in the order of `paths`. `threads`: 0 for one for each core.
std::vector<CheckedGraph> checkGraphs(const Registry &registry, const CheckSettings &settings,
                                      const std::vector<std::string> &paths, int threads);

} // namespace opc::cli
