// Which results of an op with graphs (if, loop) depend on which operands, so that a gradient passes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GraphTexts.h"

#include <vector>

namespace opc {

/// By result, then by operand. Where a graph cannot be read all depends on all: whoever differentiates it says so.
std::vector<std::vector<bool>> controlDependence(ir::UserOp op, const GraphTexts &texts);

} // namespace opc
