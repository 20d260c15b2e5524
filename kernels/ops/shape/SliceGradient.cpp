// slice_grad and narrow_grad, and the gradient rules of slice, narrow and slice_update.
// SPDX-License-Identifier: Apache-2.0
#include "shape/Boxes.h"
#include "support/LinearGradient.h"

namespace opc::ops {
namespace {

using List = std::vector<int64_t>;

Maybe<void> inferSliceGrad(InferContext *ctx) {
  const TensorDesc dy = ctx->In("dy");
  const Shape like = ctx->Attr<Shape>("like_shape");
  const Box box = JUST(sliceBox(*ctx, like));
  if (dy.shape() != Shape(box.count))
    return Error::ShapeMismatch() << "dy is " << dy.shape().ToString() << ", the slice of like_shape "
                                  << like.ToString() << " is " << Shape(box.count).ToString();
  return setOut(ctx, "dx", TensorDesc(like, dy.data_type()));
}
Maybe<void> inferNarrowGrad(InferContext *ctx) {
  const TensorDesc dy = ctx->In("dy"), like = ctx->In("like");
  const TensorDesc want(Shape(JUST(narrowBox(*ctx, like.shape())).count), like.data_type());
  if (dy != want)
    return Error::ShapeMismatch() << "dy is " << dy.toString() << ", what narrow takes of like is " << want.toString();
  return setOut(ctx, "dx", like);
}

/// dy in the box, zeros elsewhere.
template <auto box> std::unique_ptr<BoundKernel> bindGrad(KernelBindContext *ctx) {
  return bindWriteBox(ctx, valueOf(box(*ctx, wholeShape(ctx, "dx"))), "dy", "dx");
}

Maybe<ShardingRule> sliceGradSharding(const SbpContext &ctx) {
  const Shape &shape = ctx.Out("dx").shape();
  const BoxFactors f(shape, JUST(sliceBox(ctx, shape)));
  return withSums(f.cutPart, shardingRule({f.part}, {f.whole}, Linear({0})));
}
/// The values of like are not read.
Maybe<ShardingRule> narrowGradSharding(const SbpContext &ctx) {
  const Shape &shape = ctx.In("like").shape();
  const BoxFactors f(shape, JUST(narrowBox(ctx, shape)));
  return withSums(f.cutPart, shardingRule({f.part, unread(f.whole)}, {f.whole}, Linear({0})));
}

REGISTER_USER_OP("slice_grad")
    .GradientOf("slice")
    .With(TensorArgs{{"dy"}, {"dx"}})
    .RequiredAttr<Shape>("like_shape")
    .With(sliceAttrs)
    .With(rules(inferSliceGrad, sliceGradSharding))
    .Doc(std::string(kBoxDoc) +
         "dx has the shape like_shape, dy at those entries, and zeros elsewhere: the gradient of slice.")
    .Cases({withBox(Case("steps").In("dy", {3, 2}, 0, 2).Attr("like_shape", Shape({7, 5})), {0, 1}, {7, 5}, {3, 2})})
    .With(onCpuAndGpu<FunctionKernel<bindGrad<sliceBox>>>());

REGISTER_USER_OP("narrow_grad")
    .GradientOf("narrow")
    .With(TensorArgs{{"dy", "like"}, {"dx"}})
    .With(narrowAttrs)
    .With(rules(inferNarrowGrad, narrowGradSharding))
    .Doc("The gradient of narrow, for graphs that have it: dx has the shape of like, whose values are not read, dy "
         "at the `length` entries of axis `dim` from `start` on, and zeros elsewhere. (opc grad uses slice_grad, "
         "which keeps no like.)")
    .Cases({Case("columns")
                .In("dy", {3, 3}, 0, 2)
                .In("like", {3, 5}, 0, 2)
                .Attr<int64_t>("dim", 1)
                .Attr<int64_t>("start", 1)
                .Attr<int64_t>("length", 3)
                .Types(kMoved)})
    .With(onCpuAndGpu<FunctionKernel<bindGrad<narrowBox>>>());

void sliceGradient(GradientRule &g) {
  if (g.needs("x"))
    g.bind("x", g.add("slice_grad", "x")
                    .in("dy", g.dy("y"))
                    .attr("like_shape", g.shape("x"))
                    .same({"start", "stop", "step"})
                    .out("dx"));
}
REGISTER_USER_OP_GRAD("slice").SetBackwardOpConfGenFn(gradientRule(sliceGradient));
REGISTER_USER_OP_GRAD("slice_grad")
    .SetBackwardOpConfGenFn(linearGradient({"dy", "dx"}, "slice", {"x", "y"}, {"start", "stop", "step"}));

void narrowGradient(GradientRule &g) {
  if (!g.needs("in")) return;
  const Shape &in = g.shape("in");
  const int64_t axis = valueOf(resolveAxis(g.attr<int64_t>("dim"), in.NumAxes()));
  const int64_t given = g.attr<int64_t>("start"), start = given < 0 ? given + in.At(axis) : given;
  List first(static_cast<size_t>(in.NumAxes()), 0), end = in.dim_vec(), step(first.size(), 1);
  first[static_cast<size_t>(axis)] = start;
  end[static_cast<size_t>(axis)] = start + g.attr<int64_t>("length");
  g.bind("in", g.add("slice_grad", "in")
                   .in("dy", g.dy("out"))
                   .attr("like_shape", in)
                   .attr("start", first)
                   .attr("stop", end)
                   .attr("step", step)
                   .out("dx"));
}
REGISTER_USER_OP_GRAD("narrow").SetBackwardOpConfGenFn(gradientRule(narrowGradient));

REGISTER_USER_OP_GRAD("narrow_grad")
    .SetBackwardOpConfGenFn(linearGradient({"dy", "dx"}, "narrow", {"in", "out"}, {"dim", "start", "length"}));

/// What value replaced gets no gradient.
void sliceUpdateGradient(GradientRule &g) {
  if (g.needs("ref")) {
    const std::string zeros = g.add("zero_like", "ref_zeros").in("like", g.x("value")).out();
    g.bind(
        "ref",
        g.add("slice_update", "ref").in("ref", g.dy("y")).in("value", zeros).same({"start", "stop", "step"}).out("y"));
  }
  if (g.needs("value"))
    g.bind("value", g.add("slice", "value").in("x", g.dy("y")).same({"start", "stop", "step"}).out("y"));
}
REGISTER_USER_OP_GRAD("slice_update").SetBackwardOpConfGenFn(gradientRule(sliceUpdateGradient));

} // namespace
} // namespace opc::ops
