// Kernels that are made from scalar functions.
// SPDX-License-Identifier: Apache-2.0
#include "DeviceKernels.h"

namespace opc {
namespace {

std::vector<DeviceKernelsFn> &makers() {
  static std::vector<DeviceKernelsFn> list;
  return list;
}

} // namespace

void registerDeviceKernels(DeviceKernelsFn make) { makers().push_back(make); }

std::vector<user_op::KernelDef> deviceKernels(const user_op::OpDef &op,
                                              const std::vector<const user_op::KernelDef *> &known) {
  std::vector<user_op::KernelDef> more;
  for (DeviceKernelsFn make : makers()) make(op, known, &more);
  return more;
}

} // namespace opc
