// Which of the functions on rows this processor takes.
// SPDX-License-Identifier: Apache-2.0
#include "RowMath.h"

#include <cstdlib>
#include <cstring>

namespace opc::cpu {

bool hasRowMathV4() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

const RowMath &rowMath() {
  static const RowMath &chosen = []() -> const RowMath & {
    const char *level = std::getenv("OPC_CODE_LEVEL"); // checked by the commands
    const bool isLess = level && (std::strcmp(level, "v3") == 0 || std::strcmp(level, "none") == 0);
    return !isLess && hasRowMathV4() ? kRowMathV4 : kRowMathV3;
  }();
  return chosen;
}

} // namespace opc::cpu
