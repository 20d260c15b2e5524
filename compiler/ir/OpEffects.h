// What ops do beside making their results.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "OpcDialect.h"

namespace opc::ir {

/// Whether an op writes none of its inputs and has no place by control, which has a reason that its operands do not
/// show. What it makes may be another thing in every run.
bool onlyMakesResults(UserOp op, const user_op::OpDef &def);

} // namespace opc::ir
