// Operators whose output is the input's bytes under another shape: reshape, flatten, expand_dims, squeeze and the like.
// SPDX-License-Identifier: Apache-2.0
#include "support/FunctionKernel.h"
#include "support/Operator.h"
#include "support/SbpRules.h"
#include "support/StridedCopy.h"

namespace opc::ops {
namespace {

Maybe<void> setShape(InferContext *ctx, const Shape &shape) {
  return setOut(ctx, "out", TensorDesc(shape, ctx->In("in").data_type()));
}

Maybe<void> inferReshape(InferContext *ctx) {
  const Shape &in = ctx->In("in").shape();
  Shape shape = ctx->Attr<Shape>("shape");
  int64_t known = 1, unknown = -1;
  for (int64_t i = 0; i < shape.NumAxes(); ++i) {
    if (shape.At(i) == -1) {
      if (unknown >= 0)
        return (Error::ShapeMismatch() << "shape " << shape.ToString() << " has two dimensions of -1")
            .help("at most one dimension can be inferred");
      unknown = i;
    } else if (shape.At(i) < -1) {
      return (Error("OPC0205") << "shape " << shape.ToString() << " has the dimension " << shape.At(i))
          .help("dimensions are 0 or more; -1 stands for the one that is inferred");
    } else {
      known = JUST(checkedMul(known, shape.At(i), "the number of elements of shape"));
    }
  }
  const int64_t have = in.elem_cnt();
  if (unknown >= 0) {
    if (known == 0 || have % known != 0)
      return (Error::ShapeMismatch() << "cannot infer the -1 of shape " << shape.ToString() << ": the input "
                                     << in.ToString() << " has " << have << " elements, which " << known
                                     << " does not divide")
          .help("give all dimensions, or make the known ones divide " + std::to_string(have));
    shape.Set(unknown, have / known);
  } else if (known != have) {
    return (Error::ShapeMismatch() << "the input " << in.ToString() << " has " << have << " elements, shape "
                                   << shape.ToString() << " has " << known)
        .help("write -1 for one dimension to have it inferred");
  }
  return setShape(ctx, shape);
}

Maybe<void> inferReshapeLike(InferContext *ctx) {
  const Shape &in = ctx->In("in").shape(), &like = ctx->In("like").shape();
  if (in.elem_cnt() != like.elem_cnt())
    return Error::ShapeMismatch() << "in " << in.ToString() << " has " << in.elem_cnt() << " elements, like "
                                  << like.ToString() << " has " << like.elem_cnt();
  return setShape(ctx, like);
}

Maybe<void> inferFlatten(InferContext *ctx) {
  const Shape &in = ctx->In("in").shape();
  if (in.NumAxes() == 0) return setShape(ctx, Shape({1}));
  const int64_t start = JUST(resolveAxis(ctx->Attr<int32_t>("start_dim"), in.NumAxes(), "start_dim"));
  const int64_t end = JUST(resolveAxis(ctx->Attr<int32_t>("end_dim"), in.NumAxes(), "end_dim"));
  if (start > end)
    return (Error("OPC0205") << "start_dim " << start << " comes after end_dim " << end)
        .help("start_dim and end_dim are both included and in order");
  DimVector dims(in.begin(), in.begin() + start);
  int64_t merged = 1; // of a tensor without elements, the merged axes alone may overflow
  for (int64_t a = start; a <= end; ++a) merged = JUST(checkedMul(merged, in.At(a), "the merged axis"));
  dims.push_back(merged);
  dims.insert(dims.end(), in.begin() + end + 1, in.end());
  return setShape(ctx, Shape(dims));
}

Maybe<void> inferExpandDims(InferContext *ctx) {
  DimVector dims = ctx->In("in").shape().dim_vec();
  const int64_t axis = JUST(resolveAxis(ctx->Attr<int32_t>("axis"), static_cast<int64_t>(dims.size()) + 1));
  dims.insert(dims.begin() + axis, 1);
  return setShape(ctx, Shape(dims));
}

Maybe<void> inferSqueeze(InferContext *ctx) {
  const Shape &in = ctx->In("in").shape();
  const auto axes = JUST(resolveAxes(ctx->Attr<std::vector<int32_t>>("axes"), in.NumAxes(), "axes"));
  DimVector dims;
  for (int64_t i = 0; i < in.NumAxes(); ++i) {
    if (!std::binary_search(axes.begin(), axes.end(), i))
      dims.push_back(in.At(i));
    else if (in.At(i) != 1)
      return (Error::ShapeMismatch() << "axis " << i << " of " << in.ToString() << " has the size " << in.At(i)
                                     << ", not 1")
          .help("squeeze removes axes of size 1; use reshape or flatten to merge axes");
  }
  return setShape(ctx, Shape(dims));
}

/// The terms of a tensor and of a view of it: a split axis keeps its elements where as many come before it on both
/// sides, and the pieces are as long.
std::vector<AxisFactors> viewFactors(const Shape &in, const Shape &out) {
  AxisFactors from(in.dim_vec().size(), "."), to(out.dim_vec().size(), ".");
  if (in.elem_cnt() == 0) return {from, to};
  for (int64_t i = 0; i < in.NumAxes(); ++i)
    for (int64_t j = 0; j < out.NumAxes(); ++j)
      if (in.At(i) > 1 && out.At(j) > 1 && in.Count(0, i) == out.Count(0, j))
        from[static_cast<size_t>(i)] = to[static_cast<size_t>(j)] =
            "a" + std::to_string(i) + (in.At(i) == out.At(j) ? "" : "*");
  return {from, to};
}
Maybe<ShardingRule> viewSharding(const SbpContext &ctx) {
  const auto terms = viewFactors(ctx.In("in").shape(), ctx.Out("out").shape());
  return shardingRule({terms[0]}, {terms[1]}, Linear({0}));
}
Maybe<ShardingRule> likeSharding(const SbpContext &ctx) {
  const auto terms = viewFactors(ctx.In("in").shape(), ctx.In("like").shape());
  return shardingRule(terms, {terms[1]});
}
Maybe<ShardingRule> flattenSharding(const SbpContext &ctx) {
  return ctx.In("in").shape().NumAxes() == 0 ? ShardingRule() : viewSharding(ctx);
}

/// The output of an op that is a view of its input.
std::function<void(OpRegistry &)> view(const TensorDescInferFn &infer, const ShardingFn &sharding = viewSharding) {
  return [=](OpRegistry &op) {
    op.Output("out").SetTensorDescInferFn(infer).Sharding(sharding).View().With(
        onCpuAndGpu<FunctionKernel<bindView>>(KernelOptions().Inplace("out", "in")));
  };
}
Case sample(const char *name, Shape in) {
  return Case(name).In("in", in, 0, 2).Types({kFloat, kDouble, kFloat16, kInt8, kInt64, kBool});
}

REGISTER_USER_OP("reshape")
    .Input("in")
    .RequiredAttr<Shape>("shape")
    .With(view(inferReshape))
    .Doc("out has the elements of in, in row-major order, under another shape. One dimension of `shape` may be -1: "
         "it is inferred. The number of elements must not change.")
    .Cases({sample("plain", {2, 6}).Attr("shape", Shape({3, 4})),
            sample("inferred", {2, 3, 4}).Attr("shape", Shape({-1, 4})),
            sample("to_scalar", {1}).Attr("shape", Shape()), sample("empty", {0, 3}).Attr("shape", Shape({3, 0}))});

REGISTER_USER_OP("reshape_like")
    .Input("in")
    .Input("like")
    .With(view(inferReshapeLike, likeSharding))
    .Doc("out has the elements of in under the shape of like; the values of like are not read.")
    .Cases({sample("plain", {2, 6}).In("like", {3, 4}), sample("flat", {2, 3, 1}).In("like", {6})});

REGISTER_USER_OP("flatten")
    .Input("in")
    .Attr<int32_t>("start_dim", 0)
    .Attr<int32_t>("end_dim", -1)
    .With(view(inferFlatten, flattenSharding))
    .Doc("Merges the axes start_dim to end_dim, both included, into one. A scalar becomes a vector of one element.")
    .Cases({sample("all", {2, 3, 4}), sample("tail", {2, 3, 4}).Attr<int32_t>("start_dim", 1),
            sample("middle", {2, 3, 4, 5}).Attr<int32_t>("start_dim", 1).Attr<int32_t>("end_dim", -2),
            sample("scalar", {})});

REGISTER_USER_OP("expand_dims")
    .Input("in")
    .RequiredAttr<int32_t>("axis")
    .With(view(inferExpandDims))
    .Doc("Inserts an axis of size 1 so that it is axis `axis` of the output; -1 appends it.")
    .Cases({sample("front", {2, 3}).Attr<int32_t>("axis", 0), sample("back", {2, 3}).Attr<int32_t>("axis", -1),
            sample("scalar", {}).Attr<int32_t>("axis", 0)});

REGISTER_USER_OP("squeeze")
    .Input("in")
    .RequiredAttr<std::vector<int32_t>>("axes")
    .With(view(inferSqueeze))
    .Doc("Removes the listed axes, each of which must have the size 1.")
    .Cases({sample("one", {2, 1, 3}).Attr("axes", std::vector<int32_t>{1}),
            sample("two", {1, 2, 1}).Attr("axes", std::vector<int32_t>{0, -1})});

REGISTER_USER_OP("identity")
    .With(TensorArgs{{"in"}, {"out"}})
    .With(rules(TensorDescInferFnUtil::Unchanged, "... -> ...", Linear({0})))
    .View()
    .Doc("out = in.")
    .Cases({sample("matrix", {3, 5}), sample("scalar", {}), sample("empty", {0, 4})})
    .Kernel<FunctionKernel<bindView>>(KernelOptions().Inplace("out", "in"));

// A copy is a tensor of its own, never a view: graphs use it to cut aliasing.
REGISTER_USER_OP("copy")
    .With(TensorArgs{{"in"}, {"out"}})
    .Attr<std::string>("device_type", "")
    .Attr<int64_t>("device_id", 0)
    .Attr<bool>("pin_memory", false)
    .With(rules(TensorDescInferFnUtil::Unchanged, "... -> ...", Linear({0})))
    .Doc("out = in, in memory of its own. The attributes device_type, device_id and pin_memory are accepted from "
         "older graphs; where a tensor lives is decided by placement.")
    .Cases({sample("matrix", {3, 5}), sample("scalar", {})})
    .With(onCpuAndGpu<FunctionKernel<bindView>>());

} // namespace
} // namespace opc::ops
