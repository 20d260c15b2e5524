// --validate-graph and --validate, opened.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "RunSteps.h"
#include "Validation.h"

namespace opc::cli {

/// Compiles --validate-graph for --validate's data. Its variables are those of the session that trains; batches are
/// of `batch` examples where the graph leaves that open. On several ranks each computes all of it. Errors: those of
/// compiling and of data sets; OPC0005 for a variable that is not trained, and for a graph without such outputs.
Outcome<std::unique_ptr<Validation>> openValidation(RunContext &context, const Registry &registry,
                                                    const Session &trained, int64_t batch);

} // namespace opc::cli
