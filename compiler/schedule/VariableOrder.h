// When ops that write variables run: after everybody who reads the old value.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "OpcDialect.h"

#include <optional>
#include <utility>
#include <vector>

namespace opc {

/// An op that must run before another one, as indices into the list of ops.
using OpOrder = std::pair<uint32_t, uint32_t>;

/// Orders beside those of the data: what OperatorConf.ctrl_in_op_name asks for (the attribute `opc.ctrl_in`), and, for
/// each op that writes a variable, that every op which reads the variable runs before it, unless the graph orders that
/// op after the write. So all reads of a step see the value that the step began with. `ops` in a topological order of
/// their data. Reports OPC0209 and gives nothing when two ops write a variable in no order, or when no order serves
/// every reader.
std::optional<std::vector<OpOrder>> variableOrder(llvm::ArrayRef<mlir::Operation *> ops);

} // namespace opc
