// Ctrl-C as a request to stop where it does no harm.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>

namespace opc::cli {

/// While one lives, the first SIGINT or SIGTERM only asks; a second one ends the program at once.
class StopSignal {
public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal &) = delete;
  StopSignal &operator=(const StopSignal &) = delete;
  /// The number of the signal that came; 0 when none has.
  int caught() const;

private:
  struct sigaction interrupt_{}, terminate_{};
};

} // namespace opc::cli
