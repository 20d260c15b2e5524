// Settings of a check that mean nothing that was checked.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Config.h"
#include "GraphCheck.h"

namespace opc::cli {

/// A note for each name under [tolerance] that is no element type and fits no output or tensor, and for each glob of
/// [check.ignore] that fits no graph, misspelt ones maybe: "note: ...". `isAll`: the project's settings say what is
/// checked, so theirs is all meant for it; the globs of the command line are in any case. `gone`: what belongs to
/// graphs that are no longer there, whose outputs nobody knows.
std::vector<std::string> unusedSettings(const Config &config, const CheckSettings &settings,
                                        const std::vector<CheckedGraph> &checked, const std::vector<std::string> &gone,
                                        bool isAll);

} // namespace opc::cli
