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
// The factor beside x = 0 is replaced only where the product would be NaN: elsewhere it is the slope by x.
OPC_SCALAR(Xlogy, x, y) { return x * select(x == 0 && (y <= 0 || isinf(y)), 0, log(y)); }
OPC_SCALAR(Xdivy, x, y) { return x / select(x == 0 && y == 0, f32::kInf64, y); }
OPC_SCALAR(Lerp, start, end, weight) { return start + weight * (end - start); }
// Not max and min: at a bound the slope is 1, as in PyTorch, and not half. NaN stays, also as a bound.
OPC_SCALAR(ClipMin, x, lo) { return select(x >= lo || isnan(x), x, lo); }
OPC_SCALAR(ClipMax, x, hi) { return select(x <= hi || isnan(x), x, hi); }
OPC_SCALAR(Clip, x, lo, hi) {
  auto raised = select(x >= lo || isnan(x), x, lo);
  return select(raised <= hi || isnan(raised), raised, hi);
}

} // namespace opc::scalar
