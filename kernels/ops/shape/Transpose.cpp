// transpose: permutes the axes.
// SPDX-License-Identifier: Apache-2.0
#include "shape/Moves.h"
#include "support/SbpRules.h"

namespace opc::ops {
namespace {

Maybe<std::vector<int64_t>> permOf(const OpContext &ctx, int64_t rank) {
  const auto perm = ctx.Attr<std::vector<int32_t>>("perm");
  if (static_cast<int64_t>(perm.size()) != rank)
    return (Error("OPC0205") << "perm has " << perm.size() << " entries, the input has rank " << rank)
        .help("perm[i] is the input axis that becomes output axis i; list every axis once");
  std::vector<int64_t> out;
  for (int32_t p : perm) out.push_back(JUST(resolveAxis(p, rank, "perm")));
  JUST(resolveAxes(perm, rank, "perm"));
  return out;
}

Maybe<void> infer(InferContext *ctx) {
  const TensorDesc in = ctx->In("input");
  DimVector dims;
  for (int64_t p : JUST(permOf(*ctx, in.shape().NumAxes()))) dims.push_back(in.shape().At(p));
  return setOut(ctx, "output", TensorDesc(Shape(dims), in.data_type()));
}

std::unique_ptr<BoundKernel> bindTranspose(KernelBindContext *ctx) {
  const Tensor &in = ctx->In("input");
  const DimVector strides = rowMajorStrides(in.shape());
  Place from;
  for (int64_t p : valueOf(permOf(*ctx, in.shape().NumAxes()))) from.strides.push_back(strides[static_cast<size_t>(p)]);
  return bindRead(in, from, ctx->Out("output"));
}

MoveMap transposeMap(const KernelContext &ctx) {
  const auto perm = valueOf(permOf(ctx, ctx.Desc("input").shape().NumAxes()));
  std::vector<AxisRead> reads(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) reads[static_cast<size_t>(perm[i])] = {static_cast<int64_t>(i), 0, 1};
  return readMap(ctx.Desc("output").shape(), std::move(reads));
}

Maybe<ShardingRule> sharding(const SbpContext &ctx) {
  const AxisFactors in = axisFactors(ctx.In("input").shape().NumAxes());
  AxisFactors out;
  for (int64_t p : JUST(permOf(ctx, ctx.In("input").shape().NumAxes()))) out.push_back(in[static_cast<size_t>(p)]);
  return inOrder(out, shardingRule({in}, {out}, Linear({0})));
}

Case sample(const char *name, Shape in, std::vector<int32_t> perm) {
  return Case(name).In("input", in, 0, 2).Attr("perm", perm).Types(kMoved);
}

REGISTER_USER_OP("transpose")
    .With(TensorArgs{{"input"}, {"output"}})
    .RequiredAttr<std::vector<int32_t>>("perm")
    .Attr<bool>("batch_axis_non_change", false)
    .With(rules(infer, sharding))
    .Doc("output[i_perm[0], i_perm[1], ...] = input[i_0, i_1, ...]: output axis k is input axis perm[k]. Negative "
         "entries count from the end. batch_axis_non_change is accepted from older graphs and has no effect.")
    .Cases({sample("matrix", {5, 7}, {1, 0}), sample("heads", {2, 3, 4, 5}, {0, 2, 1, 3}),
            sample("large", {67, 130}, {1, 0}), sample("channels_last", {2, 3, 5, 4}, {0, 2, 3, -3}),
            sample("pairs", {3, 2, 41}, {0, 2, 1}), sample("fours", {4, 33}, {1, 0}), sample("scalar", {}, {})})
    .With(moves<bindTranspose, transposeMap>);

} // namespace
} // namespace opc::ops
