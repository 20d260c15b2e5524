// The functions on rows for x86-64-v4: this file has options of its own, and nothing in it may be called elsewhere.
// SPDX-License-Identifier: Apache-2.0
#include "RowMathLoops.h"

namespace opc::cpu {
extern const RowMath kRowMathV4;
const RowMath kRowMathV4 = kLoops;
} // namespace opc::cpu
