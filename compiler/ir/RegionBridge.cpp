// Between opc.fused and the regions that kernels compute.
// SPDX-License-Identifier: Apache-2.0
#include "RegionBridge.h"
#include "AttrBridge.h"
#include "DeviceLoop.h"

using namespace mlir;

namespace opc::ir {

static Result<StepFacts> stepFacts(const OpInstance &op, const Registry &registry, DeviceType device) {
  StepFacts facts;
  OPC_ASSIGN_OR_RETURN(facts.kernel, op.selectKernel(registry, DeviceType::kCPU));
  facts.loops = joinable(op, *facts.kernel);
  if (!facts.loops.may)
    return Status(StatusCode::kUnsupported, "OPC0411", op.def().name + ": its kernel has no loop over elements");
  if (device == DeviceType::kGPU && !mayJoinOnDevice(op, *facts.kernel, facts.loops))
    return Status(StatusCode::kUnsupported, "OPC0411", op.def().name + ": regions on a GPU have no code for it");
  return facts;
}

Result<std::shared_ptr<const Region>> toRegion(FusedOp op, const Registry &registry, DeviceType device,
                                               KnownSteps *known) {
  KnownSteps own;
  if (!known) known = &own;
  Block &body = op.getBody().front();
  auto region = std::make_shared<Region>();
  llvm::DenseMap<Value, uint32_t> values;
  for (BlockArgument arg : body.getArguments()) {
    values[arg] = arg.getArgNumber();
    region->inputs.push_back(descOf(arg));
  }
  for (Operation &inner : body.without_terminator()) {
    auto user = dyn_cast<UserOp>(&inner);
    const user_op::OpDef *def = user ? user.def() : nullptr;
    std::unique_ptr<OpInstance> instance = def ? toInstance(user, *def) : nullptr;
    if (!instance)
      return Status(StatusCode::kUnsupported, "OPC0411", "no kernel computes an opc.fused with such a body");
    RegionStep step{std::move(*instance), nullptr, {}};
    const OpForm form(user, OpForm::kResults, {static_cast<uintptr_t>(device)});
    const StepFacts *facts = known->find(form);
    if (!facts) {
      OPC_ASSIGN_OR_RETURN(StepFacts found, stepFacts(step.op, registry, device));
      facts = &known->add(form, std::move(found));
    }
    step.kernel = facts->kernel;
    step.rows = facts->loops.rows;
    step.moves = facts->loops.moves;
    for (Value v : user.getArgs()) step.args.push_back(values.lookup(v));
    for (auto [i, v] : llvm::enumerate(user.getOuts())) values[v] = static_cast<uint32_t>(region->values() + i);
    region->add(std::move(step));
  }
  if (op.getOuts().empty()) return Status(StatusCode::kUnsupported, "OPC0411", "an opc.fused without results");
  for (Value v : cast<YieldOp>(body.getTerminator()).getArgs()) region->outputs.push_back(values.lookup(v));
  OPC_RETURN_IF_ERROR(completeRegion(region.get()));
  return std::shared_ptr<const Region>(std::move(region));
}

Result<std::shared_ptr<const Batch>> toBatch(FusedOp op, const Registry &registry, DeviceType device) {
  auto batch = std::make_shared<Batch>();
  for (BlockArgument arg : op.getBody().front().getArguments()) batch->inputs.push_back(descOf(arg));
  for (UserOp user : op.getBody().front().getOps<UserOp>()) {
    const user_op::OpDef *def = user.def();
    std::unique_ptr<OpInstance> instance = def ? toInstance(user, *def) : nullptr;
    if (!instance)
      return Status(StatusCode::kUnsupported, "OPC0411", "no kernel computes an opc.fused of such updates");
    BatchStep step{std::move(*instance), nullptr, {}};
    OPC_ASSIGN_OR_RETURN(step.kernel, step.op.selectKernel(registry, device));
    for (Value v : user.getArgs()) step.args.push_back(cast<BlockArgument>(v).getArgNumber());
    batch->steps.push_back(std::move(step));
  }
  OPC_RETURN_IF_ERROR(checkBatch(*batch, device));
  return std::shared_ptr<const Batch>(std::move(batch));
}

} // namespace opc::ir
