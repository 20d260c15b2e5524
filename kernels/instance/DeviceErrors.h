// Errors of a device that reach the host through a kernel: the SDK's wrappers keep nothing of them but their text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Maybe.h"
#include "opc/Status.h"

#include <string>
#include <utility>

namespace opc {

/// What a device has said last to a kernel on this thread.
inline thread_local Status lastDeviceError;

/// Ends the kernel that runs on this thread.
[[noreturn]] inline void throwDeviceError(Status error) {
  const std::string text = error.toString();
  lastDeviceError = std::move(error);
  throw ContractError(text);
}

/// The device's own error with its code, where it is why a kernel has failed with `status`; else `status`.
inline Status orDeviceError(Status status) {
  const Status device = std::exchange(lastDeviceError, Status());
  return !device.isOk() && status.id().empty() && status.message() == device.toString() ? device : status;
}

/// What a kernel that has failed ends with: a device that refuses the work is no failed execution of it.
inline StatusCode failureCode(const Status &status) {
  return status.code() == StatusCode::kUnsupported && !status.id().empty() ? status.code() : StatusCode::kExecution;
}

/// The context of an error in an op, before its place in the graph is known.
inline std::string runningText(const std::string &op) { return "running op " + op; }

} // namespace opc
