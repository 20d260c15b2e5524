// Machine code that a plan brings: which image fits, and that it is the region's.
// SPDX-License-Identifier: Apache-2.0
#include "NativeImages.h"
#include "PlanNative.h"
#include "RegionKey.h"
#include "RowStages.h"

#include "opc/Version.h"

namespace opc::runtime {
namespace {

constexpr char kWayOut[] = "compile the graph again with `opc compile --native`, or run the plan without allowing "
                           "its machine code: it is interpreted then, with the same bits";

Status unfit(std::string message) {
  return Status(StatusCode::kUnsupported, kUnfitCode, std::move(message)).withHelp(kWayOut);
}

/// The best that runs here; null where none does.
const plan::NativeCode::Image *bestOf(const plan::NativeCode &native) {
  const plan::NativeCode::Image *best = nullptr;
  for (const plan::NativeCode::Image &image : native.image())
    if (levelOf(image) <= codeLevel()) best = &image; // they are in order
  return best;
}

Status noneFits(const plan::NativeCode &native) {
  std::string levels;
  for (const plan::NativeCode::Image &image : native.image())
    levels += std::string(levels.empty() ? "" : " and ") + codeLevelName(levelOf(image));
  const bool isSet = codeLevel() != processorLevel();
  return Status(StatusCode::kUnsupported, "OPC0824",
                "the plan's machine code is for x86-64 level " + levels + ", and " +
                    (isSet ? "OPC_CODE_LEVEL takes " : "this processor has ") + codeLevelName(codeLevel()))
      .withHelp(std::string("compile the graph for it: opc compile --native=v3; or run the plan without allowing its "
                            "machine code"));
}

} // namespace

CodeLevel levelOf(const plan::NativeCode::Image &image) {
  return image.level() == plan::NativeCode::Image::V4 ? CodeLevel::kV4 : CodeLevel::kV3;
}

void NativeImages::beginOtherSizes(const plan::Plan &copy) {
  const std::lock_guard lock(mutex_);
  plan_ = &copy;
  isOfOtherSizes_ = true;
  stats_.regions = 0;
}

Status NativeImages::prepare(const plan::Task &task, const std::shared_ptr<const Region> &region) {
  if (task.native_size() == 0) return Status::ok();
  const auto parts = region ? codeParts(region) : std::vector<std::shared_ptr<const Region>>();
  const std::lock_guard lock(mutex_);
  if (isOfOtherSizes_ && parts.size() != static_cast<size_t>(task.native_size())) return Status::ok();
  if (parts.size() != static_cast<size_t>(task.native_size()))
    return unfit("the plan has machine code for " + std::to_string(task.native_size()) + " loops of a task that has " +
                 std::to_string(parts.size()));
  for (size_t i = 0; i < parts.size(); ++i) {
    const uint32_t at = task.native(static_cast<int>(i));
    if (at == 0) continue;
    if (at > static_cast<uint32_t>(plan_->native_size())) return unfit("its machine code is none of the plan's");
    const plan::NativeCode &native = plan_->native(static_cast<int>(at - 1));
    const std::string key = regionKey(*parts[i]);
    if (isOfOtherSizes_ && nativeRegion(key) != native.region()) continue;
    if (nativeRegion(key) != native.region())
      return unfit(
          "the plan's machine code is of another region or was made by another version of opc (this one is " OPC_VERSION_STRING
          ")");
    OPC_RETURN_IF_ERROR(map(native, *parts[i], key));
    ++stats_.regions;
  }
  return Status::ok();
}

Status NativeImages::map(const plan::NativeCode &native, const Region &region, const std::string &key) {
  if (codes_.count(key)) return Status::ok();
  const plan::NativeCode::Image *best = bestOf(native);
  if (!best) return noneFits(native);
  const CodeImage image{levelOf(*best), best->lanes(), best->entry(), best->code(), best->data()};
  std::string reason;
  const std::shared_ptr<const RegionCode> code = mapImage(image, &reason);
  if (!code)
    return Status(StatusCode::kUnsupported, "OPC0824", "the plan's machine code cannot be mapped: " + reason)
        .withHelp("run the plan without allowing its machine code");
  if (!agreesWithLoops(region, *code)) return unfit("the plan's machine code gives other bits than the ops' own loops");
  codes_.emplace(key, code);
  stats_.bytes += image.bytes.size();
  return Status::ok();
}

NativeImages::Stats NativeImages::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

std::shared_ptr<const RegionCode> NativeImages::ready(const Region &region, const std::string &key) {
  const std::lock_guard lock(mutex_);
  if (const auto it = codes_.find(key); it != codes_.end()) return it->second;
  return next_ ? next_->ready(region, key) : nullptr;
}

std::shared_ptr<const RegionCode> NativeImages::compile(const Region &region, std::string *reason) {
  if (next_) return next_->compile(region, reason);
  *reason = "the plan has no machine code for it";
  return nullptr;
}

} // namespace opc::runtime
