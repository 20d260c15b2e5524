// Arithmetic with a rounding other than to nearest.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "KernelProgram.h"

namespace opc::gpusim {

enum class RoundedOp : uint8_t { kAdd, kSub, kMul, kDiv, kFma, kRcp, kSqrt };

/// Code::detail is the Rounding, bit 0 of Code::flags flushes, bit 1 saturates.
Handler roundedHandler(RoundedOp op, bool isDouble);

} // namespace opc::gpusim
