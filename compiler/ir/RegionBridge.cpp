// Between opc.fused and the regions that kernels compute.
// SPDX-License-Identifier: Apache-2.0
#include "RegionBridge.h"
#include "AttrBridge.h"

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
    if (!instance || user.getOuts().size() != 1)
      return Status(StatusCode::kUnsupported, "OPC0411", "no kernel computes an opc.fused with such a body");
    RegionStep step{std::move(*instance), nullptr, {}};
    OPC_ASSIGN_OR_RETURN(step.kernel, step.op.selectKernel(registry, device));
    if (!mayJoinRegion(step.op, *step.kernel))
      return Status(StatusCode::kUnsupported, "OPC0411", def->name + ": its kernel has no loop over elements");
    for (Value v : user.getArgs()) step.args.push_back(values.lookup(v));
    values[user.getOuts()[0]] = region->valueOf(region->steps.size());
    region->steps.push_back(std::move(step));
  }
  if (op.getOuts().empty()) return Status(StatusCode::kUnsupported, "OPC0411", "an opc.fused without results");
  region->shape = descOf(op.getOuts()[0]).shape();
  for (Value v : cast<YieldOp>(body.getTerminator()).getArgs()) region->outputs.push_back(values.lookup(v));
  OPC_RETURN_IF_ERROR(checkRegion(*region));
  return std::shared_ptr<const Region>(std::move(region));
}

} // namespace opc::ir
