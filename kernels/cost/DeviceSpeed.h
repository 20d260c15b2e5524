// How long a device takes for what an op costs: the one formula of the planner and of the simulator.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "OpCost.h"

#include <map>
#include <string>

namespace opc {

/// An op that was measured: its seconds are overhead + factor * those of the model without overhead.
struct MeasuredOp {
  double overhead = 0; // seconds
  double factor = 1;
};

/// How near to its peak a device comes in contractions: peak * w / (w + halfWidth), where w is an op's width, the
/// operations for each element that it moves. The product of square matrices of size h has w = 2h/3, a tall one times
/// an h x h matrix has w = h.
struct Efficiency {
  double peak = 1;
  double halfWidth = 0;
};

/// How fast a device computes.
struct DeviceSpeed {
  double flops = 50e9;                   // per second
  std::map<DataType, double> byType;     // the same in contractions of these types, in place of `flops`
  Efficiency efficiency;                 // of contractions
  double memoryBandwidth = 10e9;         // bytes per second
  double taskSeconds = 2e-6;             // overhead of a task
  std::map<std::string, MeasuredOp> ops; // by op type, in place of `taskSeconds` and of the model
};

/// The type that an op computes in: that of its first floating tensor; f32 without one.
DataType computeType(const OpInstance &op);

/// Seconds of an op of a type: its arithmetic or its bytes, whichever takes longer, and an overhead. Matrix units and
/// their types are for contractions; everything else computes at `flops`.
double opSeconds(const DeviceSpeed &device, const std::string &op, const OpCost &cost, DataType type);

} // namespace opc
