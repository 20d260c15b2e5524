// The devices that a session may run on.
// SPDX-License-Identifier: Apache-2.0
#include "Devices.h"

#include "Device.h"
#include "KernelImages.h"
#include "TextParts.h"
#include "cuda/CudaDevice.h"

namespace opc {

bool isDeviceName(const std::string &name) { return runtime::deviceTypeOf(name) != DeviceType::kInvalidDevice; }

int64_t deviceCount(const std::string &name) { return runtime::deviceCountOf(name); }

Result<std::string> devicesOfRanks(const std::string &name, int64_t ranks) {
  const int64_t count = deviceCount(name);
  if (runtime::deviceTypeOf(name) == DeviceType::kCPU || count == ranks) return name;
  const std::string several = ":0-" + std::to_string(ranks - 1), kind = name.substr(0, name.find(':'));
  if (kind == name) return name + several;
  return Status(StatusCode::kUsage, "OPC0001",
                concat("--device ", name, " names ", counted(count, "device"), ", and there ",
                       ranks == 1 ? "is 1 rank" : concat("are ", ranks, " ranks")))
      .withHelp(ranks == 1 ? concat("each rank has a device: --mesh ", count, " makes as many ranks")
                           : "each rank has a device: --device " + kind + several);
}

Status checkDevice(const std::string &name) {
  OPC_ASSIGN_OR_RETURN(const std::string last, runtime::deviceOfRank(name, deviceCount(name) - 1));
  return runtime::openDevice(last).status();
}

bool isOfSimulator(const std::string &name) { return runtime::isSimulatedDevice(name); }

void prepareDeviceForPlugins(const std::string &device) {
  if (isOfSimulator(device)) runtime::cuda::CudaDriver::openSimulatedRuntime();
}

GpuReport inspectGpus(bool isSimulated) {
  GpuReport report;
  Result<std::vector<runtime::CudaDeviceFacts>> found = runtime::cudaDevices(isSimulated);
  if (!found) {
    report.problem = found.status().message();
    return report;
  }
  for (const runtime::CudaDeviceFacts &d : *found)
    report.gpus.push_back(d.name + ", " + std::to_string(d.memory >> 20) + " MiB, compute capability " + d.capability);
  return report;
}

size_t deviceKernelCount() { return cuda::kernelNames().size(); }

std::vector<std::string> deviceCode() {
  std::vector<std::string> texts;
  for (const int c : cuda::codeCapabilities()) texts.push_back(std::to_string(c / 10) + "." + std::to_string(c % 10));
  return texts;
}

} // namespace opc
