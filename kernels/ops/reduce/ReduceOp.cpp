// Definitions, rules, plans and samples of the reduce_* operators.
// SPDX-License-Identifier: Apache-2.0
#include "reduce/ReduceOp.h"
#include "support/SbpRules.h"

namespace opc::ops::reduce {

const char *const kAxisDoc =
    "`axis` lists the axes to reduce, negative ones counting from the end; an empty list reduces nothing, as in "
    "OneFlow. keepdims leaves the reduced axes in place with size 1. ";

Shape reducedShape(const Shape &in, const std::vector<int64_t> &axes, bool keepdims) {
  DimVector dims;
  for (int64_t a = 0; a < in.NumAxes(); ++a) {
    const bool isReduced = std::binary_search(axes.begin(), axes.end(), a);
    if (!isReduced)
      dims.push_back(in.At(a));
    else if (keepdims)
      dims.push_back(1);
  }
  return Shape(dims);
}

namespace {
Maybe<std::vector<int64_t>> axesOf(const OpContext &ctx, const Shape &in) {
  return resolveAxes(ctx.Attr<std::vector<int32_t>>("axis"), in.NumAxes());
}
Maybe<void> infer(InferContext *ctx, DataType type) {
  const Shape &in = ctx->In("input_tensor").shape();
  const auto axes = JUST(axesOf(*ctx, in));
  return setOut(ctx, "output_tensor", TensorDesc(reducedShape(in, axes, ctx->Attr<bool>("keepdims")), type));
}
size_t tmpSize(InferContext *ctx) {
  return static_cast<size_t>(planOf(ctx, ctx->In("input_tensor").shape()).partials()) * 8;
}
} // namespace

Maybe<void> inferReduce(InferContext *ctx) { return infer(ctx, ctx->In("input_tensor").data_type()); }
Maybe<void> inferReduceToBool(InferContext *ctx) { return infer(ctx, kBool); }

ShardingRule reduceSharding(const Shape &in, const std::vector<int64_t> &axes, bool keepdims, Pieces pieces) {
  const AxisFactors from = axisFactors(in.NumAxes());
  AxisFactors to;
  std::vector<FactorReduction> sums;
  for (size_t a = 0; a < from.size(); ++a) {
    const bool isReduced = std::binary_search(axes.begin(), axes.end(), static_cast<int64_t>(a));
    if (!isReduced)
      to.push_back(from[a]);
    else if (keepdims)
      to.push_back(".");
    if (isReduced && pieces != Pieces::kNothing) sums.push_back(Sum(from[a]));
  }
  ShardingRule rule = shardingRule({from}, {to});
  rule.reductions = sums;
  if (pieces == Pieces::kLinear) rule.add(Linear({0}));
  return rule;
}

std::function<void(OpRegistry &)> reduceDefinition(TensorDescInferFn infer, Pieces pieces) {
  return [=](OpRegistry &op) {
    op.With(TensorArgs{{"input_tensor"}, {"output_tensor"}})
        .RequiredAttr<std::vector<int32_t>>("axis")
        .Attr<bool>("keepdims", false)
        .SetTensorDescInferFn(infer)
        .Sharding([pieces](const SbpContext &ctx) -> Maybe<ShardingRule> {
          const Shape &in = ctx.In("input_tensor").shape();
          return reduceSharding(in, JUST(axesOf(ctx, in)), ctx.Attr<bool>("keepdims"), pieces);
        });
  };
}
KernelOptions reduceKernel() { return KernelOptions().TmpSize(tmpSize); }

ReducePlan planOf(const OpContext *ctx, const Shape &in) { return ReducePlan::make(in, valueOf(axesOf(*ctx, in))); }

std::vector<Case> reduceCases(double lo, double hi) {
  using Axes = std::vector<int32_t>;
  auto make = [&](const char *name, Shape in, Axes axes, bool keepdims) {
    return Case(name).In("input_tensor", in, lo, hi).Attr("axis", axes).Attr("keepdims", keepdims);
  };
  return {make("rows", {5, 37}, {1}, false), make("columns", {19, 6}, {0}, true),
          make("outer", {3, 4, 5}, {0, -1}, false), make("all", {2, 3, 4}, {0, 1, 2}, false),
          make("none", {2, 3}, {}, false)};
}

} // namespace opc::ops::reduce
