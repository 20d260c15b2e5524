// What the processor has.
// SPDX-License-Identifier: Apache-2.0
#include "opc/ProcessorLevel.h"

#include <cstdlib>
#include <string_view>

namespace opc {

bool hasLevelV4() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#else
  return false;
#endif
}

bool usesLevelV4() {
  const char *set = std::getenv("OPC_CODE_LEVEL");
  const std::string_view level = set ? set : "";
  return level != "v3" && level != "none" && hasLevelV4();
}

} // namespace opc
