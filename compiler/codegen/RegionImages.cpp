// From a region to an image of its code.
// SPDX-License-Identifier: Apache-2.0
#include "RegionImages.h"
#include "CodeImageLayout.h"
#include "MachineCode.h"
#include "RegionEmitter.h"
#include "RegionKey.h"

#include <algorithm>

namespace opc {
namespace {

class Imager final : public RegionImager {
public:
  std::optional<Made> make(const Region &region, CodeLevel level, std::string *reason) override {
    // Nobody knows how a plugin's loops were compiled: its ops are compared one by one, too, and what this processor
    // cannot run stands by what it can.
    const CodeLevel own = processorLevel();
    const bool isForeign = !std::all_of(region.steps.begin(), region.steps.end(), isBuiltIn);
    if (isForeign && level > own && own != CodeLevel::kNone && !make(region, own, reason)) return std::nullopt;
    std::optional<Made> made = proven(region, level, reason);
    for (size_t i = 0; made && i < region.steps.size(); ++i)
      if (!isBuiltIn(region.steps[i]) && !proven(stepAlone(region, i), level, reason)) return std::nullopt;
    return made;
  }

private:
  std::optional<Made> proven(const Region &region, CodeLevel level, std::string *reason) {
    const unsigned lanes = codegen::lanesOf(level);
    if (!leaves_) leaves_ = std::make_unique<codegen::LeafLibrary>(context_);
    std::unique_ptr<llvm::Module> module = codegen::emitRegion(region, *leaves_, context_, lanes, reason);
    if (!module || !codegen::LeafLibrary::close(module.get(), codegen::kEntryName, reason)) return std::nullopt;
    const std::string object = codegen::compileToObject(std::move(module), level, reason);
    if (object.empty()) return std::nullopt;
    std::optional<Made> made = codegen::layOutImage(object, level, lanes, reason);
    if (!made) return std::nullopt;
    made->image.bytes = made->bytes;
    *reason = faultOf(made->image);
    if (reason->empty() && level <= processorLevel()) {
      const auto code = mapImage(made->image, reason);
      if (code && !agreesWithLoops(region, *code)) *reason = "its ops' own loops give other bits";
    }
    made->image.bytes = {};
    if (!reason->empty()) return std::nullopt;
    return made;
  }

  llvm::LLVMContext context_;
  std::unique_ptr<codegen::LeafLibrary> leaves_;
};

} // namespace

std::unique_ptr<RegionImager> makeRegionImager() { return std::make_unique<Imager>(); }

} // namespace opc
