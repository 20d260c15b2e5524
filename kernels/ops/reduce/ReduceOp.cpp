// Rules, plans and samples of the reduce_* operators.
// SPDX-License-Identifier: Apache-2.0
#include "reduce/ReduceOp.h"

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
Maybe<void> infer(InferContext *ctx, DataType type) {
  const Shape &in = ctx->InputShape("input_tensor", 0);
  const auto axes = JUST(resolveAxes(ctx->Attr<std::vector<int32_t>>("axis"), in.NumAxes()));
  *ctx->TensorDesc4ArgNameAndIndex("output_tensor", 0) =
      TensorDesc(reducedShape(in, axes, ctx->Attr<bool>("keepdims")), type);
  return Maybe<void>::Ok();
}
Maybe<void> sbp(user_op::SbpContext *ctx, bool linear, bool addsUp) {
  const Shape &in = ctx->LogicalTensorDesc4InputArgNameAndIndex("input_tensor", 0).shape();
  const auto axes = JUST(resolveAxes(ctx->Attr<std::vector<int32_t>>("axis"), in.NumAxes()));
  const bool keepdims = ctx->Attr<bool>("keepdims");
  const user_op::OpArg from("input_tensor", 0), to("output_tensor", 0);
  int64_t outAxis = 0;
  for (int64_t a = 0; a < in.NumAxes(); ++a) {
    const bool isReduced = std::binary_search(axes.begin(), axes.end(), a);
    if (!isReduced)
      ctx->NewBuilder().Split(from, a).Split(to, outAxis).Build();
    else if (addsUp)
      ctx->NewBuilder().Split(from, a).PartialSum(to).Build();
    if (!isReduced || keepdims) ++outAxis;
  }
  if (linear) ctx->NewBuilder().PartialSum(from).PartialSum(to).Build();
  return Maybe<void>::Ok();
}
} // namespace

Maybe<void> inferReduce(InferContext *ctx) { return infer(ctx, ctx->InputDType("input_tensor", 0)); }
Maybe<void> inferReduceToBool(InferContext *ctx) { return infer(ctx, kBool); }
Maybe<void> linearReduceSbp(user_op::SbpContext *ctx) { return sbp(ctx, true, true); }
Maybe<void> meanReduceSbp(user_op::SbpContext *ctx) { return sbp(ctx, true, false); }
Maybe<void> plainReduceSbp(user_op::SbpContext *ctx) { return sbp(ctx, false, false); }

ReducePlan planOf(const user_op::OpContext *ctx, const Shape &in) {
  return ReducePlan::make(in, valueOf(resolveAxes(ctx->Attr<std::vector<int32_t>>("axis"), in.NumAxes())));
}

size_t reduceTmpSize(InferContext *ctx) {
  return static_cast<size_t>(planOf(ctx, ctx->InputShape("input_tensor", 0)).partials()) * 8;
}

std::vector<user_op::Case> reduceCases(double lo, double hi) {
  using Axes = std::vector<int32_t>;
  auto make = [&](const char *name, Shape in, Axes axes, bool keepdims) {
    return user_op::Case(name).In("input_tensor", in, lo, hi).Attr("axis", axes).Attr("keepdims", keepdims);
  };
  return {make("rows", {5, 37}, {1}, false), make("columns", {19, 6}, {0}, true),
          make("outer", {3, 4, 5}, {0, -1}, false), make("all", {2, 3, 4}, {0, 1, 2}, false),
          make("none", {2, 3}, {}, false)};
}

} // namespace opc::ops::reduce
