// Scalar functions of two numbers: arithmetic, extrema, remainders, interpolation.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Scalar.h"

namespace opc::scalar {

OPC_SCALAR(Add, x, y) { return x + y; }
OPC_SCALAR(Sub, x, y) { return x - y; }
OPC_SCALAR(Mul, x, y) { return x * y; }
OPC_SCALAR(Div, x, y) { return x / y; }
OPC_SCALAR(Pow, x, y) { return pow(x, y); }
OPC_SCALAR(ReversePow, x, y) { return pow(y, x); }
OPC_SCALAR(Maximum, x, y) { return max(x, y); }
OPC_SCALAR(Minimum, x, y) { return min(x, y); }
OPC_SCALAR(Fmod, x, y) { return fmod(x, y); }
OPC_SCALAR(FloorMod, x, y) { return floormod(x, y); }
OPC_SCALAR(FloorDiv, x, y) { return floordiv(x, y); }
OPC_SCALAR(TruncDiv, x, y) { return truncdiv(x, y); }
OPC_SCALAR(Atan2, x, y) { return atan2(x, y); }
OPC_SCALAR(Xlogy, x, y) { return select(x == 0 && !isnan(y), 0, x * log(y)); }
OPC_SCALAR(Xdivy, x, y) { return select(x == 0 && !isnan(y), 0, x / y); }
OPC_SCALAR(Lerp, start, end, weight) { return start + weight * (end - start); }
OPC_SCALAR(Clip, x, lo, hi) { return min(max(x, lo), hi); }

} // namespace opc::scalar
