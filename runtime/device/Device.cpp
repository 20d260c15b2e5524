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
  int ordinal = 0, last = 0;
};

/// A number of at most three digits; -1 for other texts.
int numberOf(const std::string &text) {
  if (text.empty() || text.size() > 3) return -1;
  int number = 0;
  for (char c : text) {
    if (std::isdigit(static_cast<unsigned char>(c)) == 0) return -1;
    number = number * 10 + (c - '0');
  }
  return number;
}

DeviceName parse(const std::string &name) {
  const size_t colon = name.find(':');
  DeviceName parsed{name.substr(0, colon), 0, 0};
  if (parsed.kind != "cpu" && parsed.kind != "gpu" && parsed.kind != "sim") return {};
  if (colon == std::string::npos) return parsed;
  const size_t dash = name.find('-', colon);
  parsed.ordinal = numberOf(name.substr(colon + 1, dash == std::string::npos ? dash : dash - colon - 1));
  parsed.last = dash == std::string::npos ? parsed.ordinal : numberOf(name.substr(dash + 1));
  if (parsed.ordinal < 0 || parsed.last < parsed.ordinal) return {};
  if (parsed.kind == "cpu" && parsed.last != 0) return {};
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

int64_t deviceCountOf(const std::string &name) {
  const DeviceName parsed = parse(name);
  return parsed.last - parsed.ordinal + 1;
}

Result<std::string> deviceOfRank(const std::string &name, int64_t rank) {
  const int64_t count = deviceCountOf(name);
  if (count == 1) return name;
  const DeviceName parsed = parse(name);
  if (rank < count) return parsed.kind + ":" + std::to_string(parsed.ordinal + rank);
  return Status(StatusCode::kUnsupported, "OPC0820",
                "rank " + std::to_string(rank) + " has no device: " + name + " are " + std::to_string(count))
      .withHelp("compile the graph for as many devices as ranks");
}

Result<std::unique_ptr<Device>> openDevice(const std::string &name) {
  const DeviceName parsed = parse(name);
  if (parsed.kind.empty())
    return Status(StatusCode::kUnsupported, "OPC0820", "'" + name + "' is no device")
        .withHelp("devices are " + deviceNames());
  if (parsed.last != parsed.ordinal)
    return Status(StatusCode::kUnsupported, "OPC0820", "'" + name + "' are several devices, and one is wanted")
        .withHelp("name one: " + parsed.kind + ":" + std::to_string(parsed.ordinal));
  if (parsed.kind == "cpu") return std::unique_ptr<Device>(std::make_unique<CpuDevice>());
  return CudaDevice::open(name, parsed.kind == "sim", parsed.ordinal);
}

std::string deviceNames() { return "cpu, gpu, gpu:N, sim, sim:N; gpu:0-3 and sim:0-3 of several ranks"; }

} // namespace opc::runtime
