// unsorted_segment_sum, its _like form, unsorted_batch_segment_sum, and batch_gather, whose gradient the last one is.
// SPDX-License-Identifier: Apache-2.0
#include "support/Accumulate.h"
#include "support/Axes.h"
#include "support/IndexCheck.h"

namespace opc::ops {
namespace {

/// data = (before, ids..., after); out = (before, segments, after).
Maybe<void> inferSegmentSum(InferContext *ctx) {
  JUST(checkIndexType(ctx, "segment_ids"));
  const TensorDesc data = *ctx->TensorDesc4ArgNameAndIndex("data", 0);
  const Shape ids = ctx->InputShape("segment_ids", 0);
  const bool batch = !ctx->user_op_conf().has_attr("axis");
  const int64_t rank = data.shape().NumAxes();
  if (batch && ids.NumAxes() == 0)
    return Error::ShapeMismatch() << "segment_ids has rank 0, it should have the batch axes and one more";
  const int64_t axis = batch ? 0 : JUST(resolveAxis(ctx->Attr<int64_t>("axis"), std::max<int64_t>(1, rank)));
  bool fits = axis + ids.NumAxes() <= rank;
  for (int64_t a = 0; fits && a < ids.NumAxes(); ++a) fits = ids.At(a) == data.shape().At(axis + a);
  if (!fits)
    return (Error::ShapeMismatch() << "segment_ids is " << ids.ToString() << ", data is " << data.shape().ToString()
                                   << " from axis " << axis << " on")
        .help("data has the axes of segment_ids at the summed place");
  const bool hasLike = ctx->has_input("like", 0);
  const int64_t segments =
      hasLike ? (axis < ctx->InputShape("like", 0).NumAxes() ? ctx->InputShape("like", 0).At(axis) : -1)
              : ctx->Attr<int64_t>("num_segments");
  if (segments < 0) return Error("OPC0205") << "the number of segments is " << segments;
  DimVector dims(data.shape().begin(), data.shape().begin() + axis);
  if (batch) dims.assign(ids.begin(), ids.end() - 1);
  dims.push_back(segments);
  dims.insert(dims.end(), data.shape().begin() + axis + ids.NumAxes(), data.shape().end());
  if (hasLike && Shape(dims) != ctx->InputShape("like", 0))
    return Error::ShapeMismatch() << "like is " << ctx->InputShape("like", 0).ToString() << ", the sums have the shape "
                                  << Shape(dims).ToString();
  *ctx->TensorDesc4ArgNameAndIndex("out", 0) = TensorDesc(Shape(dims), data.data_type());
  return Maybe<void>::Ok();
}

template <class T> class SegmentSumKernel final : public BindingKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    const Tensor *data = ctx->Tensor4ArgNameAndIndex("data", 0), *ids = ctx->Tensor4ArgNameAndIndex("segment_ids", 0);
    const bool batch = !ctx->user_op_conf().has_attr("axis");
    const Shape idShape = ids->shape(), outShape = ctx->Tensor4ArgNameAndIndex("out", 0)->shape();
    const int64_t axis =
        batch ? idShape.NumAxes() - 1
              : valueOf(resolveAxis(ctx->Attr<int64_t>("axis"), std::max<int64_t>(1, data->shape().NumAxes())));
    const IndexRange range = indexRange(ctx, "out", axis);
    const int64_t segments = outShape.At(axis), inner = outShape.Count(axis + 1), outer = outShape.Count(0, axis);
    const int64_t n = batch ? idShape.At(axis) : idShape.elem_cnt();
    Accumulated<T> out(ctx, "out", nullptr);
    const T *rows = data->template dptr<T>();
    return withIndexType(ids->data_type(), [&](auto tag) -> std::unique_ptr<user_op::BoundKernel> {
      using I = decltype(tag);
      const I *id = ids->dptr<I>();
      return user_op::bindTask([=](DeviceCtx *dev) {
        checkIndices(dev, id, idShape, range.whole, "segment_ids", "the segments");
        out.begin(dev);
        out.addRows(dev, rows, outer, n, inner, [&](int64_t o, int64_t i) {
          const int64_t place = range.place(id[batch ? o * n + i : i]);
          return range.holds(place) ? (o * segments + place) * inner : int64_t{-1};
        });
        out.end(dev);
      });
    });
  }
};

Maybe<void> inferBatchGather(InferContext *ctx) {
  JUST(checkIndexType(ctx, "indices"));
  const TensorDesc in = *ctx->TensorDesc4ArgNameAndIndex("in", 0);
  const Shape indices = ctx->InputShape("indices", 0);
  bool fits = indices.NumAxes() > 0 && indices.NumAxes() <= in.shape().NumAxes();
  for (int64_t a = 0; fits && a + 1 < indices.NumAxes(); ++a) fits = indices.At(a) == in.shape().At(a);
  if (!fits)
    return (Error::ShapeMismatch() << "indices is " << indices.ToString() << ", in is " << in.shape().ToString())
        .help("all axes of indices but the last are batch axes, which in has too");
  DimVector dims = indices.dim_vec();
  dims.insert(dims.end(), in.shape().begin() + indices.NumAxes(), in.shape().end());
  *ctx->TensorDesc4ArgNameAndIndex("out", 0) = TensorDesc(Shape(dims), in.data_type());
  return Maybe<void>::Ok();
}

class BatchGatherKernel final : public BindingKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    const Tensor *in = ctx->Tensor4ArgNameAndIndex("in", 0), *indices = ctx->Tensor4ArgNameAndIndex("indices", 0);
    const Shape shape = indices->shape();
    const int64_t axis = shape.NumAxes() - 1, limit = in->shape().At(axis), n = shape.At(axis), all = shape.elem_cnt();
    const IndexRange range = indexRange(ctx, "in", axis);
    const int64_t row = in->shape().Count(axis + 1) * static_cast<int64_t>(GetSizeOfDataType(in->data_type()));
    const char *from = static_cast<const char *>(in->raw_dptr());
    char *to = static_cast<char *>(ctx->Tensor4ArgNameAndIndex("out", 0)->mut_raw_dptr());
    return withIndexType(indices->data_type(), [&](auto tag) -> std::unique_ptr<user_op::BoundKernel> {
      using I = decltype(tag);
      const I *index = indices->dptr<I>();
      return user_op::bindTask([=](DeviceCtx *dev) {
        checkIndices(dev, index, shape, range.whole, "indices", "the gathered axis");
        dev->parallelFor(all, std::max<int64_t>(1, 65536 / std::max<int64_t>(1, row)), [&](int64_t b, int64_t e) {
          for (int64_t i = b; i < e; ++i) {
            const int64_t place = range.place(index[i]);
            if (range.holds(place))
              std::memcpy(to + i * row, from + (i / n * limit + place) * row, static_cast<size_t>(row));
            else
              std::memset(to + i * row, 0, static_cast<size_t>(row));
          }
        });
      });
    });
  }
};

/// Split ids sum to partial sums; axes beside the segments split.
Maybe<void> segmentSbp(user_op::SbpContext *ctx) {
  const int64_t rank = ctx->LogicalTensorDesc4InputArgNameAndIndex("data", 0).shape().NumAxes();
  const int64_t ids = ctx->LogicalTensorDesc4InputArgNameAndIndex("segment_ids", 0).shape().NumAxes();
  const int64_t axis = JUST(resolveAxis(ctx->Attr<int64_t>("axis"), std::max<int64_t>(1, rank)));
  const user_op::OpArg data("data", 0), id("segment_ids", 0), out("out", 0), like("like", 0);
  const bool hasLike = ctx->has_input("like", 0);
  for (int64_t a = 0; a < rank; ++a) {
    auto b = ctx->NewBuilder();
    b.Split(data, a);
    if (a >= axis && a < axis + ids) {
      b.Split(id, a - axis).PartialSum(out);
      if (hasLike) b.Broadcast(like);
    } else {
      const int64_t to = a < axis ? a : a - ids + 1;
      b.Broadcast(id).Split(out, to);
      if (hasLike) b.Split(like, to);
    }
    b.Build();
  }
  // Each device has some of the segments.
  auto segments = ctx->NewBuilder();
  segments.Broadcast(data).Broadcast(id).Split(out, axis);
  if (hasLike) segments.Split(like, axis);
  segments.Build();
  auto b = ctx->NewBuilder();
  b.PartialSum(data).Broadcast(id).PartialSum(out);
  if (hasLike) b.Broadcast(like);
  b.Build();
  return Maybe<void>::Ok();
}

/// One tensor has the axes (batch..., long, after...), the other (batch..., ids, after...), the indices (batch...,
/// ids): batch_gather reads the first, unsorted_batch_segment_sum adds up into it.
Maybe<void> batchSbp(user_op::SbpContext *ctx, const char *input, bool gathers) {
  const int64_t rank = ctx->LogicalTensorDesc4InputArgNameAndIndex(input, 0).shape().NumAxes();
  const user_op::OpArg in(input, 0), id(gathers ? "indices" : "segment_ids", 0), out("out", 0);
  const int64_t axis = ctx->LogicalTensorDesc4InputArgNameAndIndex(id.name(), 0).shape().NumAxes() - 1;
  for (int64_t a = 0; a < rank; ++a) {
    if (a == axis) continue;
    auto b = ctx->NewBuilder();
    b.Split(in, a).Split(out, a);
    if (a < axis)
      b.Split(id, a);
    else
      b.Broadcast(id);
    b.Build();
  }
  if (gathers) {
    ctx->NewBuilder().Split(in, axis).Broadcast(id).PartialSum(out).Build();
    ctx->NewBuilder().Broadcast(in).Split(id, axis).Split(out, axis).Build();
  } else {
    ctx->NewBuilder().Split(in, axis).Split(id, axis).PartialSum(out).Build();
    ctx->NewBuilder().Broadcast(in).Broadcast(id).Split(out, axis).Build();
  }
  ctx->NewBuilder().PartialSum(in).Broadcast(id).PartialSum(out).Build();
  return Maybe<void>::Ok();
}

REGISTER_USER_OP("unsorted_segment_sum")
    .Input("data")
    .Input("segment_ids")
    .Output("out")
    .Attr<int64_t>("axis", 0)
    .RequiredAttr<int64_t>("num_segments")
    .SetTensorDescInferFn(inferSegmentSum)
    .SetGetSbpFn(segmentSbp)
    .Doc("out[..., s, ...] is the sum of the slices of data along `axis` whose segment id (i32 or i64) is s, added "
         "in order. An id outside [0, num_segments) is an error at run time.")
    .Cases(
        {user_op::Case("rows").In("data", {7, 3}).In("segment_ids", kInt64, {7}, 0, 4).Attr<int64_t>("num_segments", 4),
         user_op::Case("axis1")
             .In("data", {2, 5, 3})
             .In("segment_ids", kInt32, {5}, 0, 3)
             .Attr<int64_t>("num_segments", 3)
             .Attr<int64_t>("axis", 1)});

REGISTER_USER_OP("unsorted_segment_sum_like")
    .Input("data")
    .Input("segment_ids")
    .Input("like")
    .Output("out")
    .Attr<int64_t>("axis", 0)
    .SetTensorDescInferFn(inferSegmentSum)
    .SetGetSbpFn(segmentSbp)
    .Doc("unsorted_segment_sum in the shape of like, whose values are not read: the gradient of gather.")
    .Cases({user_op::Case("rows").In("data", {7, 3}).In("segment_ids", kInt64, {7}, 0, 4).In("like", {4, 3})});

REGISTER_USER_OP("unsorted_batch_segment_sum")
    .Input("data")
    .Input("segment_ids")
    .Output("out")
    .RequiredAttr<int64_t>("num_segments")
    .SetTensorDescInferFn(inferSegmentSum)
    .SetGetSbpFn([](user_op::SbpContext *ctx) { return batchSbp(ctx, "data", false); })
    .Doc("unsorted_segment_sum for each batch entry by itself; all axes of segment_ids but the last are batch axes.")
    .Cases({user_op::Case("batch")
                .In("data", {2, 5, 3})
                .In("segment_ids", kInt64, {2, 5}, 0, 4)
                .Attr<int64_t>("num_segments", 4)});

REGISTER_USER_OP("batch_gather")
    .Input("in")
    .Input("indices")
    .Output("out")
    .SetTensorDescInferFn(inferBatchGather)
    .SetGetSbpFn([](user_op::SbpContext *ctx) { return batchSbp(ctx, "in", true); })
    .Doc("out[b, i, ...] = in[b, indices[b, i], ...]: all axes of indices (i32 or i64) but the last are batch axes. "
         "An index outside the axis is an error at run time.")
    .Cases({user_op::Case("batch")
                .In("in", {2, 5, 3})
                .In("indices", kInt64, {2, 4}, 0, 5)
                .Types({kFloat, kDouble, kFloat16, kUInt8, kInt64}),
            user_op::Case("vector").In("in", {5}).In("indices", kInt32, {4}, 0, 5).Types({kFloat, kInt64})});

const CpuKernelOptions kSums{accumulatorSize("out"), nullptr};
OPC_CPU_KERNELS_WITH("unsorted_segment_sum", "data", kSums, SegmentSumKernel, float, double, float16, bfloat16, int32_t,
                     int64_t);
OPC_CPU_KERNELS_WITH("unsorted_segment_sum_like", "data", kSums, SegmentSumKernel, float, double, float16, bfloat16,
                     int32_t, int64_t);
OPC_CPU_KERNELS_WITH("unsorted_batch_segment_sum", "data", kSums, SegmentSumKernel, float, double, float16, bfloat16,
                     int32_t, int64_t);
OPC_ANY_TYPE_CPU_KERNEL("batch_gather", BatchGatherKernel);

} // namespace
} // namespace opc::ops
