// Crashes on demand, so that tests can see what becomes of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Pipeline.h"

#include "mlir/Pass/PassManager.h"

namespace opc {

/// What OPC_TEST_CRASH asks for of this phase, in the environment: PHASE:HOW or PHASE:HOW:TEXT, where TEXT is a part of
/// the graph's name. HOW: "throw", "throw-int" (what no handler expects), "fatal" (what ends programs of LLVM),
/// "segfault", "abort", "overflow" (of the stack), "invalid" (IR that the verifier refuses); "throw@2": when the
/// process comes to the phase for the second time, and not before. Empty without the variable.
std::string plannedCrash(Phase phase, const std::string &graph);

/// Does it, but for "invalid".
void crashAs(const std::string &how);

/// A pass that does it to the graph.
std::unique_ptr<mlir::Pass> createPlannedCrash(std::string how);

} // namespace opc
