// The compiler of regions that this process has, and when it is asked.
// SPDX-License-Identifier: Apache-2.0
#include "RegionCode.h"

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

RegionCodeChoice::RegionCodeChoice(const Region &region, std::shared_ptr<RegionCompiler> compiler, bool waits)
    : region_(region), compiler_(std::move(compiler)), bytes_(bytesMoved(region)) {
  if (compiler_) made_ = compiler_->ready(region);
  if (made_) {
    code_.store(made_.get(), std::memory_order_release);
    tried_.store(true, std::memory_order_release);
  } else if (compiler_ && ((bytes_ >= kAtOnce && !waits) || compiler_->isEager())) {
    compile();
  }
}

const RegionCode *RegionCodeChoice::next() const {
  const RegionCode *code = code_.load(std::memory_order_acquire);
  if (code || !compiler_ || tried_.load(std::memory_order_acquire)) return code;
  if (moved_.fetch_add(bytes_, std::memory_order_relaxed) < kInAll) return nullptr;
  compile();
  return code_.load(std::memory_order_acquire);
}

void RegionCodeChoice::compile() const {
  const std::lock_guard lock(compiling);
  if (tried_.load(std::memory_order_relaxed)) return;
  std::string reason; // the loops do as well without: nobody is told
  made_ = compiler_->compile(region_, &reason);
  code_.store(made_.get(), std::memory_order_release);
  tried_.store(true, std::memory_order_release);
}

} // namespace opc
