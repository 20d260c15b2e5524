// Ops over rows that a GPU computes in regions: what code for them has to know.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Region.h"

#include <optional>
#include <vector>

namespace opc {

struct DeviceRowOp {
  enum class Kind {
    kSoftmax,            // in -> out
    kLogSoftmax,         // in -> prob
    kSoftmaxGradient,    // y, dy -> dx
    kLogSoftmaxGradient, // y, dy -> dx
    kNorm,               // x, gamma, beta -> y, mean, inverse
    kNormGradient,       // dy, x, mean, inverse, gamma, add -> dx
    kSparseLoss,         // prediction, label -> prob, out
    kSparseLossGradient, // label, dy, prob -> dx
    kDenseLoss,          // prediction, label -> prob, out
    kDenseLossGradient,  // label, dy, prob -> dx
    kSum,                // x -> y, and so the others
    kMean,
    kNanSum,
    kProduct,
    kLargest,
    kSmallest,
  };
  static constexpr int kNone = -1;
  Kind kind = Kind::kSoftmax;
  std::vector<int> inputs, outputs; // of the op, in the order above; kNone where it has none
  bool isCentered = false;          // of norms: their mean is taken off
  double epsilon = 0;
  int64_t period = 0; // of norms: elements of gamma and beta, which begin anew behind them within a row
};

/// What the op computes of its rows; empty where code for GPUs does not know it. The answer follows from the op alone,
/// in every program.
std::optional<DeviceRowOp> deviceRowOp(const OpInstance &op, const user_op::KernelDef &kernel);

/// The operand of a step whose numbers must be in a range, which the step's RowsLoop checks on the CPU; empty for most.
std::optional<size_t> checkedIndices(const RegionStep &step);

} // namespace opc
