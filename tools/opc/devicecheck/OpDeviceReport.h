// What opc verify --device says, as text and as JSON.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "JsonOutput.h"
#include "OpDeviceCheck.h"

namespace opc::cli {

/// A line for the op, what is wrong, and its kernels as the simulator has counted them.
std::string deviceCheckText(const OpDeviceCheck &check, const std::string &device, size_t width);
Json deviceCheckJson(const OpDeviceCheck &check);

} // namespace opc::cli
