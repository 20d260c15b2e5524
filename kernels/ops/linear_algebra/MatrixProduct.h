// What the matrix products (matmul, batch_matmul, broadcast_matmul and the vector products) have in common.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Gemm.h"
#include "opc/PackedInputs.h"
#include "support/Operator.h"
#include "support/SbpRules.h"

#include <algorithm>
#include <string>

namespace opc::ops {

/// What products compute in.
using ProductTypes = Join<types::Floating, types::Of<int32_t>>;

/// Which leading (batch) dimensions a matrix product takes.
enum class BatchRule {
  kAny,       // numpy's matmul: leading dimensions broadcast, a vector is a row of a or a column of b
  kEqual,     // equal leading dimensions, rank 3 or more
  kBroadcast, // numpy's broadcasting of leading dimensions
};

/// An operand as a stack of matrices: a vector is a matrix of one row (`isFirst`) or one column.
inline Shape matricesOf(const Shape &s, bool isFirst) {
  if (s.NumAxes() != 1) return s;
  return isFirst ? Shape{1, s.At(0)} : Shape{s.At(0), 1};
}
/// The product of two operands as a stack of matrices, from its own shape: a vector's row or column is not in that one.
inline Shape productMatrices(const Shape &a, const Shape &b, const Shape &out) {
  DimVector dims(out.begin(), out.end());
  if (b.NumAxes() == 1) dims.push_back(1);
  if (a.NumAxes() == 1) dims.insert(dims.end() - 1, 1);
  return Shape(dims);
}
/// How far apart the matrices of an operand are along each axis of the result's batch.
inline void batchSteps(const Shape &operand, const Shape &out, int64_t *steps) {
  const int64_t rank = out.NumAxes() - 2, own = operand.NumAxes() - 2;
  const int64_t matrix = operand.At(own) * operand.At(own + 1);
  for (int64_t i = 0; i < rank; ++i) {
    const int64_t axis = i - (rank - own);
    steps[i] = axis >= 0 && operand.At(axis) != 1 ? operand.Count(axis + 1, own) * matrix : 0;
  }
}
/// Whether an attribute transposes an operand: a vector has nothing to transpose.
inline bool isTransposed(const Shape &s, bool attribute) { return attribute && s.NumAxes() > 1; }

/// Shape rule: out[batch..., m, n] from a[batch..., m, k] and b[batch..., k, n], each matrix transposed when its
/// attribute says so. `_add_to_output`, if given, has out's type.
Maybe<void> inferMatrixProduct(InferContext *ctx, BatchRule rule);

/// The rule of a bilinear product: rows of a, columns of b, the summed dimension, batch dimensions, and partial
/// sums on either side.
Maybe<ShardingRule> matrixProductSharding(const SbpContext &ctx);

/// "a is f32[2,3], b is f64[3,4]: one element type is needed".
Error dtypeMismatch(const std::string &argA, const TensorDesc &a, const std::string &argB, const TensorDesc &b);

/// Twice the elements of `arg` times `terms`: the operations of a product.
inline Maybe<double> operations(InferContext *ctx, const char *arg, int64_t terms) {
  return 2.0 * static_cast<double>(ctx->In(arg).shape().elem_cnt()) * static_cast<double>(terms);
}

/// Whether a b that does not change is packed at bind time.
enum class ConstantB { kPacked, kAsItLies };

/// Which numbers a packed b is made of: those at its address, which stay.
inline std::string packKeyOf(const void *b) { return "b" + std::to_string(reinterpret_cast<uintptr_t>(b)); }

/// The task that computes out, the product of a and b, plus _add_to_output when it is given.
template <class T>
std::unique_ptr<BoundKernel> bindProduct(KernelBindContext *ctx, StagedTensors<T> &staged, cpu::GemmShape shape,
                                         cpu::GemmBatch batch = {}, ConstantB constantB = ConstantB::kPacked) {
  const T *a = staged.in("a"), *b = staged.in("b"), *add = staged.in("_add_to_output");
  T *out = staged.out("out");
  shape.accumulate = add != nullptr;
  const bool packs = constantB == ConstantB::kPacked && ctx->isConstant("b", 0);
  // A conversion of b is this kernel's own.
  const bool isTensor = packs && b == ctx->In("b").raw_dptr();
  cpu::Gemm<T> gemm(shape, std::move(batch), packs ? b : nullptr, isTensor ? packKeyOf(b) : "",
                    ctx->device_ctx()->threads());
  if (gemm.hasPackedB()) notePackedInput(ctx, "b");
  const int64_t count = ctx->Out("out").shape().elem_cnt();
  return bindTask([=, gemm = std::move(gemm)](DeviceCtx *d) {
    if (add && add != out) std::copy_n(add, count, out);
    gemm.run(d, a, b, out);
  });
}

} // namespace opc::ops
