// Settings of a check that mean nothing that was checked.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Config.h"
#include "GraphCheck.h"

namespace opc::cli {

/// What a check looks at: graphs, those that only a revision has, and locks of graphs that are no longer there. Of the
/// last two nobody knows the outputs.
struct CheckedAll {
  const std::vector<CheckedGraph> &graphs;
  const std::vector<GraphReport> &removed;
  const std::vector<std::string> &orphans;
};

/// A note for each name under [tolerance] that is no element type and fits no output or tensor, and for each glob of
/// [check.ignore] that fits no graph, misspelt ones maybe: "note: ...". `isAll`: the project's settings say what is
/// checked, so theirs is all meant for it; the globs of the command line are in any case.
std::vector<std::string> unusedSettings(const Config &config, const CheckSettings &settings, const CheckedAll &all,
                                        bool isAll);

} // namespace opc::cli
