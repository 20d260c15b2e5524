// Machine code for regions, made with LLVM (docs/code-generation.md).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "CodeCache.h"
#include "CodeLevel.h"
#include "RegionCode.h"

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace opc {

/// What this process has compiled.
struct CodegenStats {
  uint64_t compiled = 0, reused = 0, refused = 0; // regions; of equal ones the first is compiled
  uint64_t bytes = 0;                             // of code
  double seconds = 0;
  uint64_t cached = 0; // of the compiled ones: those whose code was on disk
};

/// One region that was compiled, or could not be.
struct CodegenEvent {
  std::chrono::steady_clock::time_point start;
  double seconds = 0;
  std::vector<std::string> ops; // their types, in order
  uint64_t bytes = 0;           // of code
  bool isCached = false;
  std::string reason; // why there is no code
};

/// Compiles regions for a level; equal ones once, as long as one of them is there.
class RegionCodegen : public RegionCompiler {
public:
  /// `isEager`: be they small.
  static std::shared_ptr<RegionCodegen> create(CodeLevel level, bool isEager = false);
  /// For this processor and OPC_CODE_LEVEL, which makes it eager; null where there is no code.
  static std::shared_ptr<RegionCodegen> forThisMachine();
  virtual CodegenStats stats() const = 0;
  /// The first kMaxEvents, in order.
  virtual std::vector<CodegenEvent> events() const = 0;
  static constexpr size_t kMaxEvents = 10000;
  /// Code is looked for there before it is compiled, and kept there afterwards. Before the first region.
  virtual void setCache(std::unique_ptr<codegen::CodeCache> cache) = 0;
};

} // namespace opc
