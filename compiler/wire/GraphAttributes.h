// Between the dialect's attributes and the messages of graph files.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "OpcDialect.h"

#include "graph.pb.h"

namespace opc {

/// Null when the message says nothing.
ir::InitializerAttr toMlir(mlir::MLIRContext *context, const graph::InitializerConf &conf);
void toProto(ir::InitializerAttr initializer, graph::InitializerConf *conf);
/// Without the fields that have their defaults.
ir::InitializerAttr withoutDefaults(ir::InitializerAttr initializer);

/// "forward_pass", "backward_pass", ... (OperatorConf.calculation_pass_name); nothing for a name that is no role's.
std::optional<ir::Role> roleOfPass(llvm::StringRef passName);
llvm::StringRef passName(ir::Role role);

/// "gradient_of:fc1" (OperatorConf.pass_tag) of the op fc1, and back; "" for a tag that says no such thing.
std::string tagOfOrigin(llvm::StringRef op);
llvm::StringRef originOfTag(llvm::StringRef passTag);

} // namespace opc
