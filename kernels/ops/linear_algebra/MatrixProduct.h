// What the matrix products (matmul, batch_matmul, broadcast_matmul and the vector products) have in common.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Gemm.h"
#include "opc/PackedInputs.h"
#include "support/Operator.h"

#include <algorithm>

namespace opc::ops {

/// What products compute in.
using ProductTypes = Join<types::Floating, types::Of<int32_t>>;

/// Which leading (batch) dimensions a matrix product takes.
enum class BatchRule {
  kNone,      // rank 2
  kEqual,     // equal leading dimensions, rank 3 or more
  kBroadcast, // numpy's broadcasting of leading dimensions
};

/// Shape rule: out[batch..., m, n] from a[batch..., m, k] and b[batch..., k, n], each matrix transposed when its
/// attribute says so. `_add_to_output`, if given, has out's type.
Maybe<void> inferMatrixProduct(InferContext *ctx, BatchRule rule);

/// The signatures of a bilinear product: rows of a, columns of b, the summed dimension, batch dimensions, and partial
/// sums on either side.
Maybe<void> matrixProductSignatures(SbpContext *ctx);

/// "a is f32[2,3], b is f64[3,4]: one element type is needed".
Error dtypeMismatch(const std::string &argA, const TensorDesc &a, const std::string &argB, const TensorDesc &b);

/// Twice the elements of `arg` times `terms`: the operations of a product.
inline Maybe<double> operations(InferContext *ctx, const char *arg, int64_t terms) {
  return 2.0 * static_cast<double>(ctx->In(arg).shape().elem_cnt()) * static_cast<double>(terms);
}

/// Whether a b that does not change is packed at bind time.
enum class ConstantB { kPacked, kAsItLies };

/// The task that computes out, the product of a and b, plus _add_to_output when it is given.
template <class T>
std::unique_ptr<BoundKernel> bindProduct(KernelBindContext *ctx, StagedTensors<T> &staged, cpu::GemmShape shape,
                                         cpu::GemmBatch batch = {}, ConstantB constantB = ConstantB::kPacked) {
  const T *a = staged.in("a"), *b = staged.in("b"), *add = staged.in("_add_to_output");
  T *out = staged.out("out");
  shape.accumulate = add != nullptr;
  const bool packs = constantB == ConstantB::kPacked && ctx->isConstant("b", 0);
  cpu::Gemm<T> gemm(shape, std::move(batch), packs ? b : nullptr);
  if (gemm.hasPackedB()) notePackedInput(ctx, "b");
  const int64_t count = ctx->Out("out").shape().elem_cnt();
  return bindTask([=, gemm = std::move(gemm)](DeviceCtx *d) {
    if (add && add != out) std::copy_n(add, count, out);
    gemm.run(d, a, b, out);
  });
}

} // namespace opc::ops
