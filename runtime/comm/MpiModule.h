// The MPI engine: a module of its own, libopc_mpi.so, that is opened when it is needed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Communicator.h"
#include "RankReport.h"

#include <chrono>
#include <functional>

namespace opc::runtime {

struct MpiOptions {
  int channels = 4;
  /// How long an exchange waits for the other ranks before it fails with OPC0722.
  std::chrono::milliseconds timeout{300000};
  /// Gets what there is to say when the job ends because of another rank; called once, from another thread, shortly
  /// before the process ends. For standard error.
  std::function<void(const RankReport &)> report;
  /// What the process ends with when another rank is gone or abort() is called.
  int exitCode = 5;
};

/// This process' end of the job that a launcher has put it into. Opens the module from OPC_MPI_MODULE, from beside the
/// program, from ../lib or from the libraries' folder of the installation, and calls MPI_Init_thread, which takes
/// 0.3 s. Once a process. Errors: OPC0725 (no module, or its libraries are missing), OPC0724 (MPI's own).
Result<std::unique_ptr<Communicator>> mpiCommunicator(const MpiOptions &options);

/// Where the module is looked for, in order.
std::vector<std::string> mpiModuleCandidates();

} // namespace opc::runtime
