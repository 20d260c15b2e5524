// Nodes of domains that are not ONNX's: opc's op of that name, most often a plugin's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "OnnxConversion.h"

#include <map>
#include <string>
#include <vector>

namespace opc::onnx {

/// What the op makes of `inputs` (null: left out), by the node's outputs. Throws Refusal.
std::vector<Term> convertPluginNode(const user_op::OpDef &def, const Node &node, std::vector<Term> inputs,
                                    const std::map<std::string, const Attribute *> &attributes, GraphDraft *draft,
                                    GraphInliner *inliner);

} // namespace opc::onnx
