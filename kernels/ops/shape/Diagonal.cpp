// diag and diagonal: diagonals taken, and made.
// SPDX-License-Identifier: Apache-2.0
#include "shape/Diagonals.h"

namespace opc::ops {
namespace {

Maybe<void> inferDiag(InferContext *ctx) {
  const Shape in = ctx->In("in").shape();
  const int64_t k = ctx->Attr<int32_t>("diagonal");
  Shape out;
  if (in.NumAxes() == 1)
    out = Shape({in.At(0) + std::abs(k), in.At(0) + std::abs(k)});
  else if (in.NumAxes() == 2)
    out = diagonalShape(in, k);
  else
    return (Error::ShapeMismatch() << "the input " << in.ToString() << " has rank " << in.NumAxes())
        .help("diag makes a matrix of a vector, or takes the diagonal of a matrix; diagonal serves higher ranks");
  return setOut(ctx, "out", TensorDesc(out, ctx->In("in").data_type()));
}
Maybe<void> inferDiagonal(InferContext *ctx) {
  const Shape in = ctx->In("in").shape();
  if (in.NumAxes() < 2) return Error::ShapeMismatch() << "the input " << in.ToString() << " has fewer than two axes";
  return setOut(ctx, "out", TensorDesc(diagonalShape(in, ctx->Attr<int32_t>("offset")), ctx->In("in").data_type()));
}

std::unique_ptr<BoundKernel> bindDiag(KernelBindContext *ctx) {
  const int64_t k = ctx->Attr<int32_t>("diagonal");
  if (ctx->In("in").shape().NumAxes() == 1) return bindPutDiagonal(ctx, "in", "out", k);
  return bindTakeDiagonal(ctx, "in", "out", k);
}
std::unique_ptr<BoundKernel> bindDiagonal(KernelBindContext *ctx) {
  return bindTakeDiagonal(ctx, "in", "out", ctx->Attr<int32_t>("offset"));
}

Maybe<ShardingRule> diagSharding(const SbpContext &ctx) {
  const AxisFactors in = axisFactors(ctx.In("in").shape().NumAxes());
  return withSums(in, shardingRule({in}, {axisFactors(ctx.Out("out").shape().NumAxes(), {}, "o")}, Linear({0})));
}
Maybe<ShardingRule> diagonalSharding(const SbpContext &ctx) {
  const int64_t rank = ctx.In("in").shape().NumAxes();
  return shardingRule({axisFactors(rank)}, {diagonalFactors(rank)}, Sum("a0"), Sum("a1"), Linear({0}));
}

REGISTER_USER_OP("diag")
    .With(TensorArgs{{"in"}, {"out"}})
    .Attr<int32_t>("diagonal", 0)
    .With(rules(inferDiag, diagSharding))
    .Doc("Of a vector: the square matrix with it on the given diagonal (0 the main one, positive above) and zeros "
         "elsewhere. Of a matrix: its given diagonal.")
    .Cases({Case("make").In("in", {4}, 0, 2).Attr<int32_t>("diagonal", -1).Types(kMoved),
            Case("take").In("in", {3, 5}, 0, 2).Attr<int32_t>("diagonal", 1).Types(kMoved)})
    .With(onCpuAndGpu<FunctionKernel<bindDiag>>());

REGISTER_USER_OP("diagonal")
    .With(TensorArgs{{"in"}, {"out"}})
    .Attr<int32_t>("offset", 0)
    .With(rules(inferDiagonal, diagonalSharding))
    .Doc("The given diagonal (0 the main one, positive above) of the matrices formed by the first two axes; it "
         "becomes the last axis.")
    .Cases({Case("matrix").In("in", {3, 5}, 0, 2).Attr<int32_t>("offset", 1).Types(kMoved),
            Case("stack").In("in", {4, 3, 2}, 0, 2).Attr<int32_t>("offset", -1).Types(kMoved)})
    .With(onCpuAndGpu<FunctionKernel<bindDiagonal>>());

} // namespace
} // namespace opc::ops
