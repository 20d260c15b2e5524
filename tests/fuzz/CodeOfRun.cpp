// Machine code in test programs.
// SPDX-License-Identifier: Apache-2.0
#include "CodeOfRun.h"

#include "Codegen.h"

#include <cstdio>
#include <map>

namespace opc::test {

CodeOfRun::CodeOfRun() : compiler_(RegionCodegen::forThisMachine()) { setRegionCompiler(compiler_); }
CodeOfRun::~CodeOfRun() { setRegionCompiler(nullptr); }

bool CodeOfRun::report() const {
  if (wantedCodeLevel().empty()) return true;
  if (!compiler_) {
    std::printf("machine code: none\n");
    return wantedCodeLevel() == codeLevelName(CodeLevel::kNone) || processorLevel() == CodeLevel::kNone;
  }
  const CodegenStats stats = compiler_->stats();
  std::printf("machine code for %s: %llu loops compiled, %llu like them, %llu without; %.1f s\n",
              codeLevelName(codeLevel()), static_cast<unsigned long long>(stats.compiled),
              static_cast<unsigned long long>(stats.reused), static_cast<unsigned long long>(stats.refused),
              stats.seconds);
  std::map<std::string, std::string> reasons; // and an example
  for (const CodegenEvent &event : compiler_->events()) {
    if (event.reason.empty()) continue;
    std::string ops;
    for (const std::string &op : event.ops) ops += (ops.empty() ? "" : ", ") + op;
    reasons.emplace(event.reason, std::move(ops));
  }
  for (const auto &[reason, ops] : reasons) std::printf("  without, for one: %s (%s)\n", reason.c_str(), ops.c_str());
  return stats.compiled > 0 && reasons.count("its ops' own loops give other bits") == 0;
}

} // namespace opc::test
