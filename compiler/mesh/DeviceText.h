// Where a graph runs, as CompileOptions::device says it: "sim", or "sim,cpu", a device and the CPU for ops that have no
// kernel there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace opc {

constexpr char kCpuFallback[] = ",cpu";

inline bool fallsBackToCpu(const std::string &device) {
  const std::string suffix = kCpuFallback;
  return device.size() > suffix.size() && device.compare(device.size() - suffix.size(), suffix.size(), suffix) == 0;
}
inline std::string withCpuFallback(const std::string &device) { return device + kCpuFallback; }
/// As plans name it.
inline std::string withoutCpuFallback(const std::string &device) {
  return fallsBackToCpu(device) ? device.substr(0, device.size() - (sizeof kCpuFallback - 1)) : device;
}

} // namespace opc
