// Signals as requests to stop where it does no harm.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>

namespace opc::cli {

/// While one lives, the first SIGINT or SIGTERM only asks; a second one ends the program at once. With `hangup`, so do
/// SIGHUP, SIGQUIT, and what batch systems send before they end a job: SIGUSR1, SIGUSR2 and SIGXCPU; but for those that
/// the program was told to ignore (nohup). With `early`, where nothing is there yet that would be lost, the first one
/// ends the program at once with that line, as it would later: exit code 128 and its number. Until begin().
class StopSignal {
public:
  explicit StopSignal(bool hangup = false, const char *early = nullptr);
  ~StopSignal();
  StopSignal(const StopSignal &) = delete;
  StopSignal &operator=(const StopSignal &) = delete;
  void begin();
  /// The number of the signal that came; 0 when none has.
  static int caught();

  static constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGXCPU};

private:
  static constexpr int kWithoutHangup = 2, kAll = 7;
  const int count_;
  struct sigaction before_[kAll] = {};
};

} // namespace opc::cli
