// What the processor has.
// SPDX-License-Identifier: Apache-2.0
#include "CodeLevel.h"

#include "opc/ProcessorLevel.h"

#include <algorithm>
#include <cstdlib>

namespace opc {

const char *codeLevelName(CodeLevel level) {
  return level == CodeLevel::kV4 ? "v4" : level == CodeLevel::kV3 ? "v3" : "none";
}

std::string_view wantedCodeLevel() {
  const char *set = std::getenv("OPC_CODE_LEVEL");
  return set ? set : "";
}

bool isCodeLevel(std::string_view text) {
  const CodeLevel all[] = {CodeLevel::kNone, CodeLevel::kV3, CodeLevel::kV4};
  return std::any_of(std::begin(all), std::end(all), [&](CodeLevel level) { return text == codeLevelName(level); });
}

Status checkCodeLevel() {
  const std::string wanted(wantedCodeLevel());
  if (wanted.empty() || isCodeLevel(wanted)) return Status::ok();
  return Status(StatusCode::kUsage, "OPC0001", "OPC_CODE_LEVEL takes none, v3 or v4, not '" + wanted + "'");
}

CodeLevel processorLevel() {
  CodeLevel best = CodeLevel::kNone;
#if defined(__x86_64__)
  __builtin_cpu_init();
  auto has = [](bool a, bool b, bool c, bool d, bool e) { return a && b && c && d && e; };
  if (has(__builtin_cpu_supports("avx2"), __builtin_cpu_supports("fma"), __builtin_cpu_supports("f16c"),
          __builtin_cpu_supports("bmi"), __builtin_cpu_supports("bmi2")))
    best = CodeLevel::kV3;
  if (best == CodeLevel::kV3 && hasLevelV4()) best = CodeLevel::kV4;
#endif
  return best;
}

CodeLevel codeLevel() {
  const std::string_view wanted = wantedCodeLevel();
  const CodeLevel best = processorLevel();
  if (wanted == "none") return CodeLevel::kNone;
  return wanted == "v3" ? std::min(best, CodeLevel::kV3) : best;
}

} // namespace opc
