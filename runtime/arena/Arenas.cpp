// The memory of one session.
// SPDX-License-Identifier: Apache-2.0
#include "Arenas.h"

namespace opc::runtime {

Status Arenas::add(Device *device, uint64_t bytes) {
  Result<DeviceMemory> memory = device->allocate(bytes);
  if (!memory) return Status(memory.status()).withContext("taking the arena of device " + device->name());
  blocks_.push_back({device, std::move(*memory)});
  total_ += bytes;
  return Status::ok();
}

} // namespace opc::runtime
