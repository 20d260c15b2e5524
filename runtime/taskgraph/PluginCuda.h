// Plugins' kernels that go through CUDA's runtime library, on the simulated GPU.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Device.h"

namespace opc {
class KernelTask;
}

namespace opc::runtime {

/// On a simulated device a kernel's library must reach the simulator's libcudart: with another one, or one inside of
/// itself, its launches would be lost without a word. Errors: OPC0633.
Status checkCudaRuntimeOf(const KernelTask &task, const Device &device);

} // namespace opc::runtime
