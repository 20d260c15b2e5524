// The compiler of regions that this process has, and when it is asked.
// SPDX-License-Identifier: Apache-2.0
#include "RegionCode.h"
#include "RegionKey.h"

#include <string>
#include <unordered_map>
#include <utility>

#include <pthread.h>

namespace opc {
namespace {

std::mutex mutex;
// Held while a region is compiled. fork() waits for it: a child has the state of a compiler that nobody else uses.
std::mutex compiling;

void followForks() {
  static const int registered = pthread_atfork(
      [] {
        compiling.lock();
        mutex.lock();
      },
      [] {
        mutex.unlock();
        compiling.unlock();
      },
      [] {
        mutex.unlock();
        compiling.unlock();
      });
  (void)registered;
}

std::shared_ptr<RegionCompiler> &current() {
  static std::shared_ptr<RegionCompiler> compiler;
  return compiler;
}

} // namespace

void setRegionCompiler(std::shared_ptr<RegionCompiler> compiler) {
  followForks();
  const std::lock_guard lock(mutex);
  current() = std::move(compiler);
}

std::shared_ptr<RegionCompiler> regionCompiler() {
  const std::lock_guard lock(mutex);
  return current();
}

int64_t bytesMoved(const Region &region) {
  int64_t bytes = 0;
  auto add = [&](const user_op::TensorDesc &d) {
    bytes += d.shape().elem_cnt() * static_cast<int64_t>(GetSizeOfDataType(d.data_type()));
  };
  for (const user_op::TensorDesc &d : region.inputs) add(d);
  for (uint32_t v : region.outputs) add(region.descOf(v));
  return bytes;
}

thread_local bool WithoutRegionCode::isOn_ = false;

std::shared_ptr<RegionCompiler> compilerOfLoad() { return WithoutRegionCode::isOn() ? nullptr : regionCompiler(); }

namespace {

/// That of the regions with the same code which some plan has.
std::shared_ptr<RegionTraffic> trafficOf(const std::string &key) {
  static std::unordered_map<std::string, std::weak_ptr<RegionTraffic>> all;
  static size_t swept = 64;
  const std::lock_guard lock(mutex);
  if (all.size() > swept) {
    std::erase_if(all, [](const auto &entry) { return entry.second.expired(); });
    swept = 2 * all.size() + 64;
  }
  std::weak_ptr<RegionTraffic> &known = all[key];
  std::shared_ptr<RegionTraffic> traffic = known.lock();
  if (!traffic) known = traffic = std::make_shared<RegionTraffic>();
  return traffic;
}

} // namespace

RegionCodeChoice::RegionCodeChoice(const Region &region, std::shared_ptr<RegionCompiler> compiler, bool waits)
    : region_(region), compiler_(std::move(compiler)), bytes_(bytesMoved(region)) {
  if (!compiler_) return;
  const std::string key = regionKey(region);
  traffic_ = trafficOf(key);
  {
    const std::lock_guard lock(compiling);
    made_ = compiler_->ready(region, key);
  }
  const int64_t inRun = traffic_->inRun.fetch_add(bytes_, std::memory_order_relaxed) + bytes_;
  if (made_) {
    code_.store(made_.get(), std::memory_order_release);
    tried_.store(true, std::memory_order_release);
  } else if ((inRun >= kAtOnce && !waits) || compiler_->isEager()) {
    compile();
  }
}

RegionCodeChoice::~RegionCodeChoice() {
  if (traffic_) traffic_->inRun.fetch_sub(bytes_, std::memory_order_relaxed);
}

const RegionCode *RegionCodeChoice::next() const {
  const RegionCode *code = code_.load(std::memory_order_acquire);
  if (code || !compiler_ || tried_.load(std::memory_order_acquire)) return code;
  const int64_t moved = traffic_->moved.fetch_add(bytes_, std::memory_order_relaxed);
  if (moved < kInAll && !traffic_->isCompiled.load(std::memory_order_relaxed)) return nullptr;
  compile();
  return code_.load(std::memory_order_acquire);
}

void RegionCodeChoice::compile() const {
  const std::lock_guard lock(compiling);
  if (tried_.load(std::memory_order_relaxed)) return;
  std::string reason; // the loops do as well without: nobody is told
  made_ = compiler_->compile(region_, &reason);
  traffic_->isCompiled.store(true, std::memory_order_relaxed);
  code_.store(made_.get(), std::memory_order_release);
  tried_.store(true, std::memory_order_release);
}

} // namespace opc
