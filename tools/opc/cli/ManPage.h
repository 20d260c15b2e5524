// Manual pages from the commands' own descriptions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "CommandLine.h"

#include <string>
#include <utility>
#include <vector>

namespace opc::cli {

/// The page opc-NAME(1) in roff. `seeAlso`: names of other pages.
std::string manPage(const CommandSpec &spec, const std::vector<Option> &commonOptions);
/// The page opc(1): the commands with a line each.
std::string rootManPage(const std::vector<std::pair<std::string, std::string>> &commands,
                        const std::vector<Option> &commonOptions);

} // namespace opc::cli
