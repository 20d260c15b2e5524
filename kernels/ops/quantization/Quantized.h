// What the ops of quantised integers share: which types, scales and zero points of one axis, and their checks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/Operator.h"
#include "support/SbpRules.h"

namespace opc::ops {

/// What real numbers are quantised to.
using QuantizedTypes = types::Of<uint8_t, int8_t, uint16_t, int16_t, int32_t>;

/// What quantised tensors have: an axis whose scales and zero points they are.
void quantizationArgs(OpRegistry &op);

/// Whether `type` is one of them; an error that names `arg` when it is not.
Maybe<void> checkQuantizedType(const std::string &arg, const TensorDesc &desc);
/// `arg` is one number, or a vector with one for each element of `axis` of `shape`.
Maybe<void> checkAlongAxis(InferContext *ctx, const std::string &arg, const Shape &shape);

/// How an array falls into runs that have one scale each.
struct ScaleRuns {
  int64_t runs = 1, length = 1, scales = 1; // run r has scale r % scales
  ScaleRuns(const Shape &shape, const Shape &scale, int32_t axis);
  /// Calls f(first element, elements, scale) on several threads.
  template <class F> void forEach(DeviceCtx *ctx, F f) const {
    constexpr int64_t kPiece = 16384;
    if (scales == 1)
      return ctx->parallelFor(runs * length, kPiece, [&](int64_t begin, int64_t end) { f(begin, end - begin, 0); });
    ctx->parallelFor(runs, std::max<int64_t>(1, kPiece / std::max<int64_t>(length, 1)),
                     [&](int64_t begin, int64_t end) {
                       for (int64_t r = begin; r < end; ++r) f(r * length, length, r % scales);
                     });
  }
};

/// Every axis may be split; scales of an axis with it.
Maybe<ShardingRule> quantizationSharding(const SbpContext &ctx);

/// A zero point of any of the types.
int32_t zeroPointAt(const Tensor *zero, int64_t i);

} // namespace opc::ops
