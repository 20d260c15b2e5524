// slice and narrow, boxes cut out of a tensor, and slice_update, which writes into one.
// SPDX-License-Identifier: Apache-2.0
#include "shape/Boxes.h"

namespace opc::ops {

using List = std::vector<int64_t>;

Maybe<Box> sliceBox(const OpContext &ctx, const Shape &shape) {
  const List start = ctx.Attr<List>("start"), stop = ctx.Attr<List>("stop"), step = ctx.Attr<List>("step");
  const size_t rank = static_cast<size_t>(shape.NumAxes());
  for (const auto &[name, list] : {std::pair{"start", &start}, std::pair{"stop", &stop}, std::pair{"step", &step}})
    if (list->size() != rank)
      return (Error("OPC0205") << name << " has " << list->size() << " entries, the sliced tensor " << shape.ToString()
                               << " has rank " << rank)
          .help("give one entry an axis; start 0, stop = the dimension, step 1 takes all of it");
  Box box;
  for (size_t i = 0; i < rank; ++i) {
    const int64_t n = shape.At(static_cast<int64_t>(i)), by = step[i];
    if (by == 0)
      return (Error("OPC0205") << "step of axis " << i << " is 0")
          .help("a step is positive, or negative to go backwards");
    // Python's rules: negative positions count from the end once, then everything is clamped. With a negative step the
    // stop -n-1 (or less) lies before the first entry.
    const int64_t lowest = by > 0 ? 0 : -1, highest = by > 0 ? n : n - 1;
    auto place = [&](int64_t p) {
      if (p < 0) p = p < -n ? lowest : p + n;
      return std::clamp(p, lowest, highest);
    };
    const int64_t a = place(start[i]), b = place(stop[i]);
    const int64_t span = by > 0 ? b - a : a - b;
    // The magnitude of the least int64 does not fit: as a step it takes one entry, as any step longer than the span.
    const int64_t stride = by > 0 ? by : by == INT64_MIN ? INT64_MAX : -by;
    const int64_t count = span <= 0 ? 0 : (span - 1) / stride + 1;
    box.first.push_back(count == 0 ? 0 : a);
    box.step.push_back(count <= 1 ? 1 : by);
    box.count.push_back(count);
  }
  return box;
}

Maybe<Box> narrowBox(const OpContext &ctx, const Shape &shape) {
  const int64_t dim = JUST(resolveAxis(ctx.Attr<int64_t>("dim"), shape.NumAxes(), "dim"));
  const int64_t n = shape.At(dim), length = ctx.Attr<int64_t>("length");
  int64_t start = ctx.Attr<int64_t>("start");
  if (start < 0 && start >= -n) start += n;
  if (start < 0 || start > n || length < 0 || length > n - start)
    return (Error("OPC0205") << "narrow takes " << length << " entries from " << start << " on, axis " << dim << " has "
                             << n)
        .help("start + length may be at most " + std::to_string(n));
  Box box{DimVector(shape.dim_vec().size(), 0), DimVector(shape.dim_vec().size(), 1), shape.dim_vec()};
  box.first[static_cast<size_t>(dim)] = length == 0 ? 0 : start;
  box.count[static_cast<size_t>(dim)] = length;
  return box;
}

BoxPiece::BoxPiece(const KernelContext *ctx, const Box &box, const char *whole, const char *part)
    : inWhole(wholePlace(ctx->Desc(whole).shape())), inPart(wholePlace(ctx->Desc(part).shape())) {
  for (size_t i = 0; i < box.count.size(); ++i) {
    const auto axis = static_cast<int64_t>(i);
    const PieceRange have = pieceRange(ctx, whole, axis), take = pieceRange(ctx, part, axis);
    const int64_t step = std::abs(box.step[i]);
    // Entry j of the box is place first + j * step of the whole; it is here when begin <= place < end.
    const auto entries = [&](int64_t places) { return places <= 0 ? 0 : (places - 1) / step + 1; };
    const bool forward = box.step[i] > 0;
    const int64_t from = entries(forward ? have.begin - box.first[i] : box.first[i] - have.end() + 1);
    const int64_t to = entries(forward ? have.end() - box.first[i] : box.first[i] - have.begin + 1);
    const int64_t begin = std::max(from, take.begin), end = std::min(to, take.end());
    count.push_back(std::max<int64_t>(0, end - begin));
    if (count.back() == 0) continue;
    inWhole.offset += have.place(box.first[i] + begin * box.step[i]) * inWhole.strides[i];
    inPart.offset += take.place(begin) * inPart.strides[i];
    inWhole.strides[i] *= box.step[i];
  }
}
std::unique_ptr<BoundKernel> bindReadBox(KernelBindContext *ctx, const Box &box, const char *in, const char *out) {
  const BoxPiece piece(ctx, box, in, out);
  Tensor &to = ctx->Out(out);
  Moves moves(to);
  if (Shape(piece.count) != to.shape()) moves.fill(to);
  return moves.copy(piece.count, ctx->In(in), piece.inWhole, to, piece.inPart).bind();
}
std::unique_ptr<BoundKernel> bindWriteBox(KernelBindContext *ctx, const Box &box, const char *in, const char *out,
                                          const char *base) {
  const BoxPiece piece(ctx, box, out, in);
  Tensor &to = ctx->Out(out);
  Moves moves(to);
  if (base)
    moves.begin(ctx->In(base), to);
  else
    moves.fill(to);
  return moves.copy(piece.count, ctx->In(in), piece.inPart, to, piece.inWhole).bind();
}

BoxFactors::BoxFactors(const Shape &shape, const Box &box) : whole(axisFactors(shape.NumAxes())), part(whole) {
  for (size_t a = 0; a < whole.size(); ++a) {
    if (box.count[a] == shape.At(static_cast<int64_t>(a)) && box.step[a] == 1) continue;
    part[a] = "b" + std::to_string(a);
    cutWhole.push_back(whole[a]);
    cutPart.push_back(part[a]);
  }
}

void sliceAttrs(OpRegistry &op) {
  op.RequiredAttr<List>("start").RequiredAttr<List>("stop").RequiredAttr<List>("step");
}
void narrowAttrs(OpRegistry &op) {
  op.RequiredAttr<int64_t>("dim").RequiredAttr<int64_t>("start").RequiredAttr<int64_t>("length");
}
const char *const kBoxDoc =
    "Each axis takes the entries start, start+step, ... before stop. Negative positions count from the end; "
    "positions beyond an end are clamped to it. With a negative step, stop = -n-1 (n the dimension) or less includes "
    "entry 0. ";
Case &withBox(Case &c, List start, List stop, List step) {
  return c.Attr("start", start).Attr("stop", stop).Attr("step", step).Types(kMoved);
}

namespace {

Maybe<void> inferSlice(InferContext *ctx) {
  const TensorDesc x = ctx->In("x");
  return setOut(ctx, "y", TensorDesc(Shape(JUST(sliceBox(*ctx, x.shape())).count), x.data_type()));
}
Maybe<void> inferNarrow(InferContext *ctx) {
  const TensorDesc in = ctx->In("in");
  return setOut(ctx, "out", TensorDesc(Shape(JUST(narrowBox(*ctx, in.shape())).count), in.data_type()));
}
Maybe<void> inferSliceUpdate(InferContext *ctx) {
  const TensorDesc ref = ctx->In("ref"), value = ctx->In("value");
  const Box box = JUST(sliceBox(*ctx, ref.shape()));
  if (value.shape() != Shape(box.count))
    return (Error::ShapeMismatch() << "value is " << value.shape().ToString() << ", the slice of ref "
                                   << ref.shape().ToString() << " is " << Shape(box.count).ToString())
        .help("value must have the shape of the slice; broadcast it with expand first");
  if (value.data_type() != ref.data_type())
    return (Error::TypeError() << "value is " << dataTypeName(value.data_type()) << ", ref is "
                               << dataTypeName(ref.data_type()))
        .help("cast value to the dtype of ref");
  return setOut(ctx, "y", ref);
}

using BoxOf = Maybe<Box>(const OpContext &, const Shape &);

template <BoxOf *box, const char *in, const char *out> std::unique_ptr<BoundKernel> bindCut(KernelBindContext *ctx) {
  return bindReadBox(ctx, valueOf(box(*ctx, wholeShape(ctx, in))), in, out);
}
template <BoxOf *box, const char *in, const char *out> MoveMap cutMap(const KernelContext &ctx) {
  const Box b = valueOf(box(ctx, ctx.Desc(in).shape()));
  std::vector<AxisRead> reads;
  for (size_t a = 0; a < b.first.size(); ++a) reads.push_back({static_cast<int64_t>(a), b.first[a], b.step[a]});
  return readMap(ctx.Desc(out).shape(), std::move(reads));
}
std::unique_ptr<BoundKernel> bindSliceUpdate(KernelBindContext *ctx) {
  return bindWriteBox(ctx, valueOf(sliceBox(*ctx, wholeShape(ctx, "ref"))), "value", "y", "ref");
}

template <BoxOf *kBox, const char *kArg> Maybe<ShardingRule> cutSharding(const SbpContext &ctx) {
  const Shape &shape = ctx.In(kArg).shape();
  const BoxFactors f(shape, JUST(kBox(ctx, shape)));
  return withSums(f.cutWhole, shardingRule({f.whole}, {f.part}, Linear({0})));
}
Maybe<ShardingRule> updateSharding(const SbpContext &ctx) {
  const Shape &shape = ctx.In("ref").shape();
  const BoxFactors f(shape, JUST(sliceBox(ctx, shape)));
  return shardingRule({f.whole, f.part}, {f.whole}, Linear({0, 1}));
}

constexpr char kX[] = "x", kY[] = "y", kIn[] = "in", kOut[] = "out";

Case slice(const char *name, Shape in, List start, List stop, List step) {
  return withBox(Case(name).In("x", in, 0, 2), start, stop, step);
}
Case narrow(const char *name, Shape in, int64_t dim, int64_t start, int64_t length) {
  return Case(name).In("in", in, 0, 2).Attr("dim", dim).Attr("start", start).Attr("length", length).Types(kMoved);
}
Case update(const char *name, Shape ref, Shape value, List start, List stop, List step) {
  return withBox(Case(name).In("ref", ref, 0, 2).In("value", value, 0, 2), start, stop, step);
}

REGISTER_USER_OP("slice")
    .With(TensorArgs{{"x"}, {"y"}})
    .With(sliceAttrs)
    .With(rules(inferSlice, cutSharding<sliceBox, kX>))
    .Doc(std::string(kBoxDoc) + "y holds them in that order.")
    .Cases({slice("rows", {5, 4}, {1, 0}, {4, 4}, {1, 1}), slice("steps", {7, 6}, {0, 1}, {7, 6}, {3, 2}),
            slice("backwards", {5, 6}, {-1, 4}, {-6, 0}, {-2, -1}), slice("empty", {5}, {3}, {3}, {1})})
    .With(moves<bindCut<sliceBox, kX, kY>, cutMap<sliceBox, kX, kY>>);

REGISTER_USER_OP("narrow")
    .With(TensorArgs{{"in"}, {"out"}})
    .With(narrowAttrs)
    .With(rules(inferNarrow, cutSharding<narrowBox, kIn>))
    .Doc("The `length` entries of axis `dim` from `start` on.")
    .Cases({narrow("columns", {3, 5}, 1, 1, 3), narrow("last_row", {3, 5}, -2, -1, 1),
            narrow("whole_axis", {5, 3}, 0, 0, 5)}) // the last may be split along it
    .With(moves<bindCut<narrowBox, kIn, kOut>, cutMap<narrowBox, kIn, kOut>>);

REGISTER_USER_OP("slice_update")
    .With(TensorArgs{{"ref", "value"}, {"y"}})
    .ArgAlias("x", "ref")
    .ArgAlias("update", "value")
    .With(sliceAttrs)
    .With(rules(inferSliceUpdate, updateSharding))
    .Doc(std::string(kBoxDoc) + "y is ref with those entries replaced by value, which has the shape of the slice.")
    .Cases({update("rows", {5, 4}, {2, 4}, {1, 0}, {3, 4}, {1, 1}),
            update("backwards", {5, 4}, {2, 2}, {3, -1}, {0, -5}, {-2, -2})})
    .With(onCpuAndGpu<FunctionKernel<bindSliceUpdate>>(KernelOptions().Inplace("y", "ref")));

} // namespace
} // namespace opc::ops
