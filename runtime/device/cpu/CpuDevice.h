// The CPU: host memory, synchronous streams.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Device.h"

namespace opc::runtime {

class CpuDevice : public Device {
public:
  const std::string &name() const override;
  DeviceType type() const override { return DeviceType::kCPU; }
  Result<DeviceMemory> allocate(size_t bytes) override;
  void discard(void *data, size_t bytes) override;
  std::unique_ptr<Stream> createStream(int threads) override;
  Status copyFromHost(Stream &stream, void *to, const void *from, size_t bytes) override;
  Status copyToHost(Stream &stream, void *to, const void *from, size_t bytes) override;
  bool isHostMemory() const override { return true; }

protected:
  void release(void *data, size_t bytes) override;
};

/// Cores that this process may run on.
int availableCores();
/// Bytes of memory of this machine, or of the container when its limit is lower.
uint64_t machineMemory();

} // namespace opc::runtime
