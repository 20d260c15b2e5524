// What the functions of opc.h share: the handles, the last error of a thread, the border that no exception crosses.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Session.h"
#include "opc.h"

#include <atomic>
#include <mutex>

struct opc_context {
  opc::Registry registry;
  std::once_flag once;
  std::atomic<bool> isFrozen{false};
  std::atomic<bool> allowsNative{false};
  /// Plans are made of a registry that nothing changes any more.
  void freeze() {
    std::call_once(once, [this] {
      registry.freeze();
      isFrozen = true;
    });
  }
};

struct opc_plan {
  opc::FileBytes file; // or
  std::string bytes;
  std::string_view view() const { return bytes.empty() ? file.view() : std::string_view(bytes); }
};

namespace opc::capi {

/// What the next opc_last_error() of this thread says. Returns the status.
opc_status fail(const Status &status) noexcept;
/// OPC0618 for an argument that a caller must not give.
Status badArgument(const std::string &what, const std::string &help);
/// OPC0618 when the pointer is null.
Status given(const void *pointer, const char *name);
/// In the middle of a throw: the exception as a status.
Status caughtException() noexcept;

/// Runs a function that returns a Status; nothing it throws gets out.
template <class Work> opc_status guarded(Work &&work) noexcept {
  try {
    const Status status = work();
    return status ? OPC_OK : fail(status);
  } catch (...) {
    return fail(caughtException());
  }
}

/// A graph file's plan: of the compiler in libopc_compiler, OPC0907 in libopc.
Result<std::string> compileGraphFile(const Registry &registry, const std::string &path);

} // namespace opc::capi
