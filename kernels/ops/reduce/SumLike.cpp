// reduce_sum_like: the gradient of a broadcast.
// SPDX-License-Identifier: Apache-2.0
#include "reduce/ReduceOp.h"
#include "support/SbpRules.h"
#include "support/StridedCopy.h"

namespace opc::ops::reduce {
namespace {

Maybe<std::vector<int64_t>> axesOf(const OpContext *ctx, const Shape &x) {
  return resolveAxes(ctx->Attr<std::vector<int32_t>>("axis"), x.NumAxes());
}

Maybe<void> infer(InferContext *ctx) {
  const TensorDesc x = ctx->In("x");
  const Shape like = ctx->In("like").shape();
  const Shape sums = reducedShape(x.shape(), JUST(axesOf(ctx, x.shape())), true);
  if (sums.elem_cnt() != like.elem_cnt())
    return (Error::ShapeMismatch() << "the sums of x " << x.shape().ToString() << " are " << sums.elem_cnt()
                                   << ", like " << like.ToString() << " has " << like.elem_cnt() << " elements")
        .help("list the axes along which like was broadcast to x");
  return setOut(ctx, "y", TensorDesc(like, x.data_type()));
}

template <class T> class SumLikeKernel final : public BindingKernel, public RowsKernel {
public:
  Status MakeRows(const KernelContext &ctx, std::unique_ptr<RowsLoop> *loop) const override {
    using R = SumReducer<T>;
    const Shape &x = ctx.Desc("x").shape();
    const auto axes = valueOf(axesOf(&ctx, x));
    const ReducePlan plan = ReducePlan::make(x, axes);
    if (axes.empty() || !isColumnByColumn(plan)) return Status::ok();
    const size_t at = ctx.inputs()[0].first == "x" ? 0 : 1;
    *loop = columnsOf<T, T, R>(plan, 2, at, [](typename R::Acc acc) { return finish<T>(acc); });
    return Status::ok();
  }
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    using R = SumReducer<T>;
    const Tensor &x = ctx->In("x");
    const auto axes = valueOf(axesOf(ctx, x.shape()));
    const T *from = x.dptr<T>();
    T *to = ctx->Out("y").mut_dptr<T>();
    if (axes.empty()) {
      const int64_t bytes = x.shape().elem_cnt() * static_cast<int64_t>(sizeof(T));
      return bindTask([=](DeviceCtx *dev) { copyBytes(dev, from, to, bytes); });
    }
    const ReducePlan plan = ReducePlan::make(x.shape(), axes);
    auto *partials = ctx->Tmp<typename R::Acc>();
    return bindTask([=](DeviceCtx *dev) {
      runReduce(dev, plan, R{}, from, nullptr, partials,
                [&](int64_t o, typename R::Acc acc) { to[o] = finish<T>(acc); });
    });
  }
};

/// For each axis of x the axis of like, -1 where it is summed or has none of its own. Beside axes of one element, which
/// like may have anywhere or not at all, both have the same ones in order, up to where like joins or cuts some.
std::vector<int64_t> axesInLike(const Shape &x, const Shape &like, const std::vector<int64_t> &summed) {
  std::vector<int64_t> found(static_cast<size_t>(x.NumAxes()), -1);
  int64_t at = 0;
  for (int64_t a = 0; a < x.NumAxes(); ++a) {
    if (x.At(a) == 1 || std::binary_search(summed.begin(), summed.end(), a)) continue;
    while (at < like.NumAxes() && like.At(at) == 1) ++at;
    if (at == like.NumAxes() || like.At(at) != x.At(a)) break;
    found[static_cast<size_t>(a)] = at++;
  }
  return found;
}

/// The values of like are not read.
Maybe<ShardingRule> sharding(const SbpContext &ctx) {
  const Shape &shape = ctx.In("x").shape(), &like = ctx.In("like").shape();
  const auto axes = JUST(axesOf(&ctx, shape));
  const std::vector<int64_t> inLike = axesInLike(shape, like, axes);
  AxisFactors x = axisFactors(shape.NumAxes()), y(like.dim_vec().size(), "."), sums;
  for (size_t a = 0; a < x.size(); ++a)
    if (std::binary_search(axes.begin(), axes.end(), static_cast<int64_t>(a)))
      sums.push_back(x[a]);
    else if (inLike[a] >= 0)
      y[static_cast<size_t>(inLike[a])] = x[a];
    else
      x[a] = ".";
  return withSums(sums, shardingRule({x, unread(y)}, {y}, Linear({0})));
}

size_t tmpSize(InferContext *ctx) {
  const Shape &x = ctx->In("x").shape();
  return static_cast<size_t>(ReducePlan::make(x, valueOf(axesOf(ctx, x))).partials()) * 8;
}

REGISTER_USER_OP("reduce_sum_like")
    .With(TensorArgs{{"x", "like"}, {"y"}})
    .RequiredAttr<std::vector<int32_t>>("axis")
    .With(rules(infer, sharding))
    .Doc("The sum of x over the given axes in the shape of like, whose values are not read: the gradient of a "
         "broadcast. An empty list of axes copies x.")
    .Cases({Case("rows").In("x", {3, 4}).In("like", {4}).Attr("axis", std::vector<int32_t>{0}),
            Case("kept").In("x", {2, 3, 4}).In("like", {1, 3, 1}).Attr("axis", std::vector<int32_t>{0, 2}),
            Case("leading_one").In("x", {2, 3, 4, 4}).In("like", {1, 4, 4}).Attr("axis", std::vector<int32_t>{0, 1}),
            Case("ones_within").In("x", {6, 1, 4, 6}).In("like", {4, 1, 6, 1}).Attr("axis", std::vector<int32_t>{0}),
            Case("joined").In("x", {2, 6, 4, 5}).In("like", {6, 20}).Attr("axis", std::vector<int32_t>{0})})
    .Kernel<SumLikeKernel, types::Numbers>("x", KernelOptions().TmpSize(tmpSize));

} // namespace
} // namespace opc::ops::reduce
