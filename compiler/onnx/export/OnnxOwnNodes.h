// Ops that ONNX has no form for, as nodes of a domain that opc alone knows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "OnnxEmission.h"

#include "opc/Op.h"

#include <string>

namespace opc::onnx_export {

constexpr const char *kOwnDomain = "opc";
constexpr int64_t kOwnVersion = 1;
constexpr const char *kLibraryKey = "opc.plugin"; // of a node's metadata: the file of the plugin that has its op

/// The op as one node, from which the import makes the same op again: all values in the order of the definition, "" for
/// those that are left out, and all attributes.
void emitOwnNode(Emission &e);

/// The name of the plugin's file; nothing for a built-in op.
std::string libraryOf(const user_op::OpDef &def);

} // namespace opc::onnx_export
