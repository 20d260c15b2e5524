// The NCCL engine: ranks that each have a GPU, and blocks in its memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Communicator.h"

#include <chrono>

namespace opc::runtime {

struct NcclOptions {
  int device = 0; // of this process
  int channels = 4;
  /// How long an exchange waits for the other ranks before it fails with OPC0722.
  std::chrono::milliseconds timeout{300000};
};

/// An engine for device memory over another communicator, which carries the unique ids, allGatherBytes, barrier and
/// abort, and outlives this one. Collective. libnccl.so.2 and libcudart are opened at run time. Blocks are device
/// pointers; strided ones are packed on the device. Sums of addends are NCCL's own (allReduce); the rank-ordered sums
/// of BoxingExecutor need host memory. Errors: OPC0725 (opc was built without nccl.h, or the libraries are not here),
/// OPC0724 (NCCL's or CUDA's own).
Result<std::unique_ptr<Communicator>> ncclCommunicator(Communicator &bootstrap, const NcclOptions &options);

} // namespace opc::runtime
