// MLIR's diagnostics as findings of a compilation.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Diagnostic.h"
#include "Locations.h"

#include "mlir/IR/Diagnostics.h"

namespace opc {

SourceRange rangeOf(const ir::OpLocation &location);

/// What was reported, from the parts that it carries. A diagnostic without parts of ours is MLIR's own complaint: a bug
/// of ours (OPC0901).
Diagnostic toFinding(mlir::Diagnostic &diagnostic);

} // namespace opc
