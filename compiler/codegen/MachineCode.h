// Machine code in this process.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "CodeLevel.h"

#include "llvm/IR/Module.h"

#include <memory>
#include <string>
#include <string_view>

namespace opc::codegen {

/// Code in memory that is never writable and executable at once; freed with this object.
class MachineCode {
public:
  virtual ~MachineCode() = default;
  virtual void *entry() const = 0;
  virtual size_t bytes() const = 0;
};

/// An object file of a module, for a level: the same bytes in every process. What it calls by name are functions of
/// ScalarLeaves.cpp. Empty, with the reason, where LLVM refuses the module.
std::string compileToObject(std::unique_ptr<llvm::Module> module, CodeLevel level, std::string *reason);
/// Loads an object of compileToObject(). Null, with the reason, where it cannot. `map` gives memory for it, as mmap()
/// does; null for the system.
std::unique_ptr<MachineCode> loadCode(std::string_view object, const std::string &entry, std::string *reason,
                                      void *(*map)(size_t bytes) = nullptr);
/// What code depends on beside the module: this build of opc, and LLVM.
std::string codeVersion();

} // namespace opc::codegen
