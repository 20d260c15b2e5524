// A graph that was checked, as bytes: what one process hands to another of the same opc.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GraphCheck.h"

#include <optional>
#include <string>
#include <string_view>

namespace opc::cli {

/// Of a lock the sections, of another revision's graph (CheckSettings::isAgainst) nothing: nobody asks for it any more.
std::string bytesOf(const CheckedGraph &checked, bool isAgainst);
/// Nothing where the bytes are not those of bytesOf() as a whole: whoever wrote them may have come to grief.
std::optional<CheckedGraph> checkedOf(std::string_view bytes);

} // namespace opc::cli
