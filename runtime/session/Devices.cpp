// The devices that a session may run on.
// SPDX-License-Identifier: Apache-2.0
#include "Devices.h"

#include "Device.h"
#include "KernelImages.h"
#include "cuda/CudaDevice.h"

namespace opc {

bool isDeviceName(const std::string &name) { return runtime::deviceTypeOf(name) != DeviceType::kInvalidDevice; }

Status checkDevice(const std::string &name) { return runtime::openDevice(name).status(); }

void prepareDeviceForPlugins(const std::string &device) {
  if (runtime::isSimulatedDevice(device)) runtime::cuda::CudaDriver::openSimulatedRuntime();
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

} // namespace opc
