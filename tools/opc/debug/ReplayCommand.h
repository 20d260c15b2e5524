// The command of a bundle, made harmless: it writes below one folder, loads no code, and reads what it may.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Status.h"

#include <string>
#include <vector>

namespace opc::cli {

struct ReplayCommand {
  std::vector<std::string> words;   // {} for the graph
  std::vector<std::string> dropped; // options that are left out: they name code or settings
};

/// `words` as a bundle has them. What they write goes to files in `scratch`, or beside the graph where `hasGraph`: the
/// bundle has its own, and {} is a copy. What they read lies in the working directory or below, unless `anyFile`.
/// Errors: OPC0751 for a command, an option or a path that is not replayed.
Result<ReplayCommand> replayCommand(const std::vector<std::string> &words, const std::string &scratch, bool hasGraph,
                                    bool anyFile);

} // namespace opc::cli
