// The type that a kernel computes in, where that is not its tensors'.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "OpInstance.h"

namespace opc {

/// Whether the kernel, of the CPU, computes f16 and bf16 in f32: it makes copies of its inputs in f32, and rounds what
/// it has computed of them (StagedKernel), so that casts around the op in f32 give the same bits.
bool computesInF32(const OpInstance &op, const user_op::KernelDef &kernel);

} // namespace opc
