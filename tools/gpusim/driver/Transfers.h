// What travels between streams of several devices without the host: the ground of the NCCL stand-in.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "CudaAbi.h"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace opc::gpusim::driver {

struct Operation;

/// Its contributions are read where their streams come to them, and its result is written where the receiving streams
/// do, once all parts were posted. The fields behind `aborted` are the driver's.
struct Transfer {
  std::string what; // "NCCL send 0 to 1"
  size_t parts = 0; // that have to be posted before any of them runs
  size_t bytes = 0; // of each contribution
  std::vector<std::vector<std::byte>> contributions;
  /// From the contributions to the result; null: the result is the first contribution.
  std::vector<std::byte> (*combine)(const Transfer &) = nullptr;
  int type = 0, reduction = 0, root = 0; // for combine, and what the ranks agree on
  size_t announced = 0;                  // ranks that have called
  bool aborted = false;

  size_t posted = 0;
  bool combined = false;
  std::vector<std::byte> result;
  std::vector<std::shared_ptr<Operation>> contributing, waiting;
};

/// One stream's part in a transfer.
struct TransferPart {
  std::shared_ptr<Transfer> transfer;
  bool contributes = false, receives = false;
  size_t slot = 0; // of the contribution
  DevicePtr from = 0, to = 0;
  size_t bytes = 0, received = 0; // at `from`, and at `to`
  size_t offset = 0;              // in the result, of what is received
};

/// The parts run at the same time, behind what the stream has and before what it gets.
extern "C" __attribute__((visibility("default"))) CuResult opcGpusimPost(Stream *stream, const TransferPart *parts,
                                                                         size_t count);
/// Counts a call of a function that is not the driver's: the code that fail= of CUDA_SIM has for it, or 0.
extern "C" __attribute__((visibility("default"))) int opcGpusimInjected(const char *function);
/// Nobody waits for the other parts any more.
extern "C" __attribute__((visibility("default"))) CuResult opcGpusimAbort(Transfer *transfer);

} // namespace opc::gpusim::driver
