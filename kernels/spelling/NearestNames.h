// Which known names a misspelt one may have meant: the hint of most "no such name" errors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace opc {

/// The candidates nearest to `name` within a third of its length (at least 2 edits), best first.
std::vector<std::string> nearestNames(const std::string &name, const std::vector<std::string> &candidates,
                                      size_t count = 3);

} // namespace opc
