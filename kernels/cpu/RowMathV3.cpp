// The functions on rows for x86-64-v3.
// SPDX-License-Identifier: Apache-2.0
#include "RowMathLoops.h"

namespace opc::cpu {
extern const RowMath kRowMathV3;
const RowMath kRowMathV3 = kLoops;
} // namespace opc::cpu
