// The compiler of regions: which are equal, how long it takes.
// SPDX-License-Identifier: Apache-2.0
#include "Codegen.h"
#include "DeviceEmitter.h"
#include "MachineCode.h"
#include "RegionEmitter.h"
#include "RegionKey.h"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

namespace opc {
namespace {

class CompiledRegion final : public RegionCode {
public:
  CompiledRegion(std::unique_ptr<codegen::MachineCode> code, int64_t vector) : code_(std::move(code)) {
    function = reinterpret_cast<Function>(code_->entry());
    lanes = vector;
  }

private:
  std::unique_ptr<codegen::MachineCode> code_;
};

/// What regions of the same code have in common within one process.
std::string keyOf(const Region &region, std::string key) {
  for (const RegionStep &step : region.steps) key += '\n' + step.kernel->origin.library;
  return key;
}

/// What code depends on and keyOf() takes for granted within one process: the level, and who has made the code.
std::string cacheKey(const std::string &key, const std::string &level) {
  const std::string version = codegen::codeVersion();
  return version.empty() ? "" : version + '\n' + level + '\n' + key;
}

/// A name for a GPU's kernel: what it begins and ends with, and a digest of what it computes.
std::string kernelName(const Region &region, const std::string &key) {
  std::string name = "region_" + region.steps.front().op.def().name + "_" + region.steps.back().op.def().name + "_";
  for (char &c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_'; // those of plugins may have dots
  uint64_t hash = 14695981039346656037u;                       // FNV-1a
  for (const unsigned char c : key) hash = (hash ^ c) * 1099511628211u;
  for (int i = 60; i >= 0; i -= 4) name += "0123456789abcdef"[hash >> i & 15u];
  return name;
}

class Codegen final : public RegionCodegen, public DeviceCompiler {
public:
  Codegen(CodeLevel level, bool isEager) : level_(level), isEager_(isEager) {}
  bool isEager() const override { return isEager_; }
  bool isWider() const override { return isEager_ || level_ == CodeLevel::kV4; }

  /// What this process has made, or has found on disk once.
  std::shared_ptr<const RegionCode> ready(const Region &region, const std::string &regionKey) override {
    const std::lock_guard lock(mutex_);
    const std::string key = keyOf(region, regionKey);
    std::weak_ptr<const RegionCode> &known = known_[key];
    if (std::shared_ptr<const RegionCode> same = known.lock()) {
      ++stats_.reused;
      return same;
    }
    const bool areOurs = std::all_of(region.steps.begin(), region.steps.end(), isBuiltIn);
    if (!cache_ || !areOurs || !looked_.insert(key).second) return nullptr;
    CodegenEvent event = begin(region);
    std::string reason;
    std::shared_ptr<const RegionCode> made = kept(region, &reason, &event);
    if (!made) return nullptr;
    event.isCached = true;
    end(std::move(event), true, "");
    known = made;
    return made;
  }

  std::shared_ptr<const RegionCode> compile(const Region &region, std::string *reason) override {
    const std::lock_guard lock(mutex_);
    std::weak_ptr<const RegionCode> &known = known_[keyOf(region, regionKey(region))];
    if (std::shared_ptr<const RegionCode> same = known.lock()) {
      ++stats_.reused;
      return same;
    }
    CodegenEvent event = begin(region);
    std::shared_ptr<const RegionCode> made = make(region, reason, &event);
    for (size_t i = 0; made && i < region.steps.size(); ++i)
      if (!isBuiltIn(region.steps[i]) && !make(stepAlone(region, i), reason, &event)) made = nullptr;
    end(std::move(event), made != nullptr, *reason);
    known = made;
    return made;
  }
  std::shared_ptr<const DeviceCode> compileForDevice(const Region &region, std::string *reason) override {
    const std::lock_guard lock(mutex_);
    const std::string key = deviceRegionKey(region);
    std::weak_ptr<const DeviceCode> &known = knownOnDevice_[key];
    if (std::shared_ptr<const DeviceCode> same = known.lock()) {
      ++stats_.reused;
      return same;
    }
    CodegenEvent event = begin(region);
    std::shared_ptr<const DeviceCode> made = makeForDevice(region, key, reason, &event);
    end(std::move(event), made != nullptr, *reason);
    known = made;
    return made;
  }
  CodegenStats stats() const override {
    const std::lock_guard lock(mutex_);
    return stats_;
  }
  std::vector<CodegenEvent> events() const override {
    const std::lock_guard lock(mutex_);
    return events_;
  }
  void setCache(std::unique_ptr<codegen::CodeCache> cache) override {
    const std::lock_guard lock(mutex_);
    cache_ = std::move(cache);
  }

private:
  static CodegenEvent begin(const Region &region) {
    CodegenEvent event;
    event.start = std::chrono::steady_clock::now();
    for (const RegionStep &step : region.steps) event.ops.push_back(step.op.def().name);
    return event;
  }
  void end(CodegenEvent event, bool isMade, const std::string &reason) {
    (isMade ? stats_.compiled : stats_.refused) += 1;
    if (isMade && event.isCached) ++stats_.cached;
    if (!isMade) event.reason = reason;
    event.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - event.start).count();
    stats_.seconds += event.seconds;
    if (events_.size() < kMaxEvents) events_.push_back(std::move(event));
  }

  /// Where the graph's ops have no loops of their own to compare with, on the GPU, the code is taken as it is.
  std::shared_ptr<const DeviceCode> makeForDevice(const Region &region, const std::string &regionKey,
                                                  std::string *reason, CodegenEvent *event) {
    auto made = std::make_shared<DeviceCode>();
    const DeviceLoop loop = region.rowSize > 0 ? DeviceLoop() : deviceLoopOf(region);
    made->lanes = loop.lanes;
    made->kernel = kernelName(region, regionKey);
    const std::string key = cache_ ? cacheKey(regionKey, codegen::kDeviceLevel) : "";
    if (!key.empty()) made->ptx = cache_->find(key);
    event->isCached = !made->ptx.empty();
    if (!event->isCached) {
      if (!leaves_) leaves_ = std::make_unique<codegen::LeafLibrary>(context_);
      std::unique_ptr<llvm::Module> module =
          codegen::emitDeviceRegion(region, loop, *leaves_, context_, made->kernel, reason);
      if (module) made->ptx = codegen::compileToPtx(std::move(module), reason);
      if (made->ptx.empty()) return nullptr;
      if (!key.empty()) cache_->keep(key, made->ptx);
    }
    event->bytes = made->ptx.size();
    stats_.bytes += event->bytes;
    return made;
  }

  std::string keyOnDisk(const Region &region) const {
    const std::string level = codeLevelName(level_) + (' ' + std::to_string(codegen::lanesOf(level_)));
    return cache_ ? cacheKey(keyOf(region, regionKey(region)), level) : "";
  }

  /// From disk; null where it is not there.
  std::shared_ptr<const RegionCode> kept(const Region &region, std::string *reason, CodegenEvent *event) {
    const std::string key = keyOnDisk(region), object = key.empty() ? "" : cache_->find(key);
    return object.empty() ? nullptr : load(region, object, codegen::lanesOf(level_), reason, event);
  }

  std::shared_ptr<const RegionCode> make(const Region &region, std::string *reason, CodegenEvent *event) {
    const unsigned lanes = codegen::lanesOf(level_);
    if (auto made = kept(region, reason, event)) {
      event->isCached = true;
      return made;
    }
    const std::string key = keyOnDisk(region);
    if (!leaves_) leaves_ = std::make_unique<codegen::LeafLibrary>(context_);
    std::unique_ptr<llvm::Module> module = codegen::emitRegion(region, *leaves_, context_, lanes, reason);
    if (!module) return nullptr;
    const std::string object = codegen::compileToObject(std::move(module), level_, reason);
    if (object.empty()) return nullptr;
    event->isCached = false;
    auto made = load(region, object, lanes, reason, event);
    if (made && !key.empty()) cache_->keep(key, object);
    return made;
  }

  /// Code that has given the bits of the loops.
  std::shared_ptr<const RegionCode> load(const Region &region, const std::string &object, unsigned lanes,
                                         std::string *reason, CodegenEvent *event) {
    auto code = codegen::loadCode(object, codegen::kEntryName, reason);
    if (!code) return nullptr;
    const size_t bytes = code->bytes();
    auto made = std::make_shared<CompiledRegion>(std::move(code), lanes);
    if (!agreesWithLoops(region, *made)) {
      *reason = "its ops' own loops give other bits";
      return nullptr;
    }
    stats_.bytes += bytes;
    event->bytes += bytes;
    return made;
  }

  const CodeLevel level_;
  const bool isEager_;
  mutable std::mutex mutex_;
  llvm::LLVMContext context_;
  std::unique_ptr<codegen::LeafLibrary> leaves_;
  std::unordered_map<std::string, std::weak_ptr<const RegionCode>> known_;
  std::unordered_set<std::string> looked_; // for on disk before they were wanted
  std::unordered_map<std::string, std::weak_ptr<const DeviceCode>> knownOnDevice_;
  CodegenStats stats_;
  std::vector<CodegenEvent> events_;
  std::unique_ptr<codegen::CodeCache> cache_;
};

} // namespace

std::shared_ptr<RegionCodegen> RegionCodegen::create(CodeLevel level, bool isEager) {
  return std::make_shared<Codegen>(level, isEager);
}

std::shared_ptr<RegionCodegen> RegionCodegen::forThisMachine() {
  const CodeLevel level = codeLevel();
  return level == CodeLevel::kNone ? nullptr : create(level, isCodeLevel(wantedCodeLevel()));
}

} // namespace opc
