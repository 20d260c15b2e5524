// unsorted_segment_sum, its _like form, and unsorted_batch_segment_sum.
// SPDX-License-Identifier: Apache-2.0
#include "index/IndexOnGpu.h"
#include "support/FunctionKernel.h"
#include "support/SbpRules.h"

namespace opc::ops {
namespace {

enum class Form { kAxis, kLike, kBatch };

/// The first axis of data that segment_ids has too.
template <Form form> Maybe<int64_t> axisOf(const OpContext &ctx, const Shape &data) {
  if (form == Form::kBatch) return int64_t{0};
  return resolveAxis(ctx.Attr<int64_t>("axis"), std::max<int64_t>(1, data.NumAxes()));
}

/// data = (before, ids..., after); out = (before, segments, after).
template <Form form> Maybe<void> infer(InferContext *ctx) {
  JUST(checkIndexType(ctx, "segment_ids"));
  const TensorDesc data = ctx->In("data");
  const Shape ids = ctx->In("segment_ids").shape();
  if (form == Form::kBatch && ids.NumAxes() == 0)
    return Error::ShapeMismatch() << "segment_ids has rank 0, it should have the batch axes and one more";
  const int64_t axis = JUST(axisOf<form>(*ctx, data.shape()));
  bool fits = axis + ids.NumAxes() <= data.shape().NumAxes();
  for (int64_t a = 0; fits && a < ids.NumAxes(); ++a) fits = ids.At(a) == data.shape().At(axis + a);
  if (!fits)
    return (Error::ShapeMismatch() << "segment_ids is " << ids.ToString() << ", data is " << data.shape().ToString()
                                   << " from axis " << axis << " on")
        .help("data has the axes of segment_ids at the summed place");
  const Shape like = form == Form::kLike ? ctx->In("like").shape() : Shape();
  const int64_t segments = form != Form::kLike     ? ctx->Attr<int64_t>("num_segments")
                           : axis < like.NumAxes() ? like.At(axis)
                                                   : -1;
  if (segments < 0) return Error("OPC0205") << "the number of segments is " << segments;
  DimVector dims(data.shape().begin(), data.shape().begin() + axis);
  if (form == Form::kBatch) dims.assign(ids.begin(), ids.end() - 1);
  dims.push_back(segments);
  dims.insert(dims.end(), data.shape().begin() + axis + ids.NumAxes(), data.shape().end());
  if (form == Form::kLike && Shape(dims) != like)
    return Error::ShapeMismatch() << "like is " << like.ToString() << ", the sums have the shape "
                                  << Shape(dims).ToString();
  return setOut(ctx, "out", TensorDesc(Shape(dims), data.data_type()));
}

template <Form form, class T> std::unique_ptr<BoundKernel> bindSums(KernelBindContext *ctx) {
  const Tensor &data = ctx->In("data"), &ids = ctx->In("segment_ids");
  constexpr bool batch = form == Form::kBatch;
  const int64_t axis = batch ? ids.shape().NumAxes() - 1 : valueOf(axisOf<form>(*ctx, data.shape()));
  return withIndices(ids, [&](const auto *id) {
    const AxisRows rows(ctx, id, "segment_ids", "out", axis, "the segments", batch);
    if (isOnGpu(ctx))
      return bindScatterOnGpu(ctx, {"scatter_add", true}, nullptr, data, ctx->Out("out"), rowIndices(ctx, rows));
    return bindScatter<Add>(Accumulated<T>(ctx, "out", nullptr), data, rows);
  });
}
template <class T> using SumKernel = FunctionKernel<bindSums<Form::kAxis, T>>;
template <class T> using BatchKernel = FunctionKernel<bindSums<Form::kBatch, T>>;

/// Split ids sum to partial sums; axes beside the segments split, and each device may have some of the segments. The
/// values of like are not read.
template <Form kForm> Maybe<ShardingRule> sharding(const SbpContext &ctx) {
  constexpr bool batch = kForm == Form::kBatch;
  const Shape &shape = ctx.In("data").shape();
  const int64_t count = ctx.In("segment_ids").shape().NumAxes();
  const int64_t axis = batch ? count - 1 : JUST(axisOf<kForm>(ctx, shape)), end = batch ? count : axis + count;
  const AxisFactors data = axisFactors(shape.NumAxes()), sums(data.begin() + axis, data.begin() + end);
  const AxisFactors ids(data.begin() + (batch ? 0 : axis), data.begin() + end);
  AxisFactors out = data;
  out.erase(out.begin() + axis, out.begin() + end);
  out.insert(out.begin() + axis, "segments");
  std::vector<AxisFactors> inputs{data, ids};
  if (kForm == Form::kLike) inputs.push_back(unread(out));
  return withSums(sums, shardingRule(inputs, {out}, Linear({0})));
}

REGISTER_USER_OP("unsorted_segment_sum")
    .With(TensorArgs{{"data", "segment_ids"}, {"out"}})
    .Attr<int64_t>("axis", 0)
    .RequiredAttr<int64_t>("num_segments")
    .With(rules(infer<Form::kAxis>, sharding<Form::kAxis>))
    .Doc("out[..., s, ...] is the sum of the slices of data along `axis` whose segment id (i32 or i64) is s, added "
         "in order. An id outside [0, num_segments) is an error at run time.")
    .Cases({Case("rows").In("data", {7, 3}).In("segment_ids", kInt64, {7}, 0, 4).Attr<int64_t>("num_segments", 4),
            Case("axis1")
                .In("data", {2, 5, 3})
                .In("segment_ids", kInt32, {5}, 0, 3)
                .Attr<int64_t>("num_segments", 3)
                .Attr<int64_t>("axis", 1)})
    .With(accumulating<SumKernel>("data", "out"));

REGISTER_USER_OP("unsorted_segment_sum_like")
    .With(TensorArgs{{"data", "segment_ids", "like"}, {"out"}})
    .Attr<int64_t>("axis", 0)
    .With(rules(infer<Form::kLike>, sharding<Form::kLike>))
    .Doc("unsorted_segment_sum in the shape of like, whose values are not read: the gradient of gather.")
    .Cases({Case("rows").In("data", {7, 3}).In("segment_ids", kInt64, {7}, 0, 4).In("like", {4, 3})})
    .With(accumulating<SumKernel>("data", "out"));

REGISTER_USER_OP("unsorted_batch_segment_sum")
    .With(TensorArgs{{"data", "segment_ids"}, {"out"}})
    .RequiredAttr<int64_t>("num_segments")
    .With(rules(infer<Form::kBatch>, sharding<Form::kBatch>))
    .Doc("unsorted_segment_sum for each batch entry by itself; all axes of segment_ids but the last are batch axes.")
    .Cases(
        {Case("batch").In("data", {2, 5, 3}).In("segment_ids", kInt64, {2, 5}, 0, 4).Attr<int64_t>("num_segments", 4)})
    .With(accumulating<BatchKernel>("data", "out"));

} // namespace
} // namespace opc::ops
