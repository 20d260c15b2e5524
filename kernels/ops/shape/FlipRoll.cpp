// flip and roll: the same elements, reversed or rotated along axes.
// SPDX-License-Identifier: Apache-2.0
#include "shape/Moves.h"
#include "support/SbpRules.h"

namespace opc::ops {
namespace {

using Axes = std::vector<int32_t>;

Maybe<std::vector<int64_t>> axesOf(const OpContext &ctx, const Shape &shape) {
  return resolveAxes(ctx.Attr<Axes>("dims"), shape.NumAxes(), "dims");
}
/// Axes that keep their order split.
Maybe<ShardingRule> sharding(const SbpContext &ctx, const char *in) {
  const Shape &shape = ctx.In(in).shape();
  return alikeRule(ctx, shape.NumAxes(), JUST(axesOf(ctx, shape)));
}

// --- flip ------------------------------------------------------------------------------------------------------------

Maybe<void> inferFlip(InferContext *ctx) {
  const TensorDesc x = ctx->In("x");
  JUST(axesOf(*ctx, x.shape()));
  return setOut(ctx, "y", x);
}

std::unique_ptr<BoundKernel> bindFlip(KernelBindContext *ctx) {
  const Tensor &x = ctx->In("x");
  Place from = wholePlace(x.shape());
  for (int64_t a : valueOf(axesOf(*ctx, x.shape()))) {
    int64_t &stride = from.strides[static_cast<size_t>(a)];
    from.offset += (x.shape().At(a) - 1) * stride;
    stride = -stride;
  }
  return bindRead(x, from, ctx->Out("y"));
}

MoveMap flipMap(const KernelContext &ctx) {
  const Shape &shape = ctx.Desc("x").shape();
  std::vector<AxisRead> reads;
  for (int64_t a = 0; a < shape.NumAxes(); ++a) reads.push_back({a, 0, 1});
  for (int64_t a : valueOf(axesOf(ctx, shape))) reads[static_cast<size_t>(a)] = {a, shape.At(a) - 1, -1};
  return readMap(shape, std::move(reads));
}

REGISTER_USER_OP("flip")
    .With(TensorArgs{{"x"}, {"y"}})
    .RequiredAttr<Axes>("dims")
    .With(rules(inferFlip, [](const SbpContext &ctx) { return sharding(ctx, "x"); }))
    .Doc("Reverses the order of the entries along each axis in dims.")
    .Cases({Case("last").In("x", {3, 5}, 0, 2).Attr("dims", Axes{-1}).Types(kMoved),
            Case("two").In("x", {3, 2, 4}, 0, 2).Attr("dims", Axes{0, 2}).Types(kMoved)})
    .With(moves<bindFlip, flipMap>);

// --- roll ------------------------------------------------------------------------------------------------------------

/// Each axis with its shift in [0, dimension). Without dims the tensor is rolled as one flat axis.
struct Rolled {
  DimVector dims;
  std::vector<int64_t> shift;
};
Maybe<Rolled> rolled(const OpContext &ctx, const Shape &shape) {
  const Axes shifts = ctx.Attr<Axes>("shifts"), dims = ctx.Attr<Axes>("dims");
  if (dims.empty()) {
    if (shifts.size() != 1)
      return (Error("OPC0205") << "shifts has " << shifts.size() << " entries and dims is empty")
          .help("give one shift for each axis in dims");
    const int64_t n = shape.elem_cnt();
    return Rolled{{n}, {n == 0 ? 0 : (shifts[0] % n + n) % n}};
  }
  if (dims.size() != shifts.size())
    return (Error("OPC0205") << "shifts has " << shifts.size() << " entries, dims " << dims.size())
        .help("give one shift for each axis in dims");
  Rolled r{shape.dim_vec(), std::vector<int64_t>(shape.dim_vec().size(), 0)};
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t a = JUST(resolveAxis(dims[i], shape.NumAxes(), "dims")), n = shape.At(a);
    int64_t &s = r.shift[static_cast<size_t>(a)]; // an axis that is named twice rolls by the sum
    if (n > 0) s = ((s + shifts[i]) % n + n) % n;
  }
  return r;
}
Maybe<void> inferRoll(InferContext *ctx) {
  const TensorDesc in = ctx->In("in");
  JUST(rolled(*ctx, in.shape()));
  return setOut(ctx, "out", in);
}

/// Each rolled axis falls into two pieces; every combination of pieces is one strided copy.
std::unique_ptr<BoundKernel> bindRoll(KernelBindContext *ctx) {
  struct Piece {
    DimVector dims;
    int64_t src, dst;
  };
  const Tensor &in = ctx->In("in");
  const Rolled r = valueOf(rolled(*ctx, in.shape()));
  const DimVector strides = rowMajorStrides(Shape(r.dims));
  std::vector<Piece> pieces{{r.dims, 0, 0}};
  for (size_t a = 0; a < r.dims.size(); ++a) {
    if (r.shift[a] == 0) continue;
    std::vector<Piece> next;
    for (const Piece &p : pieces) {
      Piece head = p, tail = p; // the last `shift` entries move to the front
      tail.dims[a] = r.shift[a];
      tail.src += (r.dims[a] - r.shift[a]) * strides[a];
      head.dims[a] = r.dims[a] - r.shift[a];
      head.dst += r.shift[a] * strides[a];
      next.push_back(tail);
      next.push_back(head);
    }
    pieces = std::move(next);
  }
  Moves moves(in);
  for (const Piece &p : pieces) moves.copy(p.dims, in, {p.src, strides}, ctx->Out("out"), {p.dst, strides});
  return moves.bind();
}

/// A roll of the flat tensor leaves no axis in order.
Maybe<ShardingRule> rollSharding(const SbpContext &ctx) {
  const int64_t rank = ctx.In("in").shape().NumAxes();
  if (!ctx.Attr<Axes>("dims").empty()) return sharding(ctx, "in");
  const AxisFactors whole(static_cast<size_t>(rank), ".");
  return shardingRule({whole}, {whole}, Linear({0}));
}

REGISTER_USER_OP("roll")
    .With(TensorArgs{{"in"}, {"out"}})
    .RequiredAttr<Axes>("shifts")
    .Attr<Axes>("dims", {})
    .With(rules(inferRoll, rollSharding))
    .Doc("Moves the entries along axis dims[i] by shifts[i] places towards the end; what passes the end comes back "
         "at the front. Without dims, the tensor is rolled as if it were flat.")
    .Cases({Case("two").In("in", {4, 5}, 0, 2).Attr("shifts", Axes{1, -2}).Attr("dims", Axes{0, 1}).Types(kMoved),
            Case("flat").In("in", {3, 4}, 0, 2).Attr("shifts", Axes{5}).Types(kMoved)})
    .With(onCpuAndGpu<FunctionKernel<bindRoll>>());

} // namespace
} // namespace opc::ops
