// Training: batches of a data set, step after step, and what was learnt in files.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "RunSteps.h"

namespace opc::cli {

/// The whole run; gives the exit code. SIGINT and SIGTERM end it after the step, with a checkpoint if --save is given;
/// the exit codes are then 130 and 143.
Outcome<int> train(RunContext &context);

} // namespace opc::cli
