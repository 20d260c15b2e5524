// Blocks that are lent to kernels while they run.
// SPDX-License-Identifier: Apache-2.0
#include "EdgeMemory.h"

#include <algorithm>
#include <array>
#include <utility>

namespace opc::ops {

std::shared_ptr<EdgeMemory> EdgeMemory::shared(Of of) {
  static std::mutex mutex;
  static auto &all = *new std::array<std::weak_ptr<EdgeMemory>, 2>; // kernels may outlive static objects
  const std::lock_guard<std::mutex> lock(mutex);
  std::weak_ptr<EdgeMemory> &present = all[static_cast<size_t>(of)];
  std::shared_ptr<EdgeMemory> memory = present.lock();
  if (!memory) present = memory = std::make_shared<EdgeMemory>();
  return memory;
}

EdgeMemory::Lease::Lease(EdgeMemory &memory, size_t bytes) : memory_(memory) {
  {
    const std::lock_guard<std::mutex> lock(memory.mutex_);
    const auto largest = std::max_element(memory.free_.begin(), memory.free_.end(),
                                          [](const Block &a, const Block &b) { return a.bytes < b.bytes; });
    if (largest != memory.free_.end()) {
      block_ = std::move(*largest);
      memory.free_.erase(largest);
    }
  }
  if (block_.bytes >= bytes) return;
  block_ = Block(); // before the larger one is taken
  block_ = {bytes, cpu::Scratch<char>(static_cast<int64_t>(bytes))};
}

EdgeMemory::Lease::~Lease() {
  const std::lock_guard<std::mutex> lock(memory_.mutex_);
  memory_.free_.push_back(std::move(block_));
}

} // namespace opc::ops
