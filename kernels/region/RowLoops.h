// The loop of a kernel that can be joined with others.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "OpInstance.h"

#include "opc/JoinableKernel.h"

#include <memory>

namespace opc {

/// Empty for a kernel that has none.
Result<std::unique_ptr<user_op::RowLoop>> rowLoopOf(const OpInstance &op, const user_op::KernelDef &kernel);

} // namespace opc
