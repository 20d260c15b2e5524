// A region without the steps that only move elements.
// SPDX-License-Identifier: Apache-2.0
#include "RegionCore.h"

namespace opc {

std::vector<TileAccess> RegionCore::access() const {
  std::vector<TileAccess> found;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const user_op::TensorDesc &desc = region->inputs[i];
    const size_t size = GetSizeOfDataType(desc.data_type());
    if (inputs[i].isMoved)
      found.emplace_back(MovedAccess(inputs[i].shape, inputs[i].sources, inputs[i].fill, size));
    else
      found.emplace_back(desc.shape(), region->shape, size);
  }
  return found;
}

RegionCore coreOf(std::shared_ptr<const Region> whole) {
  RegionCore core;
  if (!whole->hasMoves()) {
    for (uint32_t v = 0; v < whole->inputs.size(); ++v)
      core.inputs.push_back({v, whole->inputs[v].shape(), false, {}, 0, {}});
    for (size_t i = 0; i < whole->steps.size(); ++i) core.steps.push_back(i);
    core.region = std::move(whole);
    return core;
  }
  MoveAccess access;
  std::string why;
  const RegionOutline outline = outlineOf(*whole);
  findMoveAccess(outline, &access, &why); // completeRegion() has done so
  LoopNumbers numbers = numbersOf(outline, access);
  auto region = std::make_shared<Region>();
  region->shape = whole->shape;
  region->rowSize = whole->rowSize;
  for (const LoopInput &in : access.inputs) region->inputs.emplace_back(in.shape, whole->descOf(in.value).data_type());
  for (size_t i = 0; i < whole->steps.size(); ++i) {
    const RegionStep &step = whole->steps[i];
    if (step.moves) continue;
    region->add({step.op, step.kernel, std::move(numbers.args[i]), step.rows, nullptr});
    core.steps.push_back(i);
  }
  region->outputs = std::move(numbers.outputs);
  core.region = std::move(region);
  core.inputs = std::move(access.inputs);
  return core;
}

} // namespace opc
