// expand and broadcast_like: one element read many times.
// SPDX-License-Identifier: Apache-2.0
#include "support/Axes.h"
#include "support/CpuKernels.h"
#include "support/StridedCopy.h"

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
  const Shape in = ctx->InputShape("in", 0);
  const Shape out = JUST(expandShape(in, ctx->Attr<Shape>("expand_shape")));
  JUST(expandedView(in, out, {}));
  *ctx->TensorDesc4ArgNameAndIndex("out", 0) = TensorDesc(out, ctx->InputDType("in", 0));
  return Maybe<void>::Ok();
}
Maybe<std::vector<int64_t>> addedAxes(const user_op::OpContext *ctx, int64_t rank) {
  return resolveAxes(ctx->Attr<std::vector<int32_t>>("broadcast_axes"), rank, "broadcast_axes");
}
Maybe<void> inferBroadcastLike(InferContext *ctx) {
  const Shape x = ctx->InputShape("x", 0), like = ctx->InputShape("like", 0);
  JUST(expandedView(x, like, JUST(addedAxes(ctx, like.NumAxes()))));
  *ctx->TensorDesc4ArgNameAndIndex("y", 0) = TensorDesc(like, ctx->InputDType("x", 0));
  return Maybe<void>::Ok();
}

class BroadcastKernel final : public BindingKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    const bool like = ctx->TensorDesc4ArgNameAndIndex("like", 0) != nullptr;
    const Tensor *in = ctx->Tensor4ArgNameAndIndex(like ? "x" : "in", 0);
    Tensor *out = ctx->Tensor4ArgNameAndIndex(like ? "y" : "out", 0);
    const Shape outShape = out->shape();
    const Shape view = valueOf(expandedView(
        in->shape(), outShape, like ? valueOf(addedAxes(ctx, outShape.NumAxes())) : std::vector<int64_t>{}));
    DimVector strides = rowMajorStrides(view);
    for (size_t a = 0; a < strides.size(); ++a)
      if (view.dim_vec()[a] == 1) strides[a] = 0;
    StridedCopy copy(GetSizeOfDataType(in->data_type()), outShape.dim_vec(), strides);
    const void *from = in->raw_dptr();
    void *to = out->mut_raw_dptr();
    return user_op::bindTask([=](DeviceCtx *dev) { copy.run(dev, from, to); });
  }
};

/// Axes that are not repeated split alike; repeated axes of the output are made from the whole input.
Maybe<void> broadcastSbp(user_op::SbpContext *ctx) {
  const bool like = ctx->has_input("like", 0);
  const Shape in = ctx->LogicalTensorDesc4InputArgNameAndIndex(like ? "x" : "in", 0).shape();
  const Shape out = like ? ctx->LogicalTensorDesc4InputArgNameAndIndex("like", 0).shape()
                         : JUST(expandShape(in, ctx->Attr<Shape>("expand_shape")));
  const Shape view = JUST(expandedView(in, out, like ? JUST(addedAxes(ctx, out.NumAxes())) : std::vector<int64_t>{}));
  const user_op::OpArg from(like ? "x" : "in", 0), to(like ? "y" : "out", 0), likeArg("like", 0);
  int64_t inAxis = 0;
  for (int64_t a = 0; a < out.NumAxes(); ++a) {
    const bool own =
        inAxis < in.NumAxes() && view.At(a) == in.At(inAxis) && (view.At(a) != 1 || in.NumAxes() == out.NumAxes());
    if (view.At(a) == out.At(a) && own && out.At(a) != 1) {
      auto b = ctx->NewBuilder();
      b.Split(from, inAxis).Split(to, a);
      if (like) b.Split(likeArg, a);
      b.Build();
    } else if (view.At(a) == 1 && out.At(a) != 1) {
      auto b = ctx->NewBuilder();
      b.Broadcast(from).Split(to, a);
      if (like) b.Split(likeArg, a);
      b.Build();
    }
    if (own) ++inAxis;
  }
  auto b = ctx->NewBuilder();
  b.PartialSum(from).PartialSum(to);
  if (like) b.Broadcast(likeArg);
  b.Build();
  if (!like) return Maybe<void>::Ok();
  // The values of like are not read: it may be in any state.
  ctx->NewBuilder().PartialSum(from).PartialSum(likeArg).PartialSum(to).Build();
  ctx->NewBuilder().Broadcast(from).PartialSum(likeArg).Broadcast(to).Build();
  return Maybe<void>::Ok();
}

const std::vector<DataType> kSampleTypes = {kFloat, kDouble, kFloat16, kUInt8, kInt64, kBool};

REGISTER_USER_OP("expand")
    .Input("in")
    .Output("out")
    .RequiredAttr<Shape>("expand_shape")
    .ArgAlias("logical_expand_shape", "expand_shape")
    .SetTensorDescInferFn(inferExpand)
    .SetGetSbpFn(broadcastSbp)
    .Doc("Repeats axes of size 1 to the dimensions of expand_shape, which may have more axes in front; -1 keeps a "
         "dimension.")
    .Cases({user_op::Case("rows").In("in", {1, 4}, 0, 2).Attr("expand_shape", Shape({3, 4})).Types(kSampleTypes),
            user_op::Case("lead").In("in", {3, 1}, 0, 2).Attr("expand_shape", Shape({2, -1, 5})).Types(kSampleTypes),
            user_op::Case("scalar").In("in", {}, 0, 2).Attr("expand_shape", Shape({7})).Types(kSampleTypes)});

REGISTER_USER_OP("broadcast_like")
    .Input("x")
    .Input("like")
    .Output("y")
    .Attr<std::vector<int32_t>>("broadcast_axes", {})
    .SetTensorDescInferFn(inferBroadcastLike)
    .SetGetSbpFn(broadcastSbp)
    .Doc("Repeats x to the shape of like, whose values are not read. broadcast_axes lists the axes of like along "
         "which x is repeated: x has them with size 1 or lacks them. Without the list, missing axes come first.")
    .Cases({user_op::Case("kept")
                .In("x", {3, 1}, 0, 2)
                .In("like", {3, 4}, 0, 2)
                .Attr("broadcast_axes", std::vector<int32_t>{1})
                .Types(kSampleTypes),
            user_op::Case("dropped")
                .In("x", {3}, 0, 2)
                .In("like", {2, 3, 4}, 0, 2)
                .Attr("broadcast_axes", std::vector<int32_t>{0, 2})
                .Types(kSampleTypes),
            user_op::Case("trailing").In("x", {4}, 0, 2).In("like", {2, 4}, 0, 2).Types(kSampleTypes)});

OPC_ANY_TYPE_CPU_KERNEL("expand", BroadcastKernel);
OPC_ANY_TYPE_CPU_KERNEL("broadcast_like", BroadcastKernel);

} // namespace
} // namespace opc::ops
