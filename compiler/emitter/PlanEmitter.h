// Execution schedule -> plan file.
#pragma once

#include "Schedule.h"

#include <string>

namespace opc {

/// The bytes of a plan file. `graphName` is what the plan calls its graph: a file name without folders, so that equal
/// graphs give equal plans wherever they lie.
std::string emitPlan(mlir::ModuleOp module, const ExecutionSchedule &schedule, const std::string &graphName);

} // namespace opc
