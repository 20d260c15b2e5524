// Machine code for regions, made with LLVM (docs/code-generation.md).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "CodeLevel.h"
#include "RegionCode.h"

#include <memory>

namespace opc {

/// What this process has compiled.
struct CodegenStats {
  uint64_t compiled = 0, reused = 0, refused = 0; // regions; of equal ones the first is compiled
  uint64_t bytes = 0;                             // of code
  double seconds = 0;
};

/// Compiles regions for a level; equal ones once, as long as one of them is there.
class RegionCodegen : public RegionCompiler {
public:
  /// `isEager`: be they small.
  static std::shared_ptr<RegionCodegen> create(CodeLevel level, bool isEager = false);
  /// For this processor and OPC_CODE_LEVEL, which makes it eager; null where there is no code.
  static std::shared_ptr<RegionCodegen> forThisMachine();
  virtual CodegenStats stats() const = 0;
};

} // namespace opc
