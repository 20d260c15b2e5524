// From a region to a function in LLVM's form.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "CodeLevel.h"
#include "LeafLibrary.h"
#include "Region.h"

#include <memory>
#include <string>

namespace opc::codegen {

constexpr char kEntryName[] = "opc_region";

/// How many elements a turn of the loop computes: several vectors, as a chain of functions would wait for each of them.
constexpr unsigned lanesOf(CodeLevel level) { return level == CodeLevel::kV4 ? 64 : 32; }

/// A module of one function, RegionCode::Function in RegionCode.h, that computes the region `lanes` elements at a time.
/// Empty, with the reason, for what is not known here.
std::unique_ptr<llvm::Module> emitRegion(const Region &region, LeafLibrary &leaves, llvm::LLVMContext &context,
                                         unsigned lanes, std::string *reason);

} // namespace opc::codegen
