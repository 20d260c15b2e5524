// Ops that do more than compute, of which a mesh has copies.
// SPDX-License-Identifier: Apache-2.0
#include "CopiesOfEffects.h"

#include "BuiltIn.h"
#include "EmitStatus.h"
#include "OpcDialect.h"
#include "PluginOpeners.h"
#include "TextParts.h"

using namespace mlir;

namespace opc {
namespace {

/// Built-in ops that are not pure say what happens on a mesh, or write variables, of which every device has its part.
bool isCopied(const user_op::OpDef &def) {
  const bool saysHow = def.getSbp || def.shardingOf || !def.sharding.empty();
  return !def.pure && !saysHow && !isBuiltIn(def.origin);
}

std::string howToSay(const user_op::OpDef &def) {
  if (isDefinedInPython(def.origin.library))
    return "sbp= of opc.op, which operators in the styles of other frameworks lack, says what each device has; an op "
           "without side_effect=, needs_rng= and aux= is held to be pure";
  return "an SBP rule (SetGetSbpFn) says what each device has; .Pure() says that equal inputs give equal outputs";
}

} // namespace

void warnOfCopies(ModuleOp module, int64_t devices) {
  if (devices < 2) return;
  ir::UserOp first;
  size_t count = 0;
  const user_op::OpDef *def = nullptr;
  module.walk([&](ir::UserOp op) {
    const user_op::OpDef *found = op.def();
    if (!found || !isCopied(*found) || count++) return;
    first = op, def = found;
  });
  if (!first) return;
  const std::string more = count > 1 ? " (and so with " + counted(count - 1, "more op") + ")" : "";
  const std::string what = def->outputs.empty() ? "what it does is done by each" : "its outputs count as equal copies";
  emitFinding(first.getLoc(), "OPC0315",
              "each of " + std::to_string(devices) + " devices runs " + def->name +
                  ", which is not held to be pure: " + def->pureReason + "; " + what + more,
              howToSay(*def), DiagnosticSeverity::Warning);
}

} // namespace opc
