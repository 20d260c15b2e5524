// The op whose kernel moves bytes and does nothing else: a device's one reaches the CPU's memory beside it, too.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Op.h"

namespace opc {

constexpr char kCopyOp[] = "copy";
inline bool isDeviceCopy(const user_op::OpDef &op) { return op.name == kCopyOp; }

} // namespace opc
