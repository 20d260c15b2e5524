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
  ctx->Out("out") = TensorDesc(out, updates.data_type());
  return Maybe<void>::Ok();
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
/// device may have a piece. Listed, because a rule would give another order, and like, whose values are not read, may
/// be a partial sum.
template <Into into> Maybe<void> listSums(SbpContext *ctx) {
  using namespace sbp;
  const auto add = [&](SbpParallel indices, SbpParallel updates, SbpParallel like, SbpParallel out) {
    if (into == Into::kLike)
      addSignature(ctx, {like, indices, updates, out});
    else
      addSignature(ctx, {indices, updates, out});
  };
  const TupleAxes axes(ctx->In("indices").shape(), ctx->Out("out").shape().NumAxes());
  add(B, P, B, P);
  for (int64_t a = 0; a < axes.lead; ++a) add(S(a), S(a), B, P);
  for (const auto &[a, row] : axes.rows) add(B, S(row), S(a), S(a));
  for (int64_t a = 0; a < axes.indexed; ++a) add(B, B, S(a), S(a));
  if (into != Into::kLike) return Maybe<void>::Ok();
  add(B, P, P, P);
  for (int64_t a = 0; a < axes.lead; ++a) add(S(a), S(a), P, P);
  add(B, B, P, B);
  return Maybe<void>::Ok();
}
/// Of params and updates each part has some of every slice, or addends of both; of an axis that tuples address each
/// may have a piece. With `sums` split tuples add up to addends of params. Listed, because a rule would give another
/// order.
template <bool sums> Maybe<void> listScatter(SbpContext *ctx) {
  using namespace sbp;
  const TupleAxes axes(ctx->In("indices").shape(), ctx->In("params").shape().NumAxes());
  for (const auto &[a, row] : axes.rows) addSignature(ctx, {S(a), S(row), B, S(a)});
  addSignature(ctx, {P, P, B, P});
  for (int64_t a = 0; a < axes.lead && sums; ++a) addSignature(ctx, {P, S(a), S(a), P});
  for (int64_t a = 0; a < axes.indexed; ++a) addSignature(ctx, {S(a), B, B, S(a)});
  return Maybe<void>::Ok();
}

/// The definition of tensor_scatter_nd_update and _add.
template <bool sums> void tensorScatter(OpRegistry &op) {
  op.Input("params")
      .Input("updates")
      .Input("indices")
      .Output("out")
      .SetTensorDescInferFn(infer<Into::kParams>)
      .SetGetSbpFn(listScatter<sums>);
}
const std::vector<DataType> kMoved = {kFloat, kDouble, kFloat16, kUInt8, kInt64};

REGISTER_USER_OP("scatter_nd")
    .Input("indices")
    .Input("updates")
    .Output("out")
    .RequiredAttr<Shape>("shape")
    .SetTensorDescInferFn(infer<Into::kShape>)
    .SetGetSbpFn(listSums<Into::kShape>)
    .Doc(kTuples +
         "out is zero but for the addressed slices, to which updates are added in order; equal tuples add up.")
    .Cases({Case("rows").In("indices", kInt64, {5, 1}, 0, 4).In("updates", {5, 3}).Attr("shape", Shape({4, 3})),
            Case("elements").In("indices", kInt32, {6, 2}, 0, 3).In("updates", {6}).Attr("shape", Shape({3, 4}))})
    .Kernel<SumKernel, types::Numbers>("updates", accumulates("out"))
    .Kernel<SumKernel, types::Numbers>("updates", onGpu());

REGISTER_USER_OP("scatter_nd_like")
    .Input("like")
    .Input("indices")
    .Input("updates")
    .Output("out")
    .SetTensorDescInferFn(infer<Into::kLike>)
    .SetGetSbpFn(listSums<Into::kLike>)
    .Doc(kTuples + "As scatter_nd, in the shape of like, whose values are not read.")
    .Cases({Case("rows").In("like", {4, 3}).In("indices", kInt64, {5, 1}, 0, 4).In("updates", {5, 3})})
    .Kernel<SumKernel, types::Numbers>("updates", accumulates("out"))
    .Kernel<SumKernel, types::Numbers>("updates", onGpu());

REGISTER_USER_OP("tensor_scatter_nd_update")
    .With(tensorScatter<false>)
    .Doc(kTuples + "out is params with the addressed slices replaced by updates; of equal tuples the last one stays.")
    .Cases({Case("rows").In("params", {4, 3}).In("updates", {2, 3}).In("indices", kInt64, {2, 1}, 0, 4).Types(kMoved)})
    .Kernel<FunctionKernel<bindReplacing>>()
    .Kernel<FunctionKernel<bindReplacing>>(onGpu());

REGISTER_USER_OP("tensor_scatter_nd_add")
    .With(tensorScatter<true>)
    .Doc(kTuples + "out is params with updates added to the addressed slices in order; equal tuples add up.")
    .Cases({Case("rows").In("params", {4, 3}).In("updates", {5, 3}).In("indices", kInt64, {5, 1}, 0, 4)})
    .Kernel<AddKernel, types::Numbers>("updates", accumulates("out"))
    .Kernel<AddKernel, types::Numbers>("updates", onGpu());

} // namespace
} // namespace opc::ops
