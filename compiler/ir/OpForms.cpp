// What was found out of an op holds of every op that is the same but for names.
// SPDX-License-Identifier: Apache-2.0
#include "OpForms.h"

namespace opc::ir {

OpForm::OpForm(UserOp op, Sees sees, std::initializer_list<uintptr_t> besides) : parts_(besides) {
  const auto add = [&](const void *part) { parts_.push_back(reinterpret_cast<uintptr_t>(part)); };
  const auto &p = op.getProperties();
  for (mlir::Attribute a : {mlir::Attribute(p.opType), mlir::Attribute(p.inputNames), mlir::Attribute(p.inputSizes),
                            mlir::Attribute(p.outputNames), mlir::Attribute(p.outputSizes), mlir::Attribute(p.opAttrs)})
    add(a.getAsOpaquePointer());
  for (mlir::Value v : op->getOperands()) add(v.getType().getAsOpaquePointer());
  if (sees == kResults)
    for (mlir::Value v : op->getResults()) add(v.getType().getAsOpaquePointer());
}

} // namespace opc::ir
