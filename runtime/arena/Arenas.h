// The memory of one session: one block for each arena of the plan, taken once, cut by the plan's offsets.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Device.h"

#include <vector>

namespace opc::runtime {

class Arenas {
public:
  /// Takes `bytes` on `device`; arenas are numbered in the order of the calls. OPC0614 when there is not enough.
  Status add(Device *device, uint64_t bytes);
  /// The address of `offset` in an arena. Both have been checked against the plan.
  void *at(uint32_t arena, uint64_t offset) const { return blocks_[arena].memory.data() + offset; }
  Device &device(uint32_t arena) const { return *blocks_[arena].device; }
  uint64_t totalBytes() const { return total_; }

private:
  struct Block {
    Device *device;
    DeviceMemory memory;
  };
  std::vector<Block> blocks_;
  uint64_t total_ = 0;
};

} // namespace opc::runtime
