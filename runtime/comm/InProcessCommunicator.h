// The engine whose ranks are threads of this process: blocks are copied straight from one rank's memory to the other's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Communicator.h"

#include <chrono>

namespace opc::runtime {

struct InProcessOptions {
  int channels = 8;
  /// How long a call waits for the other ranks before it fails with OPC0722.
  std::chrono::milliseconds timeout{300000};
};

/// The ends of n ranks. Each is used by the threads of one rank (one thread a channel); they share what they need, so
/// any may be destroyed first: those who then wait for its rank get OPC0721. Waiting threads sleep. Sums are made in
/// the order of the ranks, so allReduce gives the same bits every time.
std::vector<std::unique_ptr<Communicator>> inProcessCommunicators(int64_t n, const InProcessOptions &options = {});

} // namespace opc::runtime
