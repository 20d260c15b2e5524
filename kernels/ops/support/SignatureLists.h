// Signatures that an op lists, and the rule of ops whose tensors have the same axes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/SbpRules.h"

namespace opc::ops {

/// The states of a listed signature: S(0), B, P.
namespace sbp {
inline SbpParallel S(int64_t axis) { return SbpParallel::split(axis); }
inline const SbpParallel B = SbpParallel::broadcast(), P = SbpParallel::partialSum();
} // namespace sbp

/// The signature with these states: of the inputs, then of the outputs, each in the order of the definition.
inline void addSignature(user_op::SbpContext *ctx, const std::vector<SbpParallel> &states) {
  auto builder = ctx->NewBuilder();
  size_t next = 0;
  for (const user_op::ArgList *list : {&ctx->inputs(), &ctx->outputs()})
    for (const auto &[arg, index] : *list) {
      const SbpParallel &state = states.at(next++);
      const user_op::OpArg tensor(arg, index);
      if (state.has_split_parallel())
        builder.Split(tensor, state.axis());
      else if (state.has_partial_sum_parallel())
        builder.PartialSum(tensor);
      else
        builder.Broadcast(tensor);
    }
  builder.Build();
}

} // namespace opc::ops
