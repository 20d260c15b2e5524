// A launcher as a child of this process: its output is written here, and signals reach the ranks through it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Launcher.h"

#include <functional>
#include <string_view>

namespace opc::runtime {

struct LaunchWatch {
  /// What the launcher writes to its standard output, as it comes.
  std::function<void(std::string_view)> output;
  /// Whether the ranks end by themselves, in their own time, after the first signal.
  bool isPatient = false;
};

/// Runs the command and waits for its end: the exit code. It has a process group of its own, so that what is typed on a
/// terminal reaches this process alone, and ends when this process does. SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1,
/// SIGUSR2 and SIGXCPU are passed on, but for those that were ignored here; SIGINT and SIGTERM always. A launcher ends
/// its ranks within a second after most of them; patient ranks of one that is known get SIGUSR1 in place of the first,
/// which launchers hand to the ranks, and again each second. All processes of a launcher that is not known get the
/// signals. A job that a signal has ended has the exit code 128 and the number of the first one. Error: OPC0725 when
/// the command cannot be started.
Result<int> launch(const LaunchCommand &command, const LaunchWatch &watch);

/// Whether a launcher of this name hands SIGUSR1 to its ranks: mpirun and its kin, srun.
bool handsOnSignals(const std::string &launcher);

} // namespace opc::runtime
