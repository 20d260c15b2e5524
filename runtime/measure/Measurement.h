// How fast this machine is when several ranks work on it at once: ops, memory, boxing steps.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Communicator.h"
#include "OpCost.h"
#include "Registry.h"

#include <string>
#include <vector>

namespace opc::runtime {

struct OpUnderTest {
  OpInstance op;
  std::vector<bool> constant; // by input: never changes, so that kernels may pack it
};

struct MeasuredOpTime {
  std::string op;
  DataType type = kFloat; // of its first floating tensor
  OpCost cost;
  double seconds = 0;
};
struct MeasuredStepTime {
  BoxingOp op;
  double seconds = 0;
};

struct MachineMeasurement {
  int64_t ranks = 1;
  int64_t computing = 1;                // of these, how many measured ops at once: those that had cores of their own
  int threads = 1;                      // that the kernels of each rank used
  std::vector<MeasuredOpTime> products; // square matrix products in f32
  double copyBandwidth = 0;             // bytes a second that a rank reads and writes in large elementwise ops
  double taskOverhead = 0;              // seconds of a task with next to nothing to do
  std::vector<MeasuredOpTime> ops;      // those that were asked for and have a kernel that accepts made-up data
  std::vector<MeasuredStepTime> steps;  // collectives of all ranks, f32; none for one rank
};

struct MeasureOptions {
  int threads = 1;
  int64_t cores = 0;     // of the machine: ops are measured on no more ranks than have cores; 0: on all
  double seconds = 0.05; // for each thing that is measured
  uint64_t footprint = uint64_t{32} << 20; // bytes of buffers that an op goes through in turn, as it does in a plan
};

/// Measures on all ranks of `comm` at once, and gives all of them the mean over the ranks. Every rank makes the call,
/// with equal arguments; the ranks must run at the same time on the machine that is measured. Errors: the
/// communicator's; OPC0748 when there is nothing to measure products with.
Result<MachineMeasurement> measureMachine(Communicator &comm, const Registry &registry,
                                          const std::vector<OpUnderTest> &ops, const MeasureOptions &options);

} // namespace opc::runtime
