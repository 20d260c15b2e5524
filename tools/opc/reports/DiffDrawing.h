// The difference of two graphs as SVG, and as a page.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "DiffReport.h"

#include <string>

namespace opc::cli {

/// The newer graph with what is gone drawn into it: added ops are green, changed ones yellow, removed ones red with a
/// broken frame; a renamed op has a broken blue frame.
std::string diffSvg(const FactNodes &a, const FactNodes &b, const GraphMatch &match, const DiffReport &report);

/// A page of its own: the findings, which a search reduces, and the drawing.
std::string diffHtml(const FactNodes &a, const FactNodes &b, const GraphMatch &match, const DiffReport &report);

} // namespace opc::cli
