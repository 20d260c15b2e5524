// Machine code in test programs: what OPC_CODE_LEVEL asks for, and whether there was any.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

namespace opc {
class RegionCodegen;
}

namespace opc::test {

/// While one is alive, plans that are loaded have machine code as in `opc`: with OPC_CODE_LEVEL=v3 or v4 every loop of
/// theirs, be it small; with none, none.
class CodeOfRun {
public:
  CodeOfRun();
  ~CodeOfRun();
  /// Prints what was compiled. False where a level was asked for and nothing was compiled, or where code had other bits
  /// than the loops.
  bool report() const;

private:
  std::shared_ptr<RegionCodegen> compiler_;
};

} // namespace opc::test
