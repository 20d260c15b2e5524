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

/// "did you mean A?", "did you mean A or B?": up to `count` of the nearest, `quote` around each; `otherwise` when none
/// is near.
std::string didYouMean(const std::string &name, const std::vector<std::string> &candidates,
                       const std::string &otherwise = "", const std::string &quote = "", size_t count = 1);

/// didYouMean() with quotes around up to `count` names; when none is near, the first ten candidates ("it has a, b and 3
/// more"), or `none` when there are none.
std::string didYouMeanAmong(const std::string &name, const std::vector<std::string> &candidates,
                            const std::string &none, const std::string &has = "it has ", size_t count = 1);

} // namespace opc
