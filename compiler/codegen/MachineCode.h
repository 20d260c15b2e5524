// Machine code in this process.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "CodeLevel.h"

#include "llvm/IR/Module.h"

#include <memory>
#include <string>

namespace opc::codegen {

/// Code in memory that is never writable and executable at once; freed with this object.
class MachineCode {
public:
  virtual ~MachineCode() = default;
  virtual void *entry() const = 0;
  virtual size_t bytes() const = 0;
};

/// Compiles a module for a level. It calls nothing by name. Empty, with the reason, where LLVM refuses it.
std::unique_ptr<MachineCode> compileModule(std::unique_ptr<llvm::Module> module, CodeLevel level,
                                           const std::string &entry, std::string *reason);

} // namespace opc::codegen
