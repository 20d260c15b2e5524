// --native of opc compile.
// SPDX-License-Identifier: Apache-2.0
#include "NativeFlags.h"

#include "CodeLevel.h"
#include "NumberText.h"
#include "RegionImages.h"
#include "TextParts.h"

#include <algorithm>
#include <map>

namespace opc::cli {

Option NativeFlags::option() {
  return {"--native", 0, "[=LEVELS]", "put machine code of regions into the plan too: v3, v4 or both (v3,v4)",
          &levels_};
}

Status NativeFlags::check(bool isPlan, const CompileOptions &options) {
  if (levels_.empty()) return Status::ok();
  if (!isPlan) return usageError("--native is for plans", "leave --emit and --to out");
  if (options.device != "cpu")
    return usageError("--native makes machine code for the cpu, and the device is '" + options.device + "'",
                      "leave --native out: a plan has no code for devices, which compile their own");
  const std::vector<CodeLevel> all = {CodeLevel::kV3, CodeLevel::kV4};
  for (const std::string &word : splitAt(levels_ == "true" ? "v3,v4" : levels_, ',')) {
    const auto level = std::find_if(all.begin(), all.end(), [&](CodeLevel l) { return word == codeLevelName(l); });
    if (level == all.end()) return usageError("--native takes v3, v4 or v3,v4, not '" + levels_ + "'");
    wanted_.push_back(*level);
  }
  std::sort(wanted_.begin(), wanted_.end());
  wanted_.erase(std::unique(wanted_.begin(), wanted_.end()), wanted_.end());
  return Status::ok();
}

void NativeFlags::apply(Pipeline *pipeline) const {
  if (!wanted_.empty()) pipeline->addNative(makeRegionImager(), wanted_);
}

std::string nativeText(const NativeFacts &facts) {
  if (facts.loops == 0) return "no machine code: the plan has no loops over elements";
  std::string text = "machine code of " + countText(facts.codes, "different loop") + " (of " +
                     countText(facts.loops, "loop") + " in regions and ops): " + countText(facts.images, "image") +
                     ", " + bytesText(facts.bytes) + ", made in " + secondsText(facts.seconds);
  for (const NativeFacts::Refused &r : facts.refused)
    text += "\nno machine code (" + r.level + ") for the loop that begins with " + r.op + ": " + r.reason;
  return text;
}

Json nativeJson(const NativeFacts &facts) {
  Json refused = Json::array();
  for (const NativeFacts::Refused &r : facts.refused)
    refused.push_back({{"op", r.op}, {"level", r.level}, {"reason", r.reason}});
  return {{"loops", facts.loops}, {"codes", facts.codes},     {"images", facts.images},
          {"bytes", facts.bytes}, {"seconds", facts.seconds}, {"refused", std::move(refused)}};
}

} // namespace opc::cli
