// The engine whose ranks are threads of this process: blocks are copied straight from one rank's memory to the other's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Communicator.h"

#include <chrono>
#include <functional>
#include <string>

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

/// `tell` gets the reason when a rank ends the job, from any thread; who waits for other ranks by means of his own may
/// stop then. Nothing for other engines: there the job's processes end.
void listenToAbort(Communicator &communicator, std::function<void(const std::string &reason)> tell);

} // namespace opc::runtime
