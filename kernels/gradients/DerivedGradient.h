// Gradient operators of elementwise ops, made from their scalar functions by symbolic differentiation.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Op.h"

#include <memory>
#include <string>
#include <vector>

namespace opc {

struct DerivedGradient {
  user_op::OpDef def;
  /// The forward inputs, by position, that the op's inputs before "dy" stand for.
  std::vector<int32_t> reads;
};

/// Makes the op that multiplies d op / d input by the output's gradient: inputs are those of `op` on which that
/// derivative depends, then "dy"; the output is "dx", in dy's shape (not yet summed over broadcast dimensions); the
/// attributes are those of `op`. Its name is derivedGradientName(). It is elementwise itself, so it can be
/// differentiated again. Kernels: f32, f64, f16, bf16 on CPU, which interpret the expression in blocks.
/// Null when the derivative is zero everywhere. An error when a function in the expression has no derivative (OPC0501).
Result<std::unique_ptr<DerivedGradient>> deriveGradientOp(const user_op::OpDef &op, int32_t input);

/// "tanh_grad" for an op of one input, "broadcast_pow_x_grad" for one of several.
std::string derivedGradientName(const user_op::OpDef &op, int32_t input);

} // namespace opc
