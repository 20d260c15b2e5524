// How a kernel says, while it binds, that it has taken a constant input's contents into a form of its own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Kernel.h"

#include <vector>

namespace opc::user_op {

/// To be called from Bind for an input for which ctx->isConstant() holds, when the bound kernel will not read it: its
/// memory may be given back once all its readers have said so. Binding again reads it anew. No effect when the op
/// instance has no such argument.
void notePackedInput(KernelBindContext *ctx, const std::string &arg, int32_t index = 0);

/// The host's side: the addresses of the inputs that kernels noted in this thread since the last call.
std::vector<const void *> takePackedInputs();

} // namespace opc::user_op
