// What the matrix products (matmul, batch_matmul, broadcast_matmul and the vector products) have in common.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Op.h"

#include <string>

namespace opc::ops {

/// Which leading (batch) dimensions a matrix product takes.
enum class BatchRule {
  kNone,      // rank 2
  kEqual,     // equal leading dimensions, rank 3 or more
  kBroadcast, // numpy's broadcasting of leading dimensions
};

/// Shape rule: out[batch..., m, n] from a[batch..., m, k] and b[batch..., k, n], each matrix transposed when its
/// attribute says so. `_add_to_output`, if given, has out's type.
Maybe<void> inferMatrixProduct(user_op::InferContext *ctx, BatchRule rule);

/// The signatures of a bilinear product: rows of a, columns of b, the summed dimension, batch dimensions, and partial
/// sums on either side.
Maybe<void> matrixProductSbp(user_op::SbpContext *ctx);

/// "a is f32[2,3], b is f64[3,4]: one element type is needed".
Error dtypeMismatch(const std::string &argA, const user_op::TensorDesc &a, const std::string &argB,
                    const user_op::TensorDesc &b);

} // namespace opc::ops
