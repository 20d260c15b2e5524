// Ops of types that nobody registered, in parts of a graph that are not wanted.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GraphFile.h"
#include "Registry.h"

#include <string>
#include <vector>

namespace opc {

/// Erases the ops of unknown types on which none of the `wanted` ops and tensors (names, as users give them) depends,
/// and what reads their tensors. Nothing happens when one of the names is not in the graph, which others report.
void eraseUnwantedUnknown(GraphFile *file, const Registry &registry, const std::vector<std::string> &wanted);

} // namespace opc
