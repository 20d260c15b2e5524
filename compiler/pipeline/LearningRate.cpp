// Another learning rate than the one that a training graph was written with.
// SPDX-License-Identifier: Apache-2.0
#include "LearningRate.h"

#include "AttrBridge.h"

namespace opc {

bool hasBaseRate(const std::string &decayType) { return decayType != "piecewise_constant"; }

size_t setLearningRate(mlir::ModuleOp module, const Registry &registry, double rate) {
  size_t changed = 0;
  module.walk([&](ir::UserOp op) {
    const user_op::OpDef *def = registry.findOp(op.getOpType().str());
    if (!def) return;
    // The base of learning_rate_schedule; of an update op what stands where no tensor gives the rate.
    const bool isSchedule = op.getOpType() == "learning_rate_schedule";
    const user_op::AttrDef *attr = def->findAttr(isSchedule ? "learning_rate" : "learning_rate_val");
    if (!attr || (!isSchedule && op.input("learning_rate"))) return;
    if (isSchedule && !hasBaseRate(op.attribute("decay_type", std::string()))) return;
    const AttrValue value = attr->type == kAtFloat ? AttrValue(static_cast<float>(rate)) : AttrValue(rate);
    mlir::NamedAttrList attrs(op.getOpAttrs());
    attrs.set(attr->name, ir::toMlir(op.getContext(), value));
    op.setOpAttrsAttr(attrs.getDictionary(op.getContext()));
    ++changed;
  });
  return changed;
}

} // namespace opc
