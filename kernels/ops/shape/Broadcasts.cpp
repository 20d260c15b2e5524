// expand and broadcast_like: one element read many times.
// SPDX-License-Identifier: Apache-2.0
#include "shape/Moves.h"
#include "support/SbpRules.h"

namespace opc::ops {
namespace {

/// The input's shape with axes of size 1 where the output repeats it; of the output's rank.
Maybe<Shape> expandedView(const Shape &in, const Shape &out, const std::vector<int64_t> &added) {
  DimVector dims = in.dim_vec();
  if (!added.empty() && in.NumAxes() != out.NumAxes()) {
    for (int64_t a : added) {
      if (a > static_cast<int64_t>(dims.size())) break;
      dims.insert(dims.begin() + a, 1);
    }
  } else {
    while (static_cast<int64_t>(dims.size()) < out.NumAxes()) dims.insert(dims.begin(), 1);
  }
  bool fits = static_cast<int64_t>(dims.size()) == out.NumAxes();
  for (int64_t a = 0; fits && a < out.NumAxes(); ++a)
    fits = dims[static_cast<size_t>(a)] == out.At(a) || dims[static_cast<size_t>(a)] == 1;
  if (!fits)
    return (Error::ShapeMismatch() << "the input " << in.ToString() << " cannot be repeated to " << out.ToString())
        .help("an axis of the input is as long as the output's, or 1; missing axes come first unless broadcast_axes "
              "names them");
  return Shape(dims);
}

Maybe<Shape> expandShape(const Shape &in, Shape want) {
  const int64_t lead = want.NumAxes() - in.NumAxes();
  if (lead < 0)
    return (Error::ShapeMismatch() << "expand_shape " << want.ToString() << " has a lower rank than the input "
                                   << in.ToString())
        .help("expand adds axes in front and repeats axes of size 1; squeeze or reshape lower the rank");
  for (int64_t a = 0; a < want.NumAxes(); ++a) {
    if (want.At(a) >= 0) continue;
    if (want.At(a) != -1 || a < lead)
      return (Error("OPC0205") << "expand_shape " << want.ToString() << " has the dimension " << want.At(a)
                               << " at axis " << a)
          .help("-1 keeps the input's dimension, and stands only for an axis that the input has");
    want.Set(a, in.At(a - lead));
  }
  return want;
}

Maybe<void> inferExpand(InferContext *ctx) {
  const Shape in = ctx->In("in").shape();
  const Shape out = JUST(expandShape(in, ctx->Attr<Shape>("expand_shape")));
  JUST(expandedView(in, out, {}));
  return setOut(ctx, "out", TensorDesc(out, ctx->In("in").data_type()));
}
Maybe<std::vector<int64_t>> addedAxes(const OpContext &ctx, int64_t rank) {
  return resolveAxes(ctx.Attr<std::vector<int32_t>>("broadcast_axes"), rank, "broadcast_axes");
}
Maybe<void> inferBroadcastLike(InferContext *ctx) {
  const Shape x = ctx->In("x").shape(), like = ctx->In("like").shape();
  JUST(expandedView(x, like, JUST(addedAxes(*ctx, like.NumAxes()))));
  return setOut(ctx, "y", TensorDesc(like, ctx->In("x").data_type()));
}

std::unique_ptr<BoundKernel> bindBroadcast(const Tensor &in, Tensor &out, const std::vector<int64_t> &added) {
  const Shape view = valueOf(expandedView(in.shape(), out.shape(), added));
  Place from = wholePlace(view);
  for (size_t a = 0; a < from.strides.size(); ++a)
    if (view.dim_vec()[a] == 1) from.strides[a] = 0;
  return bindRead(in, from, out);
}
std::unique_ptr<BoundKernel> bindExpand(KernelBindContext *ctx) {
  return bindBroadcast(ctx->In("in"), ctx->Out("out"), {});
}
std::unique_ptr<BoundKernel> bindBroadcastLike(KernelBindContext *ctx) {
  Tensor &y = ctx->Out("y");
  return bindBroadcast(ctx->In("x"), y, valueOf(addedAxes(*ctx, y.shape().NumAxes())));
}

/// For each axis of the input the one of the output that reads it, -1 where it is repeated; empty when the view does
/// not tell. An axis that the input lacks has the size 1 in the view; which of several such it lacks makes no
/// difference.
std::vector<int64_t> ownAxes(const Shape &in, const Shape &view) {
  std::vector<int64_t> axes;
  for (int64_t a = 0; a < view.NumAxes(); ++a) {
    const auto own = static_cast<int64_t>(axes.size());
    if (own == in.NumAxes() || (view.At(a) == 1 && in.At(own) != 1)) continue;
    axes.push_back(view.At(a) == 1 ? -1 : a);
  }
  return static_cast<int64_t>(axes.size()) == in.NumAxes() ? axes : std::vector<int64_t>();
}

MoveMap broadcastMap(const Shape &in, const Shape &out, const std::vector<int64_t> &added) {
  const std::vector<int64_t> own = ownAxes(in, valueOf(expandedView(in, out, added)));
  if (own.empty() && in.NumAxes() > 0) return {};
  std::vector<AxisRead> reads;
  for (int64_t a : own) reads.push_back(a < 0 ? AxisRead{} : AxisRead{a, 0, 1});
  return readMap(out, std::move(reads));
}
MoveMap expandMap(const KernelContext &ctx) {
  return broadcastMap(ctx.Desc("in").shape(), ctx.Desc("out").shape(), {});
}
MoveMap broadcastLikeMap(const KernelContext &ctx) {
  const Shape &y = ctx.Desc("y").shape();
  return broadcastMap(ctx.Desc("x").shape(), y, valueOf(addedAxes(ctx, y.NumAxes())));
}

/// Axes that are not repeated split alike; repeated ones are made from the whole input. The values of like are not
/// read.
Maybe<ShardingRule> likeSharding(const SbpContext &ctx) {
  const Shape &in = ctx.In("x").shape(), &like = ctx.In("like").shape();
  const AxisFactors y = axisFactors(like.NumAxes());
  AxisFactors x;
  const auto newAxes = JUST(addedAxes(ctx, like.NumAxes()));
  for (int64_t a : ownAxes(in, JUST(expandedView(in, like, newAxes))))
    x.push_back(a < 0 ? "." : y[static_cast<size_t>(a)]);
  x.resize(in.dim_vec().size(), ".");
  return shardingRule({x, unread(y)}, {y}, Linear({0}));
}

REGISTER_USER_OP("expand")
    .With(TensorArgs{{"in"}, {"out"}})
    .RequiredAttr<Shape>("expand_shape")
    .ArgAlias("logical_expand_shape", "expand_shape")
    .With(rules(inferExpand, "... -> ...", Linear({0})))
    .Doc("Repeats axes of size 1 to the dimensions of expand_shape, which may have more axes in front; -1 keeps a "
         "dimension.")
    .Cases({Case("rows").In("in", {1, 4}, 0, 2).Attr("expand_shape", Shape({3, 4})).Types(kMoved),
            Case("lead").In("in", {3, 1}, 0, 2).Attr("expand_shape", Shape({2, -1, 5})).Types(kMoved),
            Case("both").In("in", {1, 4}, 0, 2).Attr("expand_shape", Shape({2, 3, 4})).Types(kMoved),
            Case("scalar").In("in", {}, 0, 2).Attr("expand_shape", Shape({7})).Types(kMoved)})
    .With(moves<bindExpand, expandMap>);

REGISTER_USER_OP("broadcast_like")
    .With(TensorArgs{{"x", "like"}, {"y"}})
    .Attr<std::vector<int32_t>>("broadcast_axes", {})
    .With(rules(inferBroadcastLike, likeSharding))
    .Doc("Repeats x to the shape of like, whose values are not read. broadcast_axes lists the axes of like along "
         "which x is repeated: x has them with size 1 or lacks them. Without the list, missing axes come first.")
    .Cases({Case("kept")
                .In("x", {3, 1}, 0, 2)
                .In("like", {3, 4}, 0, 2)
                .Attr("broadcast_axes", std::vector<int32_t>{1})
                .Types(kMoved),
            Case("dropped")
                .In("x", {3}, 0, 2)
                .In("like", {2, 3, 4}, 0, 2)
                .Attr("broadcast_axes", std::vector<int32_t>{0, 2})
                .Types(kMoved),
            Case("trailing").In("x", {4}, 0, 2).In("like", {2, 4}, 0, 2).Types(kMoved)})
    .With(moves<bindBroadcastLike, broadcastLikeMap>);

} // namespace
} // namespace opc::ops
