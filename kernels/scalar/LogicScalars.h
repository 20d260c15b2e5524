// Scalar functions that compare, test or work on bits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Scalar.h"

namespace opc::scalar {

OPC_SCALAR(Equal, x, y) { return x == y; }
OPC_SCALAR(NotEqual, x, y) { return x != y; }
OPC_SCALAR(Greater, x, y) { return x > y; }
OPC_SCALAR(GreaterEqual, x, y) { return x >= y; }
OPC_SCALAR(Less, x, y) { return x < y; }
OPC_SCALAR(LessEqual, x, y) { return x <= y; }
OPC_SCALAR(LogicalAnd, x, y) { return x != 0 && y != 0; }
OPC_SCALAR(LogicalOr, x, y) { return x != 0 || y != 0; }
OPC_SCALAR(LogicalXor, x, y) { return (x != 0) ^ (y != 0); }
OPC_SCALAR(LogicalNot, x) { return x == 0; }
OPC_SCALAR(NotEqualZero, x) { return x != 0; }
OPC_SCALAR(BitwiseAnd, x, y) { return bitwise_and(x, y); }
OPC_SCALAR(BitwiseOr, x, y) { return bitwise_or(x, y); }
OPC_SCALAR(BitwiseXor, x, y) { return bitwise_xor(x, y); }
OPC_SCALAR(BitwiseNot, x) { return -1 - x; } // two's complement
OPC_SCALAR(BoolNot, x) { return 1 - x; }
OPC_SCALAR(IsNan, x) { return isnan(x); }
OPC_SCALAR(IsInf, x) { return isinf(x); }
OPC_SCALAR(IsFinite, x) { return isfinite(x); }
OPC_SCALAR(Where, condition, x, y) { return select(condition != 0, x, y); }
OPC_SCALAR(MaskedFill, x, mask, value) { return select(mask != 0, value, x); }

} // namespace opc::scalar
