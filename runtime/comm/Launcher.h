// How a process that is asked for several ranks starts itself again under a launcher, and how it finds itself started.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Status.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace opc::runtime {

/// What launchCommand decides from; nothing else.
struct LaunchRequest {
  int64_t ranks = 1;
  std::string executable;             // absolute path of this program
  std::vector<std::string> arguments; // of each rank, without the program's name
  std::string launcher;               // --launcher: a command with its arguments, split at blanks; empty: mpirun
  std::string mpirun;                 // where mpirun was found; empty: nowhere
  int64_t cores = 1;                  // physical cores that this process may use
  bool root = false;                  // mpirun refuses root unless it is told twice
};
struct LaunchCommand {
  std::vector<std::string> argv;                                // argv[0] is looked up in PATH
  std::vector<std::pair<std::string, std::string>> environment; // added to the own
  /// As one would type it.
  std::string text() const;
};
/// `mpirun [--oversubscribe] --bind-to none -n RANKS EXECUTABLE ARGUMENT...`: oversubscribed when there are more ranks
/// than cores; not bound, since ranks have threads. A launcher that was given gets `-n RANKS` and what follows: mpirun,
/// mpiexec, srun and their kin know it. Errors: OPC0725 (no mpirun).
Result<LaunchCommand> launchCommand(const LaunchRequest &request);

/// The request as this machine and process fill it in. `arguments`: what each rank gets.
LaunchRequest launchRequestHere(int64_t ranks, std::vector<std::string> arguments, std::string launcher);

/// What the environment says about a launcher that started this process: OMPI_COMM_WORLD_RANK and _SIZE (Open MPI),
/// PMI_RANK and PMI_SIZE (MPICH, Slurm), PMIX_RANK (others; the size is then -1). These are only names that anything
/// may set, and that outlive their job: they count together with the connection that a launcher leaves open for its
/// processes (PMIX_SERVER_URI..., PMI_FD or PMI_PORT), and when the rank is one of that many. Nothing: no launcher.
struct LaunchedRank {
  int64_t rank = 0, size = -1;
};
std::optional<LaunchedRank> launchedRank();

} // namespace opc::runtime
