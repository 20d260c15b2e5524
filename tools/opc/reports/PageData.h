// What the scripts of a page draw: facts, timelines and findings as one compact document.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GraphDrawing.h"
#include "JsonOutput.h"
#include "PageTimeline.h"

#include <vector>

namespace opc::cli {

/// Texts stand once, in a list, and elsewhere as their number in it; all are printable. tools/opc/page reads it.
Json pageData(const GraphFacts &facts, const NodeMarks &marks, const std::vector<PageTimeline> &timelines);

} // namespace opc::cli
