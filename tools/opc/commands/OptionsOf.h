// The options that a command line may have.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Option.h"

#include <string>
#include <vector>

namespace opc::cli {

/// The options of the command that `words` (those after `opc`) name, and behind them those of every command: to tell
/// options, values and arguments apart. Nobody may set them: the command is gone.
std::vector<Option> optionsOf(const std::vector<std::string> &words);

} // namespace opc::cli
