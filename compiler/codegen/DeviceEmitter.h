// From a region to a kernel for GPUs in LLVM's form, and from there to PTX.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "DeviceCode.h"
#include "DeviceLoop.h"
#include "LeafLibrary.h"

#include "llvm/IR/Module.h"

#include <memory>
#include <string>

namespace opc::codegen {

/// The least compute capability that code is made for, and so the level that it is kept under.
constexpr char kDeviceLevel[] = "sm_75";

/// A module of one kernel, as DeviceCode in DeviceCode.h says, called `name`. Null, with the reason, for what is not
/// known here or needs the C library.
std::unique_ptr<llvm::Module> emitDeviceRegion(const Region &region, const DeviceLoop &loop, LeafLibrary &leaves,
                                               llvm::LLVMContext &context, const std::string &name,
                                               std::string *reason);

/// The PTX of such a module. Nothing is contracted, neither here nor by who assembles it: every addition, product and
/// quotient says how it rounds. Empty, with the reason, where LLVM refuses it.
std::string compileToPtx(std::unique_ptr<llvm::Module> module, std::string *reason);

} // namespace opc::codegen
