// How plans name devices.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

namespace opc {

/// "cpu"; "gpu" and "gpu:1", CUDA's; "sim" and "sim:1", those of the simulator that opc brings; "gpu:0-3", four of
/// them.
struct DeviceName {
  std::string kind;
  int ordinal = 0, last = 0;
};

/// Nothing for other words. Says nothing of whether the device is there.
std::optional<DeviceName> readDeviceName(const std::string &name);

/// The names that there are, for messages.
std::string deviceNames();

} // namespace opc
