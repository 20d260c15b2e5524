// scatter_nd, scatter_nd_like, tensor_scatter_nd_update and tensor_scatter_nd_add: slices put where index tuples say.
// SPDX-License-Identifier: Apache-2.0
#include "index/IndexOnGpu.h"
#include "support/FunctionKernel.h"

namespace opc::ops {
namespace {

/// Where the shape of the output comes from: the attribute shape, input like (its values are not read) or input params
/// (whose values the output starts from).
enum class Into { kShape, kLike, kParams };

template <Into into> Maybe<void> infer(InferContext *ctx) {
  JUST(checkIndexType(ctx, "indices"));
  const TensorDesc updates = ctx->In("updates");
  const Shape indices = ctx->In("indices").shape();
  Shape out;
  if (into == Into::kShape) {
    out = ctx->Attr<Shape>("shape");
    for (int64_t d : out)
      if (d < 0) return Error("OPC0205") << "shape " << out.ToString() << " has the dimension " << d;
  } else {
    const char *base = into == Into::kLike ? "like" : "params";
    out = ctx->In(base).shape();
    if (ctx->In(base).data_type() != updates.data_type())
      return (Error::TypeError() << "updates is " << dataTypeName(updates.data_type()) << ", " << base << " is "
                                 << dataTypeName(ctx->In(base).data_type()))
          .help("cast updates");
  }
  const Shape want = JUST(tupleRowShape(indices, out));
  if (updates.shape() != want)
    return (Error::ShapeMismatch() << "updates is " << updates.shape().ToString() << "; indices " << indices.ToString()
                                   << " into " << out.ToString() << " ask for " << want.ToString())
        .help("updates has the axes of indices but the last, then the axes that are not indexed");
  return setOut(ctx, "out", TensorDesc(out, updates.data_type()));
}

template <class Update, class T, Into into> std::unique_ptr<BoundKernel> bindUpdates(KernelBindContext *ctx) {
  const Tensor &indices = ctx->In("indices");
  return withIndices(indices, [&](const auto *index) {
    const TupleRows rows(ctx, index, "out");
    if (isOnGpu(ctx)) {
      const ScatterForm form =
          std::is_same_v<Update, Add> ? ScatterForm{"scatter_add", true} : ScatterForm{"scatter_update", false};
      return bindScatterOnGpu(ctx, form, into == Into::kParams ? &ctx->In("params") : nullptr, ctx->In("updates"),
                              ctx->Out("out"), rowIndices(ctx, rows));
    }
    const Accumulated<T> out(ctx, "out", into == Into::kParams ? "params" : nullptr);
    return bindScatter<Update>(out, ctx->In("updates"), rows);
  });
}
std::unique_ptr<BoundKernel> bindReplacing(KernelBindContext *ctx) {
  return withElementSize(elementSize(ctx->In("params")),
                         [&](auto tag) { return bindUpdates<Replace, decltype(tag), Into::kParams>(ctx); });
}
template <class T> using SumKernel = FunctionKernel<bindUpdates<Add, T, Into::kShape>>;
template <class T> using AddKernel = FunctionKernel<bindUpdates<Add, T, Into::kParams>>;

/// The sums: split tuples add up to partial sums of a result that starts from zero; of an axis that tuples address each
/// device may have a piece. The values of like are not read.
template <Into kInto> Maybe<ShardingRule> sumSharding(const SbpContext &ctx) {
  const TupleFactors f(ctx.In("indices").shape(), ctx.Out("out").shape().NumAxes());
  return withSums(f.lead, kInto == Into::kLike
                              ? shardingRule({unread(f.tensor), f.indices, f.rows}, {f.tensor}, Linear({2}))
                              : shardingRule({f.indices, f.rows}, {f.tensor}, Linear({1})));
}
/// Of params and updates each part has some of every slice, or addends of both; of an axis that tuples address each
/// may have a piece. With `kSums` split tuples add up to addends of params.
template <bool kSums> Maybe<ShardingRule> sharding(const SbpContext &ctx) {
  const TupleFactors f(ctx.In("indices").shape(), ctx.In("params").shape().NumAxes(), kSums);
  if (!kSums) return shardingRule({f.tensor, f.rows, f.indices}, {f.tensor}, Linear({0, 1}));
  return withSums(f.lead, shardingRule({added(f.tensor), f.rows, f.indices}, {f.tensor}, Linear({1})));
}

/// The definition of tensor_scatter_nd_update and _add.
template <bool sums> void tensorScatter(OpRegistry &op) {
  op.With(TensorArgs{{"params", "updates", "indices"}, {"out"}}).With(rules(infer<Into::kParams>, sharding<sums>));
}
const std::vector<DataType> kMoved = {kFloat, kDouble, kFloat16, kUInt8, kInt64};

REGISTER_USER_OP("scatter_nd")
    .With(TensorArgs{{"indices", "updates"}, {"out"}})
    .RequiredAttr<Shape>("shape")
    .With(rules(infer<Into::kShape>, sumSharding<Into::kShape>))
    .Doc(kTuples +
         "out is zero but for the addressed slices, to which updates are added in order; equal tuples add up.")
    .Cases({Case("rows").In("indices", kInt64, {5, 1}, 0, 4).In("updates", {5, 3}).Attr("shape", Shape({4, 3})),
            Case("elements").In("indices", kInt32, {6, 2}, 0, 3).In("updates", {6}).Attr("shape", Shape({3, 4}))})
    .With(accumulating<SumKernel>("updates", "out"));

REGISTER_USER_OP("scatter_nd_like")
    .With(TensorArgs{{"like", "indices", "updates"}, {"out"}})
    .With(rules(infer<Into::kLike>, sumSharding<Into::kLike>))
    .Doc(kTuples + "As scatter_nd, in the shape of like, whose values are not read.")
    .Cases({Case("rows").In("like", {4, 3}).In("indices", kInt64, {5, 1}, 0, 4).In("updates", {5, 3})})
    .With(accumulating<SumKernel>("updates", "out"));

REGISTER_USER_OP("tensor_scatter_nd_update")
    .With(tensorScatter<false>)
    .Doc(kTuples + "out is params with the addressed slices replaced by updates; of equal tuples the last one stays.")
    .Cases({Case("rows").In("params", {4, 3}).In("updates", {2, 3}).In("indices", kInt64, {2, 1}, 0, 4).Types(kMoved)})
    .With(onCpuAndGpu<FunctionKernel<bindReplacing>>());

REGISTER_USER_OP("tensor_scatter_nd_add")
    .With(tensorScatter<true>)
    .Doc(kTuples + "out is params with updates added to the addressed slices in order; equal tuples add up.")
    .Cases({Case("rows").In("params", {4, 3}).In("updates", {5, 3}).In("indices", kInt64, {5, 1}, 0, 4)})
    .With(accumulating<AddKernel>("updates", "out"));

} // namespace
} // namespace opc::ops
