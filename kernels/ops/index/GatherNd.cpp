// gather_nd: slices of a tensor addressed by index tuples.
// SPDX-License-Identifier: Apache-2.0
#include "index/IndexOnGpu.h"
#include "support/FunctionKernel.h"

namespace opc::ops {
namespace {

std::unique_ptr<BoundKernel> bindGatherNd(KernelBindContext *ctx) {
  const Tensor &params = ctx->In("params"), &indices = ctx->In("indices");
  return withIndices(indices, [&](const auto *index) {
    const TupleRows rows(ctx, index, "params");
    if (isOnGpu(ctx)) return bindGatherOnGpu(ctx, params, ctx->Out("out"), rowIndices(ctx, rows));
    return bindGather(params, ctx->Out("out"), rows);
  });
}

Maybe<ShardingRule> sharding(const SbpContext &ctx) {
  const TupleFactors f(ctx.In("indices").shape(), ctx.In("params").shape().NumAxes());
  return inOrder(f.rows, withSums(f.indexed, shardingRule({f.tensor, f.indices}, {f.rows}, Linear({0}))));
}

const std::vector<DataType> kMoved = {kFloat, kDouble, kFloat16, kUInt8, kInt64};

REGISTER_USER_OP("gather_nd")
    .With(TensorArgs{{"params", "indices"}, {"out"}})
    .With(rules([](InferContext *ctx) { return inferTupleRows(ctx, "params", "out"); }, sharding))
    .Doc(kTuples + "out holds the slices of params that they address.")
    .Cases({Case("rows").In("params", {4, 3}).In("indices", kInt64, {5, 1}, 0, 4).Types(kMoved),
            Case("elements").In("params", {4, 3}).In("indices", kInt32, {2, 3, 2}, 0, 3).Types(kMoved)})
    .With(onCpuAndGpu<FunctionKernel<bindGatherNd>>());

} // namespace
} // namespace opc::ops
