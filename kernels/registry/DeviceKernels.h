// Kernels that an op has without being asked: made from its scalar function for devices that this build has code for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Registry.h"

#include <vector>

namespace opc {

/// Adds to `more` what is to be added to the kernels `known` of an op.
using DeviceKernelsFn = void (*)(const user_op::OpDef &op, const std::vector<const user_op::KernelDef *> &known,
                                 std::vector<user_op::KernelDef> *more);
/// For static registrars: every op that enters a registry, and every gradient op that is derived in one, is shown to
/// the function.
void registerDeviceKernels(DeviceKernelsFn make);
/// What the registered functions add.
std::vector<user_op::KernelDef> deviceKernels(const user_op::OpDef &op,
                                              const std::vector<const user_op::KernelDef *> &known);

} // namespace opc
