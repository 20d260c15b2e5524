// One graph's check that cannot end those of the others.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GraphCheck.h"

namespace opc::cli {

/// checkGraph(); what breaks off in it is a finding INTERNAL_ERROR of this graph, with the bundle that it has left.
CheckedGraph checkGuarded(const Registry &registry, const CheckSettings &settings, const std::string &path);

/// A graph whose check has broken off, with the one finding that says why; without it where the settings leave it out.
CheckedGraph brokenCheck(const CheckSettings &settings, const std::string &path, const char *rule, int exitCode,
                         std::string message, std::string help);

} // namespace opc::cli
