// The steps of a region by rows in stages.
// SPDX-License-Identifier: Apache-2.0
#include "RowStages.h"
#include "RegionCore.h"

#include "opc/Scalar.h"

#include <algorithm>
#include <map>

namespace opc {
namespace {

constexpr int64_t kShortestRow = 256;

/// What an op over elements costs beside an addition, as machine code: roughly, to share what is asked for ahead.
int64_t workOf(const OpInstance &op) {
  if (!op.def().scalar) return 1;
  int64_t work = 0;
  for (const scalar::ScalarProgram::Node &n : op.def().scalar->nodes()) switch (n.op) {
#define OPC_CASE(name) case scalar::ScalarOp::name:
      OPC_SCALAR_UNARY_REAL(OPC_CASE)
      OPC_SCALAR_BINARY_REAL(OPC_CASE)
#undef OPC_CASE
    case scalar::ScalarOp::pow: work += 16; break;
    case scalar::ScalarOp::kDiv: work += 8; break;
    case scalar::ScalarOp::kConstant:
    case scalar::ScalarOp::kParameter: break;
    default: ++work;
    }
  return work;
}

/// A stage of steps that give results of the loop's shape, as a region of its own.
void makePart(const Region &r, const RowAccess &access, RowStage *stage) {
  auto part = std::make_unique<Region>();
  part->shape = r.shape;
  std::map<std::pair<uint32_t, RowRead>, uint32_t> inputs;
  const auto isInside = [&](uint32_t v) { return v >= r.inputs.size() && r.makerOf(v) >= stage->begin; };
  for (size_t i = stage->begin; i < stage->end; ++i)
    for (size_t k = 0; k < r.steps[i].args.size(); ++k) {
      const uint32_t v = r.steps[i].args[k];
      const RowRead read = access.reads[i][k];
      if (isInside(v) || !inputs.emplace(std::pair(v, read), static_cast<uint32_t>(inputs.size())).second) continue;
      const bool isOne = read == RowRead::kSingle || read == RowRead::kEach;
      part->inputs.emplace_back(isOne ? Shape({1}) : r.shape, r.descOf(v).data_type());
      stage->inputs.push_back({v, read, i, k});
      stage->byRow |= read == RowRead::kEach;
    }
  for (size_t i = stage->begin; i < stage->end; ++i) {
    RegionStep step{r.steps[i].op, r.steps[i].kernel, {}};
    for (size_t k = 0; k < r.steps[i].args.size(); ++k) {
      const uint32_t v = r.steps[i].args[k];
      step.args.push_back(isInside(v) ? part->valueOf(r.makerOf(v) - stage->begin)
                                      : inputs.at(std::pair(v, access.reads[i][k])));
    }
    stage->work += workOf(step.op);
    part->add(std::move(step));
    const uint32_t made = r.steps[i].made;
    bool isRead = std::find(r.outputs.begin(), r.outputs.end(), made) != r.outputs.end();
    for (size_t later = stage->end; later < r.steps.size(); ++later)
      for (uint32_t v : r.steps[later].args) isRead |= v == made;
    if (!isRead) continue;
    part->outputs.push_back(part->valueOf(i - stage->begin));
    stage->outputs.push_back(made);
  }
  if (part->outputs.empty() || part->inputs.size() + part->outputs.size() > kMaxRegionTensors) return;
  stage->part = std::move(part);
}

} // namespace

std::vector<RowStage> stagesOf(const Region &region, const RowAccess &access,
                               const std::shared_ptr<RegionCompiler> &compiler) {
  std::vector<RowStage> stages;
  bool wasElements = false;
  for (size_t i = 0; i < region.steps.size(); ++i) {
    const RegionStep &step = region.steps[i];
    const bool isElements = !step.rows && !access.isOne[step.made - region.inputs.size()];
    if (!isElements || !wasElements) stages.emplace_back().begin = i;
    stages.back().end = i + 1;
    wasElements = isElements;
  }
  for (RowStage &stage : stages) {
    const RegionStep &first = region.steps[stage.begin];
    if (first.rows || access.isOne[first.made - region.inputs.size()]) continue;
    makePart(region, access, &stage);
    // Of short rows with an element each, most of the time would be that of the calls.
    if (stage.byRow && region.rowSize < kShortestRow) stage.part = nullptr;
    if (stage.part) stage.code = std::make_unique<RegionCodeChoice>(*stage.part, compiler);
  }
  return stages;
}

std::vector<std::shared_ptr<const Region>> codeParts(std::shared_ptr<const Region> region) {
  std::vector<std::shared_ptr<const Region>> parts;
  region = coreOf(std::move(region)).region;
  if (region->rowSize == 0) return {std::move(region)};
  RowAccess access;
  std::string why;
  findRowAccess(outlineOf(*region), &access, &why);
  for (RowStage &stage : stagesOf(*region, access, nullptr))
    if (stage.part) parts.push_back(std::move(stage.part));
  return parts;
}

} // namespace opc
