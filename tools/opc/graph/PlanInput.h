// A plan file in the terms in which graphs are shown.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Pipeline.h"
#include "Session.h"

#include <string_view>

namespace opc::cli {

/// The tasks as ops, with what they cost and the kernels that were chosen; the interface as inputs, outputs and
/// variables, and the memory. Of a plan for several ranks the first one's. Errors: those of describePlan.
Result<GraphFacts> factsOfPlan(std::string_view bytes, const Registry &registry);

} // namespace opc::cli
