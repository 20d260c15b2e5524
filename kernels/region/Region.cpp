// What regions are, and what must hold of them.
// SPDX-License-Identifier: Apache-2.0
#include "Region.h"
#include "HostContexts.h"
#include "RowLoops.h"

#include <algorithm>

namespace opc {

using user_op::KernelDef;
using user_op::TensorDesc;

const user_op::OpDef &regionOp() {
  static const user_op::OpDef def = [] {
    user_op::OpDef d;
    d.name = kRegionType;
    user_op::ArgDef in, out;
    in.name = "in";
    out.name = "out";
    in.count = out.count = 1;
    in.atLeast = out.atLeast = true;
    in.optional = true; // a region of constants alone
    d.inputs = {in};
    d.outputs = {out};
    return d;
  }();
  return def;
}

Result<std::unique_ptr<user_op::RowLoop>> rowLoopOf(const OpInstance &op, const KernelDef &kernel) {
  std::unique_ptr<user_op::RowLoop> loop;
  if (!kernel.create || kernel.hasState || op.outputDescs().size() != 1) return std::move(loop);
  HostCreateContext context(op, DeviceType::kCPU);
  std::unique_ptr<user_op::OpKernel> made;
  OPC_RETURN_IF_ERROR(kernel.create(&context, &made));
  if (const auto *joinable = dynamic_cast<const user_op::JoinableKernel *>(made.get()))
    OPC_RETURN_IF_ERROR(joinable->MakeLoop(context, &loop));
  return std::move(loop);
}

bool mayJoinRegion(const OpInstance &op, const KernelDef &kernel) {
  const auto loop = rowLoopOf(op, kernel);
  return loop && *loop;
}

namespace {

Status bad(const std::string &what) {
  return Status(StatusCode::kInvalidGraph, "OPC0816", "invalid plan: " + what).withHelp("compile the graph again");
}

/// Whether a tensor is broadcast to a shape, as numpy does.
bool broadcasts(const Shape &from, const Shape &to) {
  const int64_t rank = from.NumAxes(), missing = to.NumAxes() - rank;
  for (int64_t axis = 0; missing >= 0 && axis < rank; ++axis)
    if (from.At(axis) != 1 && from.At(axis) != to.At(missing + axis)) return false;
  return missing >= 0;
}

Status checkStep(const Region &region, size_t index) {
  const RegionStep &step = region.steps[index];
  const std::string name = "step " + std::to_string(index) + " of the region, " + step.op.conf().name;
  if (step.op.outputDescs().size() != 1 || step.op.outputDescs()[0].shape() != region.shape)
    return bad(name + ", does not make one tensor of the shape of the region, " + region.shape.ToString());
  if (!step.op.shards().empty()) return bad(name + ", is cut over several ranks");
  if (step.args.size() != step.op.inputDescs().size()) return bad(name + ", has other inputs than its op");
  for (size_t k = 0; k < step.args.size(); ++k) {
    if (step.args[k] >= region.valueOf(index)) return bad(name + ", reads what is made after it");
    if (step.op.inputDescs()[k] != region.descOf(step.args[k])) return bad(name + ", reads a value of another type");
  }
  return Status::ok();
}

} // namespace

Status checkRegion(const Region &region) {
  if (region.steps.empty() || region.steps.size() > kMaxRegionSteps)
    return bad("a region has " + std::to_string(region.steps.size()) + " steps; 1 to " +
               std::to_string(kMaxRegionSteps) + " are possible");
  if (region.inputs.size() > kMaxRegionTensors || region.outputs.empty() || region.outputs.size() > kMaxRegionTensors)
    return bad("a region has " + std::to_string(region.inputs.size()) + " inputs and " +
               std::to_string(region.outputs.size()) + " outputs; the limit is " + std::to_string(kMaxRegionTensors));
  for (const TensorDesc &in : region.inputs)
    if (!broadcasts(in.shape(), region.shape))
      return bad("an input of a region, " + in.toString() + ", does not broadcast to " + region.shape.ToString());
  for (size_t i = 0; i < region.steps.size(); ++i) OPC_RETURN_IF_ERROR(checkStep(region, i));
  std::vector<bool> seen(region.steps.size());
  for (uint32_t value : region.outputs) {
    if (value < region.inputs.size() || value >= region.valueOf(region.steps.size()) ||
        seen[value - region.inputs.size()])
      return bad("an output of a region is no result of a step, or that of another output");
    seen[value - region.inputs.size()] = true;
  }
  return Status::ok();
}

std::vector<std::pair<int, int>> regionInplacePairs(const Region &region) {
  std::vector<size_t> lastRead(region.inputs.size(), 0);
  for (size_t i = 0; i < region.steps.size(); ++i)
    for (uint32_t value : region.steps[i].args)
      if (value < region.inputs.size()) lastRead[value] = i;
  std::vector<std::pair<int, int>> pairs;
  for (size_t o = 0; o < region.outputs.size(); ++o) {
    const TensorDesc &out = region.descOf(region.outputs[o]);
    for (size_t i = 0; i < region.inputs.size(); ++i)
      if (region.inputs[i].shape() == region.shape &&
          GetSizeOfDataType(region.inputs[i].data_type()) == GetSizeOfDataType(out.data_type()) &&
          lastRead[i] <= region.outputs[o] - region.inputs.size())
        pairs.emplace_back(static_cast<int>(o), static_cast<int>(i));
  }
  return pairs;
}

} // namespace opc
