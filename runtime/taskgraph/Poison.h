// OPC_POISON=1: memory that holds nothing is filled, so that whoever reads it computes NaN and -1 and is found out.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Arenas.h"
#include "PlanModel.h"

#include <vector>

namespace opc::runtime {

/// Which bytes hold nothing once a task has run. Registers that one stream uses are known by its order; what several
/// streams use lies in memory of its own, and is filled before the first step alone.
class Poison {
public:
  /// Every byte of a floating-point NaN, of an integer -1.
  static constexpr int kByte = 0xff;

  /// Whether the environment asks for it. OPC0001 for another value than 0 and 1.
  static Result<bool> isAsked();
  explicit Poison(const PlanModel &model);

  /// Fills the activations and workspaces of a new session. `streams`: of each arena's device.
  Status fillAll(const PlanModel &model, const Arenas &arenas, const std::vector<Stream *> &streams);
  /// Fills what ends with `task`, in the slots of `step`.
  Status fillAfter(uint32_t task, const PlanModel &model, const Arenas &arenas, Stream &stream, int64_t step);

private:
  static Status fill(const ModelRegister &r, uint64_t slot, const Arenas &arenas, Stream &stream);

  std::vector<std::vector<uint32_t>> ends_; // by task: registers
};

} // namespace opc::runtime
