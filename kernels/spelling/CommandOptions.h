// Options of the command line in texts for whoever may have none.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>

namespace opc {

/// Begin and end of the next option, from `from` on, that stands behind no command: in "--wrt w, or see opc grad
/// --explain w" the first. Nothing when there is none.
std::optional<std::pair<size_t, size_t>> nextBareOption(const std::string &text, size_t from);

} // namespace opc
