// Seconds of an op.
// SPDX-License-Identifier: Apache-2.0
#include "DeviceSpeed.h"

#include <algorithm>

namespace opc {

DataType computeType(const OpInstance &op) {
  for (const auto *list : {&op.inputDescs(), &op.outputDescs()})
    for (const user_op::TensorDesc &t : *list)
      if (IsFloatingDataType(t.data_type())) return t.data_type();
  return kFloat;
}

double opSeconds(const DeviceSpeed &device, const std::string &op, const OpCost &cost, DataType type) {
  double rate = device.flops;
  if (cost.contraction) {
    if (const auto typed = device.byType.find(type); typed != device.byType.end()) rate = typed->second;
    const auto size = static_cast<double>(std::max<size_t>(1, GetSizeOfDataType(type)));
    const double width = cost.bytes > 0 ? cost.flops * size / cost.bytes : 1e9; // operations for each element moved
    rate *= std::max(1e-9, device.efficiency.peak * width / (width + device.efficiency.halfWidth));
  }
  const double model = std::max(cost.flops / rate, cost.bytes / device.memoryBandwidth);
  const auto measured = device.ops.find(op);
  return measured == device.ops.end() ? device.taskSeconds + model
                                      : measured->second.overhead + measured->second.factor * model;
}

} // namespace opc
