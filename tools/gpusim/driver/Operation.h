// What a stream or a graph is asked to do, and its place among everything else that was asked for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "AccessOrder.h"
#include "CudaAbi.h"
#include "Machine.h"
#include "Transfers.h"

#include <memory>
#include <variant>
#include <vector>

namespace opc::gpusim::driver {

/// A module's code and variables on one device; operations keep it alive.
struct LoadedImage {
  std::unique_ptr<LoadedModule> loaded;
  int device = 0;
};

/// Nothing: an event's record or wait, the begin or end of a graph.
struct MarkerWork {};

struct KernelWork {
  std::shared_ptr<LoadedImage> image;
  const KernelInfo *kernel = nullptr;
  Dim3 grid, block;
  uint32_t dynamicShared = 0, sharedLimit = 0;
  std::vector<std::byte> params;
};

/// Rows of bytes. Host addresses are pinned memory, or pageable memory of a call that waits.
struct CopyWork {
  uint64_t to = 0, from = 0;
  bool toHost = false, fromHost = false, pageable = false;
  size_t width = 0, height = 1, toPitch = 0, fromPitch = 0;
  uint64_t toBytes() const { return height == 0 || width == 0 ? 0 : (height - 1) * toPitch + width; }
  uint64_t fromBytes() const { return height == 0 || width == 0 ? 0 : (height - 1) * fromPitch + width; }
};

struct FillWork {
  uint64_t to = 0;
  uint32_t value = 0, size = 1; // of one element
  uint64_t count = 0;
};

struct HostWork {
  HostFunction function = nullptr;
  void *data = nullptr;
};

/// The two sides of a transfer between streams.
struct ContributeWork {
  std::shared_ptr<Transfer> transfer;
  size_t slot = 0;
  uint64_t from = 0, bytes = 0;
};
struct ReceiveWork {
  std::shared_ptr<Transfer> transfer;
  uint64_t to = 0, bytes = 0, offset = 0; // in the result
};

using Work = std::variant<MarkerWork, KernelWork, CopyWork, FillWork, HostWork, ContributeWork, ReceiveWork>;

/// "kernel scale", "copy host to device", ...
std::string whatIs(const Work &work);

struct Operation;
using OperationPtr = std::shared_ptr<Operation>;

struct Operation {
  std::shared_ptr<OperationName> name;
  VectorClock clock;
  Context *context = nullptr;
  Work work;
  std::vector<OperationPtr> needs;     // not yet done; empty when it is done itself
  std::vector<Operation *> successors; // that wait for it
  size_t unmet = 0;                    // of its needs, and what a transfer still waits for
  bool done = false;
  uint64_t tick = 0; // when it was done, in operations
};

} // namespace opc::gpusim::driver
