// The loops of a kernel that can be joined with others.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "OpInstance.h"

#include "opc/JoinableKernel.h"

#include <memory>

namespace opc {

/// Over elements; empty for a kernel that has none.
Result<std::unique_ptr<user_op::RowLoop>> rowLoopOf(const OpInstance &op, const user_op::KernelDef &kernel);

} // namespace opc
