// Machine code of a plan's regions.
// SPDX-License-Identifier: Apache-2.0
#include "NativeEmitter.h"
#include "CodeImage.h"
#include "PlanNative.h"
#include "RegionKey.h"
#include "RowStages.h"

#include <chrono>

namespace opc {

static plan::NativeCode::Image::Level levelOf(CodeLevel level) {
  return level == CodeLevel::kV4 ? plan::NativeCode::Image::V4 : plan::NativeCode::Image::V3;
}

void NativeEmitter::add(const std::shared_ptr<const Region> &region, plan::Plan *plan, plan::Task *task) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<uint32_t> codes;
  bool hasCode = false;
  for (const auto &loop : codeParts(region)) {
    ++facts_.loops;
    codes.push_back(codeOf(*loop, plan));
    hasCode |= codes.back() != 0;
  }
  if (hasCode)
    for (uint32_t code : codes) task->add_native(code);
  facts_.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

uint32_t NativeEmitter::codeOf(const Region &loop, plan::Plan *plan) {
  const std::string key = regionKey(loop);
  const auto [it, isNew] = known_.emplace(key, 0);
  if (!isNew) return it->second;
  plan::NativeCode native;
  native.set_region(nativeRegion(key));
  for (CodeLevel level : levels_) {
    std::string reason;
    const auto made = imager_->make(loop, level, &reason);
    if (!made) {
      facts_.refused.push_back({loop.steps[0].op.conf().name, codeLevelName(level), std::move(reason)});
      continue;
    }
    plan::NativeCode::Image *image = native.add_image();
    image->set_level(levelOf(level));
    image->set_lanes(made->image.lanes);
    image->set_entry(made->image.entry);
    image->set_code(made->image.code);
    image->set_data(made->bytes);
    image->set_checksum(nativeChecksum(native, *image));
  }
  return it->second = native.image_size() == 0 ? 0 : put(std::move(native), plan);
}

/// Its number in the plan; 0 where that is full.
uint32_t NativeEmitter::put(plan::NativeCode code, plan::Plan *plan) {
  const auto [it, isNew] = byRegion_.emplace(code.region(), 0);
  if (!isNew || plan->native_size() == kMaxNativeCodes) return it->second;
  ++facts_.codes;
  for (const plan::NativeCode::Image &image : code.image()) ++facts_.images, facts_.bytes += image.data().size();
  *plan->add_native() = std::move(code);
  return it->second = static_cast<uint32_t>(plan->native_size());
}

static void renumber(plan::Plan *graph, const std::vector<uint32_t> &numbers) {
  for (plan::Task &task : *graph->mutable_task()) {
    for (uint32_t &n : *task.mutable_native()) n = numbers[n];
    for (plan::Plan &inner : *task.mutable_graph()) renumber(&inner, numbers);
  }
}

void NativeEmitter::adopt(plan::Plan *graph, plan::Plan *plan) {
  std::vector<uint32_t> numbers{0};
  for (plan::NativeCode &code : *graph->mutable_native()) numbers.push_back(put(std::move(code), plan));
  graph->clear_native();
  renumber(graph, numbers);
}

void NativeEmitter::addFacts(const NativeFacts &graph) {
  facts_.loops += graph.loops;
  facts_.seconds += graph.seconds;
  facts_.refused.insert(facts_.refused.end(), graph.refused.begin(), graph.refused.end());
}

} // namespace opc
