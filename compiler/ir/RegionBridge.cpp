// Between opc.fused and the regions that kernels compute.
// SPDX-License-Identifier: Apache-2.0
#include "RegionBridge.h"
#include "AttrBridge.h"
#include "DeviceLoop.h"

using namespace mlir;

namespace opc::ir {

Result<std::shared_ptr<const Region>> toRegion(FusedOp op, const Registry &registry, DeviceType device) {
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
    OPC_ASSIGN_OR_RETURN(step.kernel, step.op.selectKernel(registry, DeviceType::kCPU));
    Joinable loops = joinable(step.op, *step.kernel);
    if (!loops.may)
      return Status(StatusCode::kUnsupported, "OPC0411", def->name + ": its kernel has no loop over elements");
    if (device == DeviceType::kGPU && (loops.rows || loops.moves || !mayJoinOnDevice(step.op, *step.kernel)))
      return Status(StatusCode::kUnsupported, "OPC0411", def->name + ": regions on a GPU have no code for it");
    for (Value v : user.getArgs()) step.args.push_back(values.lookup(v));
    step.rows = std::move(loops.rows);
    step.moves = std::move(loops.moves);
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
  OPC_RETURN_IF_ERROR(checkBatch(*batch));
  return std::shared_ptr<const Batch>(std::move(batch));
}

} // namespace opc::ir
