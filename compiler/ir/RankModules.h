// The modules of ranks' graphs, which stand beside the whole graph in its module.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "llvm/ADT/StringRef.h"

namespace opc::ir {
/// On the module of some ranks' graph: which ranks.
constexpr llvm::StringLiteral kRanksAttr = "opc.ranks";
} // namespace opc::ir
