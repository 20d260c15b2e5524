// The devices of this build.
// SPDX-License-Identifier: Apache-2.0
#include "Device.h"

#include "cpu/CpuDevice.h"
#include "cuda/CudaDevice.h"

#include <cctype>

namespace opc::runtime {
namespace {

struct DeviceName {
  std::string kind; // empty: the name is none
  int ordinal = 0;
};

DeviceName parse(const std::string &name) {
  const size_t colon = name.find(':');
  DeviceName parsed{name.substr(0, colon), 0};
  if (parsed.kind != "cpu" && parsed.kind != "gpu" && parsed.kind != "sim") return {};
  if (colon == std::string::npos) return parsed;
  const std::string number = name.substr(colon + 1);
  if (number.empty() || number.size() > 3) return {};
  for (char c : number) {
    if (std::isdigit(static_cast<unsigned char>(c)) == 0) return {};
    parsed.ordinal = parsed.ordinal * 10 + (c - '0');
  }
  if (parsed.kind == "cpu" && parsed.ordinal != 0) return {};
  return parsed;
}

} // namespace

DeviceMemory::~DeviceMemory() {
  if (data_) device_->release(data_, bytes_);
}

DeviceType deviceTypeOf(const std::string &name) {
  const std::string kind = parse(name).kind;
  return kind.empty() ? DeviceType::kInvalidDevice : kind == "cpu" ? DeviceType::kCPU : DeviceType::kGPU;
}

bool isSimulatedDevice(const std::string &name) { return parse(name).kind == "sim"; }

Result<std::unique_ptr<Device>> openDevice(const std::string &name) {
  const DeviceName parsed = parse(name);
  if (parsed.kind.empty())
    return Status(StatusCode::kUnsupported, "OPC0820", "'" + name + "' is no device")
        .withHelp("devices are " + deviceNames());
  if (parsed.kind == "cpu") return std::unique_ptr<Device>(std::make_unique<CpuDevice>());
  return CudaDevice::open(name, parsed.kind == "sim", parsed.ordinal);
}

std::string deviceNames() { return "cpu, gpu, gpu:N, sim, sim:N"; }

} // namespace opc::runtime
