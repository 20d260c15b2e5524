// The devices of this build.
// SPDX-License-Identifier: Apache-2.0
#include "Device.h"

#include "cpu/CpuDevice.h"

namespace opc::runtime {

DeviceMemory::~DeviceMemory() {
  if (data_) device_->release(data_, bytes_);
}

std::unique_ptr<Device> createDevice(const std::string &name) {
  if (name == "cpu" || name == "cpu:0") return std::make_unique<CpuDevice>();
  return nullptr;
}

std::string availableDevices() { return "cpu"; }

} // namespace opc::runtime
