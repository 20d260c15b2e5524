// gather and embedding: slices of a tensor along one axis, chosen by indices.
// SPDX-License-Identifier: Apache-2.0
#include "support/Axes.h"
#include "support/CpuKernels.h"
#include "support/IndexCheck.h"

#include <cstring>

namespace opc::ops {
namespace {

Maybe<void> inferGather(InferContext *ctx) {
  const Shape &in = ctx->InputShape("in", 0), &indices = ctx->InputShape("indices", 0);
  JUST(checkIndexType(ctx, "indices"));
  const int64_t axis = JUST(resolveAxis(ctx->Attr<int64_t>("axis"), in.NumAxes()));
  DimVector dims(in.begin(), in.begin() + axis);
  dims.insert(dims.end(), indices.begin(), indices.end());
  dims.insert(dims.end(), in.begin() + axis + 1, in.end());
  *ctx->TensorDesc4ArgNameAndIndex("out", 0) = TensorDesc(Shape(dims), ctx->InputDType("in", 0));
  return Maybe<void>::Ok();
}

Maybe<void> inferEmbedding(InferContext *ctx) {
  const Shape &weight = ctx->InputShape("weight", 0);
  JUST(checkIndexType(ctx, "indices"));
  if (weight.NumAxes() != 2)
    return (Error::ShapeMismatch() << "weight is " << weight.ToString() << ", it should be (entries, width)")
        .help("reshape weight to two axes, or use gather");
  DimVector dims = ctx->InputShape("indices", 0).dim_vec();
  dims.push_back(weight.At(1));
  *ctx->TensorDesc4ArgNameAndIndex("out", 0) = TensorDesc(Shape(dims), ctx->InputDType("weight", 0));
  return Maybe<void>::Ok();
}

class GatherKernel final : public BindingKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    const bool isEmbedding = ctx->TensorDesc4ArgNameAndIndex("weight", 0) != nullptr;
    const Tensor *in = ctx->Tensor4ArgNameAndIndex(isEmbedding ? "weight" : "in", 0);
    const Tensor *indices = ctx->Tensor4ArgNameAndIndex("indices", 0);
    Tensor *out = ctx->Tensor4ArgNameAndIndex("out", 0);
    const Shape &shape = in->shape();
    const int64_t axis = isEmbedding ? 0 : valueOf(resolveAxis(ctx->Attr<int64_t>("axis"), shape.NumAxes()));
    const int64_t elementSize = static_cast<int64_t>(GetSizeOfDataType(in->data_type()));
    const IndexRange range = indexRange(ctx, isEmbedding ? "weight" : "in", axis);
    const int64_t limit = range.size, outer = shape.Count(0, axis), inner = shape.Count(axis + 1);
    const Shape indexShape = indices->shape();
    const int64_t n = indexShape.elem_cnt();
    const char *src = static_cast<const char *>(in->raw_dptr());
    char *dst = static_cast<char *>(out->mut_raw_dptr());
    const char *into = isEmbedding ? "the entries of weight" : "the gathered axis";
    return withIndexType(indices->data_type(), [&](auto tag) -> std::unique_ptr<user_op::BoundKernel> {
      using I = decltype(tag);
      const I *index = indices->dptr<I>();
      return withElementSize(static_cast<size_t>(elementSize),
                             [&](auto elementTag) -> std::unique_ptr<user_op::BoundKernel> {
                               using T = decltype(elementTag);
                               return user_op::bindTask([=](DeviceCtx *dev) {
                                 checkIndices(dev, index, indexShape, range.whole, "indices", into);
                                 const T *from = reinterpret_cast<const T *>(src);
                                 T *to = reinterpret_cast<T *>(dst);
                                 const int64_t grain = std::max<int64_t>(1, 16384 / std::max<int64_t>(1, inner));
                                 dev->parallelFor(outer * n, grain, [&](int64_t begin, int64_t end) {
                                   for (int64_t o = begin / n, i = begin % n, row = begin; row < end; ++row) {
                                     const int64_t place = range.place(index[i]);
                                     const T *slice = from + (o * limit + place) * inner;
                                     if (!range.holds(place))
                                       std::memset(to + row * inner, 0, static_cast<size_t>(inner) * sizeof(T));
                                     else if (inner == 1)
                                       to[row] = *slice;
                                     else
                                       std::memcpy(to + row * inner, slice, static_cast<size_t>(inner) * sizeof(T));
                                     if (++i == n) i = 0, ++o;
                                   }
                                 });
                               });
                             });
    });
  }
};

Maybe<void> gatherSbp(user_op::SbpContext *ctx) {
  const int64_t rank = ctx->LogicalTensorDesc4InputArgNameAndIndex("in", 0).shape().NumAxes();
  const int64_t indexRank = ctx->LogicalTensorDesc4InputArgNameAndIndex("indices", 0).shape().NumAxes();
  const int64_t axis = JUST(resolveAxis(ctx->Attr<int64_t>("axis"), rank));
  const user_op::OpArg in("in", 0), indices("indices", 0), out("out", 0);
  for (int64_t a = 0; a < rank; ++a)
    if (a != axis)
      ctx->NewBuilder().Split(in, a).Broadcast(indices).Split(out, a < axis ? a : a + indexRank - 1).Build();
  for (int64_t a = 0; a < indexRank; ++a)
    ctx->NewBuilder().Broadcast(in).Split(indices, a).Split(out, axis + a).Build();
  ctx->NewBuilder().Split(in, axis).Broadcast(indices).PartialSum(out).Build();
  ctx->NewBuilder().PartialSum(in).Broadcast(indices).PartialSum(out).Build();
  return Maybe<void>::Ok();
}
Maybe<void> embeddingSbp(user_op::SbpContext *ctx) {
  const int64_t indexRank = ctx->LogicalTensorDesc4InputArgNameAndIndex("indices", 0).shape().NumAxes();
  const user_op::OpArg weight("weight", 0), indices("indices", 0), out("out", 0);
  for (int64_t a = 0; a < indexRank; ++a) ctx->NewBuilder().Broadcast(weight).Split(indices, a).Split(out, a).Build();
  ctx->NewBuilder().Split(weight, 1).Broadcast(indices).Split(out, indexRank).Build();
  ctx->NewBuilder().Split(weight, 0).Broadcast(indices).PartialSum(out).Build();
  ctx->NewBuilder().PartialSum(weight).Broadcast(indices).PartialSum(out).Build();
  return Maybe<void>::Ok();
}

const std::vector<DataType> kSampleTypes = {kFloat, kDouble, kFloat16, kUInt8, kInt64};

REGISTER_USER_OP("gather")
    .Input("in")
    .Input("indices")
    .Output("out")
    .Attr<int64_t>("axis", 0)
    .SetTensorDescInferFn(inferGather)
    .SetGetSbpFn(gatherSbp)
    .Doc("out[..., i, ...] = in[..., indices[i], ...]: axis `axis` of in is replaced by the axes of indices (i32 or "
         "i64). An index outside [0, dimension) is an error at run time.")
    .Cases({user_op::Case("rows").In("in", {5, 3}).In("indices", kInt64, {4}, 0, 5).Types(kSampleTypes),
            user_op::Case("columns")
                .In("in", {2, 6, 3})
                .In("indices", kInt32, {2, 2}, 0, 6)
                .Attr<int64_t>("axis", 1)
                .Types(kSampleTypes),
            user_op::Case("scalar_index")
                .In("in", {4, 3})
                .In("indices", kInt64, {}, 0, 3)
                .Attr<int64_t>("axis", -1)
                .Types(kSampleTypes)});

REGISTER_USER_OP("embedding")
    .Input("weight")
    .Input("indices")
    .Output("out")
    .Attr<int64_t>("padding_idx", -1)
    .Attr<bool>("scale_grad_by_freq", false)
    .SetTensorDescInferFn(inferEmbedding)
    .SetGetSbpFn(embeddingSbp)
    .Doc("out[i, :] = weight[indices[i], :]. padding_idx (an entry that gets no gradient; -1: none) and "
         "scale_grad_by_freq matter to the gradient only. An index outside [0, entries) is an error at run time.")
    .Cases({user_op::Case("sentence")
                .In("weight", {7, 4})
                .In("indices", kInt64, {2, 3}, 0, 7)
                .Types({kFloat, kDouble, kFloat16})});

OPC_ANY_TYPE_CPU_KERNEL("gather", GatherKernel);
OPC_ANY_TYPE_CPU_KERNEL("embedding", GatherKernel);

} // namespace
} // namespace opc::ops
