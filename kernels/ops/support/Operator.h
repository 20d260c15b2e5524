// What the sources of built-in operators start from: the SDK's names, axes, and what most definitions have.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Op.h"
#include "opc/StagedKernel.h"
#include "support/Axes.h"

namespace opc::ops {

using namespace user_op;

/// The inputs and outputs of an op that are one tensor each: .With(TensorArgs{{"x", "weight"}, {"y"}}).
struct TensorArgs {
  std::vector<std::string> inputs, outputs;
  void operator()(OpRegistry &op) const {
    for (const std::string &arg : inputs) op.Input(arg);
    for (const std::string &arg : outputs) op.Output(arg);
  }
};

} // namespace opc::ops
