// Signatures of ops that read the shape of their input alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/Operator.h"

namespace opc::ops {

/// Of an op of one input whose values are not read, with the shape of its output: they are split alike, and a partial
/// sum gives its shape as well as anything.
inline Maybe<void> shapeSignatures(SbpContext *ctx) {
  JUST(GetSbpFnUtil::SplitForEachAxis(ctx));
  ctx->NewBuilder().PartialSum(ctx->inputs()).Broadcast(ctx->outputs()).Build();
  return Maybe<void>::Ok();
}

} // namespace opc::ops
