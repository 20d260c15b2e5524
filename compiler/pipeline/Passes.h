// The compiler's phases as MLIR passes, for opc-opt and its tests. Only developer tools include this.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Registry.h"

#include "mlir/IR/DialectRegistry.h"

namespace opc {

/// Registers opc's dialects into `dialects`, with `registry` behind `opc.user_op`, and every pass with MLIR's command
/// line.
void registerOpcPasses(mlir::DialectRegistry *dialects, const Registry &registry);

} // namespace opc
