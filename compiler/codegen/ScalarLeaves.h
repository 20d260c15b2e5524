// The functions that expressions are made of: as bitcode, and as addresses in this program.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <unordered_map>

namespace opc::codegen {

/// A module of functions "opc_leaf_<function>_<type>": "opc_leaf_exp_f32", "opc_leaf_cast_i32_f64".
std::string_view scalarLeavesBitcode();
/// The same functions, compiled.
const std::unordered_map<std::string_view, const void *> &scalarLeafAddresses();

} // namespace opc::codegen
