// cat, concat and stack: tensors laid one after another along an axis; split_like: the inverse.
// SPDX-License-Identifier: Apache-2.0
#include "shape/Moves.h"
#include "support/SbpRules.h"

namespace opc::ops {
namespace {

Maybe<void> sameType(const InferContext *ctx, int32_t i) {
  if (ctx->In("in", i).data_type() != ctx->In("in").data_type())
    return (Error::TypeError() << "in_" << i << " is " << dataTypeName(ctx->In("in", i).data_type()) << ", in_0 is "
                               << dataTypeName(ctx->In("in").data_type()))
        .help("cast the inputs to one dtype");
  return Maybe<void>::Ok();
}

Maybe<void> inferCat(InferContext *ctx) {
  const Shape first = ctx->In("in").shape();
  const int64_t axis = JUST(resolveAxis(ctx->Attr<int64_t>("axis"), first.NumAxes()));
  int64_t total = 0;
  for (int32_t i = 0; i < ctx->input_size("in"); ++i) {
    const Shape &s = ctx->In("in", i).shape();
    JUST(sameType(ctx, i));
    bool fits = s.NumAxes() == first.NumAxes();
    for (int64_t k = 0; fits && k < s.NumAxes(); ++k) fits = k == axis || s.At(k) == first.At(k);
    if (!fits)
      return (Error::ShapeMismatch() << "in_" << i << " is " << s.ToString() << ", in_0 is " << first.ToString()
                                     << ", joined along axis " << axis)
          .help("all dimensions but the joined one must be equal");
    if (__builtin_add_overflow(total, s.At(axis), &total))
      return Error("OPC0206") << "the joined dimension overflows 63 bits";
  }
  const int64_t limit = ctx->Attr<int64_t>("max_dim_size");
  if (limit > 0 && total > limit)
    return (Error::ShapeMismatch() << "the joined dimension is " << total << ", max_dim_size is " << limit)
        .help("raise max_dim_size, or leave it out");
  Shape out = first;
  out.Set(axis, total);
  return setOut(ctx, "out", TensorDesc(out, ctx->In("in").data_type()));
}

Maybe<void> inferStack(InferContext *ctx) {
  const Shape first = ctx->In("in").shape();
  const int64_t axis = JUST(resolveAxis(ctx->Attr<int64_t>("axis"), first.NumAxes() + 1));
  for (int32_t i = 0; i < ctx->input_size("in"); ++i) {
    JUST(sameType(ctx, i));
    if (ctx->In("in", i).shape() != first)
      return (Error::ShapeMismatch() << "in_" << i << " is " << ctx->In("in", i).shape().ToString() << ", in_0 is "
                                     << first.ToString())
          .help("stack joins tensors of one shape; cat joins tensors that differ along the axis");
  }
  DimVector dims = first.dim_vec();
  dims.insert(dims.begin() + axis, ctx->input_size("in"));
  return setOut(ctx, "out", TensorDesc(Shape(dims), ctx->In("in").data_type()));
}

Maybe<void> inferSplitLike(InferContext *ctx) {
  const TensorDesc in = ctx->In("in");
  const int64_t axis = JUST(resolveAxis(ctx->Attr<int64_t>("axis"), in.shape().NumAxes()));
  const int32_t n = ctx->input_size("like");
  if (ctx->output_size("out") != n)
    return (Error("OPC0202") << "out has " << ctx->output_size("out") << " tensors, like has " << n)
        .help("give one output for each like");
  int64_t total = 0;
  for (int32_t i = 0; i < n; ++i) {
    const Shape &like = ctx->In("like", i).shape();
    if (like.NumAxes() <= axis)
      return Error::ShapeMismatch() << "like_" << i << " is " << like.ToString() << ", which has no axis " << axis;
    Shape out = in.shape();
    out.Set(axis, like.At(axis));
    total += like.At(axis);
    ctx->Out("out", i) = TensorDesc(out, in.data_type());
  }
  if (total != in.shape().At(axis))
    return Error::ShapeMismatch() << "axis " << axis << " of in " << in.shape().ToString() << " is cut into parts of "
                                  << total << " entries in all";
  return Maybe<void>::Ok();
}

/// Copies part after part to (or, split, from) its place along the axis of the whole.
template <bool split> std::unique_ptr<BoundKernel> bindParts(KernelBindContext *ctx) {
  const Tensor &whole = split ? ctx->In("in") : ctx->Out("out");
  const Shape &shape = whole.shape();
  const int64_t axis = valueOf(resolveAxis(ctx->Attr<int64_t>("axis"), shape.NumAxes()));
  const int64_t outer = shape.Count(0, axis), wholeRow = shape.Count(axis);
  Moves moves(whole);
  int64_t at = 0;
  for (int32_t i = 0; i < (split ? ctx->output_size("out") : ctx->input_size("in")); ++i) {
    const Tensor &part = split ? ctx->Out("out", i) : ctx->In("in", i);
    const int64_t row = outer == 0 ? 0 : part.shape().elem_cnt() / outer;
    const Place ofPart{0, {row, 1}}, ofWhole{at, {wholeRow, 1}};
    if (split)
      moves.copy({outer, row}, whole, ofWhole, ctx->Out("out", i), ofPart);
    else
      moves.copy({outer, row}, part, ofPart, ctx->Out("out"), ofWhole);
    at += row;
  }
  return moves.bind();
}

/// Box after box along the axis; of a stack, each has one entry of it.
template <bool stack> MoveMap joinMap(const KernelContext &ctx) {
  const Shape &out = ctx.Desc("out").shape();
  const int64_t axis = valueOf(resolveAxis(ctx.Attr<int64_t>("axis"), out.NumAxes()));
  MoveMap map;
  int64_t at = 0;
  for (int32_t i = 0; i < ctx.input_size("in"); ++i) {
    const Shape &in = ctx.Desc("in", i).shape();
    MovedBox box{static_cast<uint32_t>(i), DimVector(out.dim_vec().size(), 0), out.dim_vec(), {}};
    box.begin[static_cast<size_t>(axis)] = at;
    box.size[static_cast<size_t>(axis)] = stack ? 1 : in.At(axis);
    for (int64_t a = 0; a < in.NumAxes(); ++a) {
      const int64_t of = stack && a >= axis ? a + 1 : a;
      box.reads.push_back({of, of == axis ? -at : 0, 1});
    }
    at += box.size[static_cast<size_t>(axis)];
    map.boxes.push_back(std::move(box));
  }
  return map;
}

/// Every axis but the joined one may be split, and the joined tensors may all be partial sums.
Maybe<ShardingRule> catSharding(const SbpContext &ctx) {
  const int64_t rank = ctx.In("in").shape().NumAxes();
  return alikeRule(ctx, rank, {JUST(resolveAxis(ctx.Attr<int64_t>("axis"), rank))});
}
Maybe<ShardingRule> stackSharding(const SbpContext &ctx) {
  const AxisFactors in = axisFactors(ctx.In("in").shape().NumAxes());
  AxisFactors out = in;
  out.insert(out.begin() + JUST(resolveAxis(ctx.Attr<int64_t>("axis"), static_cast<int64_t>(in.size()) + 1)), ".");
  return shardingRule({in}, {out}, Linear({0}));
}
/// The values of like are not read.
Maybe<ShardingRule> splitSharding(const SbpContext &ctx) {
  const int64_t rank = ctx.In("in").shape().NumAxes();
  const AxisFactors axes = axisFactors(rank, {JUST(resolveAxis(ctx.Attr<int64_t>("axis"), rank))});
  return shardingRule({axes, unread(axes)}, {axes}, Linear({0}));
}

/// The output and the attributes of an op that joins its inputs.
template <bool stack = false> std::function<void(OpRegistry &)> joins(TensorDescInferFn infer, ShardingFn sharding) {
  return [=](OpRegistry &op) {
    op.Output("out")
        .Attr<int64_t>("axis", 0)
        .Attr<int64_t>("max_dim_size", 0)
        .With(rules(infer, sharding))
        .With(moves<bindParts<false>, joinMap<stack>>);
  };
}
/// Inputs of these shapes.
Case sample(const char *name, const std::vector<Shape> &shapes) {
  Case c(name);
  for (size_t i = 0; i < shapes.size(); ++i) c.In("in", shapes[i], 0, 2, static_cast<int32_t>(i));
  return c.Types(kMoved);
}
std::vector<Case> catCases() {
  return {sample("axis0", {{2, 3}, {4, 3}}), sample("axis1", {{2, 3}, {2, 1}, {2, 4}}).Attr<int64_t>("axis", -1),
          sample("empty_part", {{2, 0}, {2, 3}}).Attr<int64_t>("axis", 1)};
}
const char *const kCatDoc = "Joins the inputs, in order, along `axis`; their other dimensions must be equal. "
                            "max_dim_size, when above 0, bounds the joined dimension.";

REGISTER_USER_OP("cat").InputWithMinimum("in", 1).With(joins(inferCat, catSharding)).Doc(kCatDoc).Cases(catCases());

REGISTER_USER_OP("concat")
    .InputWithMinimum("in", 2)
    .With(joins(inferCat, catSharding))
    .Doc(std::string(kCatDoc) + " The older name of cat, for at least two inputs.")
    .Cases(catCases());

REGISTER_USER_OP("stack")
    .InputWithMinimum("in", 1)
    .With(joins<true>(inferStack, stackSharding))
    .Doc("Joins inputs of one shape along a new axis `axis` of the output. max_dim_size is accepted and has no effect.")
    .Cases({sample("front", {{2, 3}, {2, 3}}), sample("back", {{2, 3}, {2, 3}}).Attr<int64_t>("axis", -1),
            sample("scalars", {{}, {}, {}})});

REGISTER_USER_OP("split_like")
    .Input("in")
    .InputWithMinimum("like", 1)
    .OutputWithMinimum("out", 1)
    .Attr<int64_t>("axis", 0)
    .With(rules(inferSplitLike, splitSharding))
    .Doc("Cuts `in` along `axis` into consecutive parts; part i is as long as like_i is along that axis. The values "
         "of like are not read. The inverse of cat.")
    .Cases({Case("axis1")
                .In("in", {2, 7}, 0, 2)
                .In("like", {2, 3}, 0, 2, 0)
                .In("like", {2, 4}, 0, 2, 1)
                .Attr<int64_t>("axis", 1)
                .Out("out", 2)
                .Types(kMoved)})
    .With(onCpuAndGpu<FunctionKernel<bindParts<true>>>());

} // namespace
} // namespace opc::ops
