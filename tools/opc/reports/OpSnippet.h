// An op as a graph file writes it: what `opc ops show` ends with.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Registry.h"

#include <string>

namespace opc::cli {

/// "at_list_int32 { val: 1 val: 2 }": a value as the attr of a graph's op holds it.
std::string attrValueText(const AttrValue &value);

/// The op with the arguments and attributes of its first sample case, which a graph with such inputs runs; attributes
/// that the case leaves at their defaults follow as comments. An op without cases gets its required ones.
std::string opSnippet(const Registry &registry, const user_op::OpDef &op);

} // namespace opc::cli
