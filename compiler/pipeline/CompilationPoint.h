// Where the compiler is, and what it was about to work on: for reports of crashes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace opc {

/// The phase and the pass that the calling thread is in, or was when its last compilation broke off. For a handler of
/// signals; null where there is none.
struct CompilationPoint {
  const char *phase = nullptr, *pass = nullptr;
};
CompilationPoint compilationPoint() noexcept;

/// The IR before the phase of compilationPoint(), below a comment with the command for opc-opt that runs the phase's
/// passes. While the compiler is in a phase it is compiled anew up to there (for a process that was forked after a
/// crash: it may crash again); afterwards it is what was kept when the phase broke off. Empty: there was no IR yet, or
/// no phase has broken off.
std::string irBeforePoint();

/// Forgets what was kept.
void clearCompilationPoint();

} // namespace opc
