// The devices of this build.
// SPDX-License-Identifier: Apache-2.0
#include "Device.h"

#include "DeviceName.h"
#include "cpu/CpuDevice.h"
#include "cuda/CudaDevice.h"

namespace opc::runtime {

DeviceMemory::~DeviceMemory() {
  if (data_) device_->release(data_, bytes_);
}

DeviceType deviceTypeOf(const std::string &name) {
  const std::optional<DeviceName> parsed = readDeviceName(name);
  return !parsed ? DeviceType::kInvalidDevice : parsed->kind == "cpu" ? DeviceType::kCPU : DeviceType::kGPU;
}

bool isSimulatedDevice(const std::string &name) { return readDeviceName(name).value_or(DeviceName()).kind == "sim"; }

int64_t deviceCountOf(const std::string &name) {
  const DeviceName parsed = readDeviceName(name).value_or(DeviceName());
  return parsed.last - parsed.ordinal + 1;
}

Result<std::string> deviceOfRank(const std::string &name, int64_t rank) {
  const int64_t count = deviceCountOf(name);
  if (count == 1) return name;
  const DeviceName parsed = *readDeviceName(name); // of several
  if (rank < count) return parsed.kind + ":" + std::to_string(parsed.ordinal + rank);
  return Status(StatusCode::kUnsupported, "OPC0820",
                "rank " + std::to_string(rank) + " has no device: " + name + " are " + std::to_string(count))
      .withHelp("compile the graph for as many devices as ranks");
}

Result<std::unique_ptr<Device>> openDevice(const std::string &name) {
  const std::optional<DeviceName> parsed = readDeviceName(name);
  if (!parsed)
    return Status(StatusCode::kUnsupported, "OPC0820", "'" + name + "' is no device")
        .withHelp("devices are " + deviceNames());
  if (parsed->last != parsed->ordinal)
    return Status(StatusCode::kUnsupported, "OPC0820", "'" + name + "' are several devices, and one is wanted")
        .withHelp("name one: " + parsed->kind + ":" + std::to_string(parsed->ordinal));
  if (parsed->kind == "cpu") return std::unique_ptr<Device>(std::make_unique<CpuDevice>());
  return CudaDevice::open(name, parsed->kind == "sim", parsed->ordinal);
}

std::string deviceNames() { return opc::deviceNames(); }

} // namespace opc::runtime
