// The names of a graph file, each one line that can be shown.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph.pb.h"

#include <string_view>

namespace opc {

/// Spells the control characters of every name in the job (printableName()); texts of attributes are values, and stay.
/// `bytes`: the file, in which text without a backslash or a byte beyond ASCII has none of them.
void spellNames(graph::Job *job, std::string_view bytes, bool isText);

} // namespace opc
