// The parts of a page that a graph's facts alone do not give: a planned timeline, and what checks find.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GraphPage.h"
#include "Invocation.h"
#include "MeshFlags.h"

#include <string>

namespace opc::cli {

/// Adds one planned step of `plan` (the bytes of its file), simulated on the flags' cluster. Errors: those of reading
/// the cluster; a plan that cannot be simulated has no timeline, and a note says why.
Status addTimeline(Invocation &invocation, const Registry &registry, const MeshFlags &mesh, const std::string &plan,
                   GraphPage *page);

/// What `opc check` would find without running the graph; `path` is its file, beside which a lock may lie, or empty.
void addFindings(const Registry &registry, const std::string &path, GraphPage *page);

} // namespace opc::cli
