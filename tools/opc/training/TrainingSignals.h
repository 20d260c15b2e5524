// Signals that end a training run after its step.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>

namespace opc::cli {

/// While it lives, the first SIGINT, SIGTERM, SIGHUP or SIGQUIT is kept for caught(), and a second one ends the program
/// at once. A SIGHUP or SIGQUIT that the program was told to ignore (nohup) stays ignored.
class SignalWatch {
public:
  SignalWatch();
  ~SignalWatch();
  SignalWatch(const SignalWatch &) = delete;
  SignalWatch &operator=(const SignalWatch &) = delete;
  /// The signal's number; 0: none came.
  static int caught();

private:
  static constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
  static constexpr int kCount = sizeof kSignals / sizeof *kSignals;
  struct sigaction before_[kCount] = {};
};

} // namespace opc::cli
