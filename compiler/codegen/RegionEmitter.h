// From a region to a function in LLVM's form.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "LeafLibrary.h"
#include "Region.h"

#include <memory>
#include <string>

namespace opc::codegen {

constexpr char kEntryName[] = "opc_region";

/// A module of one function, RegionCode::Function in RegionCode.h, that computes the region `lanes` elements at a time.
/// Empty, with the reason, for what is not known here.
std::unique_ptr<llvm::Module> emitRegion(const Region &region, LeafLibrary &leaves, llvm::LLVMContext &context,
                                         unsigned lanes, std::string *reason);

} // namespace opc::codegen
