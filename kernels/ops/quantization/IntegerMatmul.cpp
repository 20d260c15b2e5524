// integer_matmul: exact products of matrices of 8-bit integers.
// SPDX-License-Identifier: Apache-2.0
#include "IntegerMatmul.h"

namespace opc::ops {

Maybe<MatrixSizes> matrixSizes(const TensorDesc &a, const TensorDesc &b, bool transB) {
  const int64_t ra = a.shape().NumAxes(), rb = b.shape().NumAxes();
  if (ra < 2 || rb < 2)
    return Error::ShapeMismatch().help("reshape a vector to a matrix")
           << "a and b must have rank 2 or more: a is " << a.toString() << ", b is " << b.toString();
  MatrixSizes s{{}, a.shape().At(ra - 2), a.shape().At(ra - 1), b.shape().At(transB ? rb - 2 : rb - 1)};
  const int64_t rows = b.shape().At(transB ? rb - 1 : rb - 2);
  if (rows != s.k)
    return Error::ShapeMismatch() << "inner dimensions differ (" << s.k << " vs " << rows << "): a is " << a.toString()
                                  << ", b is " << b.toString() << (transB ? " transposed" : "");
  const int64_t rank = std::max(ra, rb) - 2;
  for (int64_t i = 0; i < rank; ++i) {
    const int64_t ia = i - (rank - (ra - 2)), ib = i - (rank - (rb - 2));
    const int64_t x = ia < 0 ? 1 : a.shape().At(ia), y = ib < 0 ? 1 : b.shape().At(ib);
    if (x != y && x != 1 && y != 1)
      return Error::ShapeMismatch() << "batch dimensions do not broadcast (" << x << " vs " << y << "): a is "
                                    << a.toString() << ", b is " << b.toString();
    s.batch.push_back(x == 1 ? y : x);
  }
  return s;
}

Maybe<MatrixSizes> inferIntegerProduct(InferContext *ctx, DataType type) {
  const TensorDesc a = ctx->In("a"), b = ctx->In("b");
  const MatrixSizes s = JUST(matrixSizes(a, b, ctx->Attr<bool>("transpose_b")));
  JUST(checkBytes(ctx, "a"));
  JUST(checkBytes(ctx, "b"));
  JUST(checkZeroPoints(ctx, "a", s.m, "row"));
  JUST(checkZeroPoints(ctx, "b", s.n, "column"));
  JUST(checkIntegerBias(ctx, s.n, "column"));
  DimVector dims = s.batch;
  dims.insert(dims.end(), {s.m, s.n});
  ctx->Out("out") = TensorDesc(Shape(dims), type);
  return s;
}

namespace {

/// Which matrix of an operand each product of a broadcast batch takes.
std::vector<int64_t> matricesOf(const Shape &operand, const DimVector &batch) {
  const int64_t rank = static_cast<int64_t>(batch.size()), own = operand.NumAxes() - 2;
  std::vector<int64_t> matrices(1, 0);
  for (int64_t i = 0; i < rank; ++i) {
    const int64_t axis = i - (rank - own);
    const int64_t step = axis >= 0 && operand.At(axis) != 1 ? operand.Count(axis + 1, own) : 0;
    std::vector<int64_t> next;
    for (int64_t m : matrices)
      for (int64_t j = 0; j < batch[static_cast<size_t>(i)]; ++j) next.push_back(m + j * step);
    matrices = std::move(next);
  }
  return matrices;
}

} // namespace

std::unique_ptr<BoundKernel> bindIntegerProduct(KernelBindContext *ctx, const cpu::SumFinish &finish) {
  const MatrixSizes s = valueOf(matrixSizes(ctx->Desc("a"), ctx->Desc("b"), ctx->Attr<bool>("transpose_b")));
  const Shape &a = ctx->In("a").shape(), &b = ctx->In("b").shape();
  cpu::IntegerProduct p;
  p.m = s.m;
  p.n = s.n;
  p.k = s.k;
  p.transB = ctx->Attr<bool>("transpose_b");
  p.a = bytesOf(ctx, "a");
  p.b = bytesOf(ctx, "b");
  p.aZero = zeroPointsOf(ctx, "a");
  p.bZero = zeroPointsOf(ctx, "b");
  p.finish = finish;
  if (ctx->Has("bias")) p.bias = ctx->In("bias").dptr<int32_t>();
  p.constantB = ctx->isConstant("b", 0) && (p.bZero.count == 0 || ctx->isConstant("b_zero_point", 0));
  p.aMatrix = matricesOf(a, s.batch);
  p.bMatrix = matricesOf(b, s.batch);
  if (b.Count(0, b.NumAxes() - 2) == 1 && a.Count(0, a.NumAxes() - 2) == static_cast<int64_t>(p.aMatrix.size())) {
    p.m *= static_cast<int64_t>(p.aMatrix.size()); // one tall product; zero points of rows repeat
    p.aMatrix = p.bMatrix = {0};
  }
  cpu::IntegerGemm gemm(std::move(p), ctx->device_ctx()->threads());
  if (gemm.hasPackedB()) notePackedInput(ctx, "b");
  void *out = ctx->Out("out").mut_raw_dptr();
  return bindTask([out, gemm = std::move(gemm)](DeviceCtx *d) mutable { gemm.run(d, out); });
}

namespace {

Maybe<void> infer(InferContext *ctx) {
  JUST(inferIntegerProduct(ctx, kInt32));
  return Maybe<void>::Ok();
}

/// Rows, columns, the summed dimension, batches.
Maybe<ShardingRule> sharding(const SbpContext &ctx) {
  AxisFactors b{"...", "k", "n"};
  if (ctx.Attr<bool>("transpose_b")) std::swap(b[1], b[2]);
  const AxisFactors rows = numberFactors(ctx, "a_zero_point", "m"), columns = numberFactors(ctx, "b_zero_point", "n");
  return inOrder({"m", "n", "k"},
                 shardingRule({{"...", "m", "k"}, b, rows, columns, {"+", "n"}}, {{"...", "m", "n"}}, Sum("k")));
}

class IntegerMatmulKernel final : public BindingKernel {
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    return bindIntegerProduct(ctx, cpu::SumFinish());
  }
};

Case bytes(const char *name, Shape a, Shape b, DataType left = kUInt8, DataType right = kInt8) {
  return Case(name)
      .In("a", left, a, -128, 256 - (left == kInt8 ? 128 : 0))
      .In("b", right, b, -128, 256 - (right == kInt8 ? 128 : 0));
}

REGISTER_USER_OP("integer_matmul")
    .With(TensorArgs{{"a", "b"}, {"out"}})
    .OptionalInput("a_zero_point")
    .OptionalInput("b_zero_point")
    .OptionalInput("bias")
    .Attr<bool>("transpose_b", false)
    .With(rules(infer, sharding))
    .SetComputeComplexityFn([](InferContext *ctx) -> Maybe<double> {
      const Shape &a = ctx->In("a").shape();
      return 2.0 * static_cast<double>(ctx->Out("out").shape().elem_cnt()) * static_cast<double>(a.At(a.NumAxes() - 1));
    })
    .NoGrad("its tensors are integers")
    .Doc(
        "The exact product of matrices of 8-bit integers, in 32 bits: out[..., m, n] = bias[n] + sum over k of "
        "(a[..., m, k] - a_zero_point[m]) * (b[..., k, n] - b_zero_point[n]). a and b are u8 or i8 each; leading "
        "dimensions broadcast; transpose_b: b is [..., n, k]; a zero point is one number or a vector, of a's type or b's. Sums beyond 32 bits wrap "
        "around. The same bits on every processor.")
    .Cases({bytes("plain", {3, 5}, {5, 4}), bytes("long_sums", {2, 1031}, {1031, 3}),
            bytes("zero_points", {9, 33}, {33, 18})
                .In("a_zero_point", kUInt8, {}, 0, 256)
                .In("b_zero_point", kInt8, {}, -128, 128),
            bytes("rows_and_columns", {7, 16}, {16, 5}, kInt8, kUInt8)
                .In("a_zero_point", kInt8, {7}, -128, 128)
                .In("b_zero_point", kUInt8, {5}, 0, 256)
                .In("bias", kInt32, {5}, -1000, 1000),
            bytes("unsigned", {4, 8}, {8, 8}, kUInt8, kUInt8).In("b_zero_point", kUInt8, {1}, 0, 256),
            bytes("signed", {130, 20}, {20, 17}, kInt8, kInt8),
            bytes("shared_b", {2, 3, 4, 5}, {5, 6}).In("a_zero_point", kUInt8, {4}, 0, 256),
            bytes("stacks", {2, 1, 3, 4}, {3, 4, 6}, kInt8, kUInt8),
            bytes("transposed", {6, 40}, {9, 40})
                .In("a_zero_point", kUInt8, {}, 0, 256)
                .In("b_zero_point", kInt8, {9}, -128, 128)
                .Attr("transpose_b", true),
            bytes("no_terms", {2, 0}, {0, 3}).In("bias", kInt32, {3}, -9, 9)})
    .Kernel<IntegerMatmulKernel>();

} // namespace
} // namespace opc::ops
