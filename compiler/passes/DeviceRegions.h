// Regions of graphs for GPUs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "FusionFacts.h"

#include "mlir/Pass/Pass.h"

#include <memory>
#include <vector>

namespace opc {

/// opc-form-regions in a graph for a GPU: ops that go element by element there are joined, and none that is placed on
/// the CPU. An op without a kernel there for which code can be generated becomes a region, be it alone. Without
/// `joins`, that is all.
std::unique_ptr<mlir::Pass> createFormDeviceRegions(bool joins, std::vector<FusionFacts> *facts);

} // namespace opc
