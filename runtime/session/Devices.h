// The devices that a session may run on, by name.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Status.h"

#include <string>
#include <vector>

namespace opc {

/// Whether a word names a device: "cpu", "gpu", "gpu:1", "sim". Whether it is there is another question.
bool isDeviceName(const std::string &name);
/// How many devices it names: "gpu:0-3" are four.
int64_t deviceCount(const std::string &name);
/// The devices of `ranks` ranks: of "gpu", which is one, the first ones. OPC0001 where they are not as many.
Result<std::string> devicesOfRanks(const std::string &name, int64_t ranks);
/// Opens the device, or the last of several, and closes it: the error says why it cannot be used (OPC0630).
Status checkDevice(const std::string &name);

/// Whether the device, or the first of several, is one of the simulator's.
bool isOfSimulator(const std::string &name);
/// Before plugins are loaded whose kernels use CUDA's runtime: theirs is then the simulator's, if the device is.
void prepareDeviceForPlugins(const std::string &device);

/// What `opc doctor` says of GPUs.
struct GpuReport {
  std::vector<std::string> gpus; // "NVIDIA A100, 40.0 GiB, compute capability 8.0"
  std::string problem;           // why there are none
};
GpuReport inspectGpus(bool isSimulated);
/// How many kernels the device code of this build has; 0 where nvcc was not found.
size_t deviceKernelCount();
/// The compute capabilities that it has machine code for, "8.0"; GPUs' drivers compile the PTX for others.
std::vector<std::string> deviceCode();

} // namespace opc
