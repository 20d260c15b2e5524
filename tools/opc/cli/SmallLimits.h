// Whether a crash is one of limits that the process has been given: too few addresses, too small a stack, no thread.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>

namespace opc::cli {

/// In a handler of signals: where a limit explains a crash, says so in parts (CrashText.h) and ends the process with
/// kExitExecution. `what`: what has happened, as in " called abort()"; `info` and `context`: what the handler was
/// given, or null.
void endOnSmallLimit(const char *what, const siginfo_t *info, const void *context) noexcept;

/// Whether the system gives no thread to this process: libraries that need one call exit().
bool hasNoThreadLeft() noexcept;
/// What helps then.
extern const char *const kNoThreadHelp;

} // namespace opc::cli
