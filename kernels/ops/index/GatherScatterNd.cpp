// gather_nd, scatter_nd, scatter_nd_like, tensor_scatter_nd_update, tensor_scatter_nd_add: slices addressed by index
// tuples.
// SPDX-License-Identifier: Apache-2.0
#include "support/Accumulate.h"
#include "support/Axes.h"
#include "support/IndexCheck.h"
#include "support/StridedCopy.h"

namespace opc::ops {
namespace {

/// indices (..., K) address the first K axes of a tensor of shape `into`; the slices have the axes that remain.
Maybe<Shape> sliceShape(const Shape &indices, const Shape &into) {
  if (indices.NumAxes() == 0)
    return Error::ShapeMismatch() << "indices has rank 0; its last axis holds the index tuples";
  const int64_t k = indices.At(indices.NumAxes() - 1);
  if (k > into.NumAxes())
    return (Error::ShapeMismatch() << "the index tuples of indices " << indices.ToString() << " have " << k
                                   << " entries, the indexed tensor " << into.ToString() << " has rank "
                                   << into.NumAxes())
        .help("the last axis of indices is at most as long as the rank of the indexed tensor");
  DimVector dims(indices.begin(), indices.end() - 1);
  dims.insert(dims.end(), into.begin() + k, into.end());
  return Shape(dims);
}

Maybe<void> inferGatherNd(InferContext *ctx) {
  JUST(checkIndexType(ctx, "indices"));
  const TensorDesc params = *ctx->TensorDesc4ArgNameAndIndex("params", 0);
  *ctx->TensorDesc4ArgNameAndIndex("out", 0) =
      TensorDesc(JUST(sliceShape(ctx->InputShape("indices", 0), params.shape())), params.data_type());
  return Maybe<void>::Ok();
}

Maybe<void> inferScatter(InferContext *ctx) {
  JUST(checkIndexType(ctx, "indices"));
  const TensorDesc updates = *ctx->TensorDesc4ArgNameAndIndex("updates", 0);
  Shape out;
  for (const char *base : {"like", "params"})
    if (ctx->has_input(base, 0)) {
      out = ctx->InputShape(base, 0);
      if (ctx->InputDType(base, 0) != updates.data_type())
        return (Error::TypeError() << "updates is " << dataTypeName(updates.data_type()) << ", " << base << " is "
                                   << dataTypeName(ctx->InputDType(base, 0)))
            .help("cast updates");
    }
  if (ctx->user_op_conf().has_attr("shape")) {
    out = ctx->Attr<Shape>("shape");
    for (int64_t d : out)
      if (d < 0) return Error("OPC0205") << "shape " << out.ToString() << " has the dimension " << d;
  }
  const Shape want = JUST(sliceShape(ctx->InputShape("indices", 0), out));
  if (updates.shape() != want)
    return (Error::ShapeMismatch() << "updates is " << updates.shape().ToString() << "; indices "
                                   << ctx->InputShape("indices", 0).ToString() << " into " << out.ToString()
                                   << " ask for " << want.ToString())
        .help("updates has the axes of indices but the last, then the axes that are not indexed");
  *ctx->TensorDesc4ArgNameAndIndex("out", 0) = TensorDesc(out, updates.data_type());
  return Maybe<void>::Ok();
}

/// The tuples of an op instance: offsets into the indexed tensor.
template <class I> struct Tuples {
  const I *data;
  Shape shape; // of indices
  DimVector limits, strides;
  int64_t count, width, inner;

  Tuples(const Tensor *indices, const Shape &into) : data(indices->dptr<I>()), shape(indices->shape()) {
    width = shape.At(shape.NumAxes() - 1);
    count = shape.Count(0, shape.NumAxes() - 1);
    inner = into.Count(width);
    const DimVector all = rowMajorStrides(into);
    limits.assign(into.begin(), into.begin() + width);
    strides.assign(all.begin(), all.begin() + width);
  }
  int64_t offset(int64_t i) const {
    int64_t at = 0;
    for (int64_t k = 0; k < width; ++k)
      at += static_cast<int64_t>(data[i * width + k]) * strides[static_cast<size_t>(k)];
    return at;
  }
  void check(DeviceCtx *dev) const {
    std::atomic<bool> bad{false};
    dev->parallelFor(count, 8192, [&](int64_t b, int64_t e) {
      for (int64_t i = b; i < e; ++i)
        for (int64_t k = 0; k < width; ++k) {
          const I v = data[i * width + k];
          if (v < 0 || static_cast<int64_t>(v) >= limits[static_cast<size_t>(k)])
            bad.store(true, std::memory_order_relaxed);
        }
    });
    if (!bad.load(std::memory_order_relaxed)) return;
    for (int64_t j = 0; j < count * width; ++j) {
      const int64_t limit = limits[static_cast<size_t>(j % width)];
      if (data[j] < 0 || static_cast<int64_t>(data[j]) >= limit)
        throw ContractError("indices" + positionText(shape, j) + " = " + std::to_string(data[j]) + " is outside [0, " +
                            std::to_string(limit) + "), the range of axis " + std::to_string(j % width));
    }
  }
};

/// gather_nd, and tensor_scatter_nd_update with the direction turned round.
class MoveNdKernel final : public BindingKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    const Tensor *params = ctx->Tensor4ArgNameAndIndex("params", 0),
                 *indices = ctx->Tensor4ArgNameAndIndex("indices", 0);
    Tensor *out = ctx->Tensor4ArgNameAndIndex("out", 0);
    const bool scatter = ctx->TensorDesc4ArgNameAndIndex("updates", 0) != nullptr;
    const char *updates =
        scatter ? static_cast<const char *>(ctx->Tensor4ArgNameAndIndex("updates", 0)->raw_dptr()) : nullptr;
    const char *from = static_cast<const char *>(params->raw_dptr());
    char *to = static_cast<char *>(out->mut_raw_dptr());
    const int64_t size = static_cast<int64_t>(GetSizeOfDataType(params->data_type())),
                  bytes = params->shape().elem_cnt() * size;
    return withIndexType(indices->data_type(), [&](auto tag) -> std::unique_ptr<user_op::BoundKernel> {
      Tuples<decltype(tag)> tuples(indices, params->shape());
      return user_op::bindTask([=](DeviceCtx *dev) {
        tuples.check(dev);
        const int64_t row = tuples.inner * size;
        if (!scatter) {
          dev->parallelFor(tuples.count, std::max<int64_t>(1, 65536 / std::max<int64_t>(1, row)),
                           [&](int64_t b, int64_t e) {
                             for (int64_t i = b; i < e; ++i)
                               std::memcpy(to + i * row, from + tuples.offset(i) * size, static_cast<size_t>(row));
                           });
          return;
        }
        copyBytes(dev, from, to, bytes);
        // In order, so that of equal tuples the last one stays.
        for (int64_t i = 0; i < tuples.count; ++i)
          std::memcpy(to + tuples.offset(i) * size, updates + i * row, static_cast<size_t>(row));
      });
    });
  }
};

/// dy where each slice of updates was written, and 0 for those that a later one replaced.
class UpdateGradNdKernel final : public BindingKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    const Tensor *dy = ctx->Tensor4ArgNameAndIndex("dy", 0), *indices = ctx->Tensor4ArgNameAndIndex("indices", 0);
    const char *from = static_cast<const char *>(dy->raw_dptr());
    char *to = static_cast<char *>(ctx->Tensor4ArgNameAndIndex("dx", 0)->mut_raw_dptr());
    const int64_t size = static_cast<int64_t>(GetSizeOfDataType(dy->data_type())), places = dy->shape().elem_cnt();
    char *seen = places ? static_cast<char *>(ctx->Tensor4ArgNameAndIndex("tmp_buffer", 0)->mut_raw_dptr()) : nullptr;
    return withIndexType(indices->data_type(), [&](auto tag) -> std::unique_ptr<user_op::BoundKernel> {
      Tuples<decltype(tag)> tuples(indices, dy->shape());
      return user_op::bindTask([=](DeviceCtx *dev) {
        tuples.check(dev);
        const int64_t row = tuples.inner * size;
        if (row == 0) return;
        std::memset(seen, 0, static_cast<size_t>(places));
        for (int64_t i = tuples.count; i-- > 0;) { // backwards: the first visit of a place is the last write to it
          const int64_t at = tuples.offset(i);
          if (seen[at])
            std::memset(to + i * row, 0, static_cast<size_t>(row));
          else
            std::memcpy(to + i * row, from + at * size, static_cast<size_t>(row));
          seen[at] = 1;
        }
      });
    });
  }
};

template <class T> class AddNdKernel final : public BindingKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    const Tensor *indices = ctx->Tensor4ArgNameAndIndex("indices", 0);
    const bool hasBase = ctx->TensorDesc4ArgNameAndIndex("params", 0) != nullptr;
    Accumulated<T> out(ctx, "out", hasBase ? ctx->Tensor4ArgNameAndIndex("params", 0)->template dptr<T>() : nullptr);
    const T *updates = ctx->Tensor4ArgNameAndIndex("updates", 0)->template dptr<T>();
    return withIndexType(indices->data_type(), [&](auto tag) -> std::unique_ptr<user_op::BoundKernel> {
      Tuples<decltype(tag)> tuples(indices, ctx->Tensor4ArgNameAndIndex("out", 0)->shape());
      return user_op::bindTask([=](DeviceCtx *dev) {
        tuples.check(dev);
        out.begin(dev);
        out.addRows(dev, updates, 1, tuples.count, tuples.inner, [&](int64_t, int64_t i) { return tuples.offset(i); });
        out.end(dev);
      });
    });
  }
};

Maybe<void> gatherNdSbp(user_op::SbpContext *ctx) {
  const Shape params = ctx->LogicalTensorDesc4InputArgNameAndIndex("params", 0).shape();
  const Shape indices = ctx->LogicalTensorDesc4InputArgNameAndIndex("indices", 0).shape();
  const user_op::OpArg p("params", 0), i("indices", 0), out("out", 0);
  const int64_t lead = indices.NumAxes() - 1, k = indices.At(lead);
  for (int64_t a = 0; a < lead; ++a) ctx->NewBuilder().Broadcast(p).Split(i, a).Split(out, a).Build();
  for (int64_t a = k; a < params.NumAxes(); ++a)
    ctx->NewBuilder().Split(p, a).Broadcast(i).Split(out, lead + a - k).Build();
  ctx->NewBuilder().PartialSum(p).Broadcast(i).PartialSum(out).Build();
  return Maybe<void>::Ok();
}
/// The sums: split tuples add up to partial sums of a result that starts from zero.
Maybe<void> scatterNdSbp(user_op::SbpContext *ctx) {
  const Shape indices = ctx->LogicalTensorDesc4InputArgNameAndIndex("indices", 0).shape();
  const user_op::OpArg u("updates", 0), i("indices", 0), out("out", 0), like("like", 0);
  const bool hasLike = ctx->has_input("like", 0);
  for (int64_t a = -1; a < indices.NumAxes() - 1; ++a) {
    auto b = ctx->NewBuilder();
    if (a < 0)
      b.PartialSum(u).Broadcast(i);
    else
      b.Split(u, a).Split(i, a);
    b.PartialSum(out);
    if (hasLike) b.Broadcast(like);
    b.Build();
  }
  const int64_t rank = hasLike ? ctx->LogicalTensorDesc4InputArgNameAndIndex("like", 0).shape().NumAxes()
                               : ctx->Attr<Shape>("shape").NumAxes();
  const int64_t lead = indices.NumAxes() - 1, k = indices.At(lead);
  for (int64_t a = k; a < rank; ++a) {
    auto b = ctx->NewBuilder();
    b.Split(u, lead + a - k).Broadcast(i).Split(out, a);
    if (hasLike) b.Split(like, a);
    b.Build();
  }
  return Maybe<void>::Ok();
}

/// The axes that the tuples do not address, in the tensor and in the slices.
template <class Add> Maybe<void> sliceAxes(user_op::SbpContext *ctx, int64_t intoRank, Add add) {
  const Shape indices = ctx->LogicalTensorDesc4InputArgNameAndIndex("indices", 0).shape();
  const int64_t lead = indices.NumAxes() - 1, k = indices.At(lead);
  for (int64_t a = k; a < intoRank; ++a) add(a, lead + a - k);
  return Maybe<void>::Ok();
}
/// params and updates together: each part has some of every slice, or addends of both.
Maybe<void> tensorScatterSbp(user_op::SbpContext *ctx) {
  const user_op::OpArg p("params", 0), u("updates", 0), i("indices", 0), out("out", 0);
  const int64_t rank = ctx->LogicalTensorDesc4InputArgNameAndIndex("params", 0).shape().NumAxes();
  JUST(sliceAxes(ctx, rank, [&](int64_t a, int64_t b) {
    ctx->NewBuilder().Split(p, a).Split(u, b).Broadcast(i).Split(out, a).Build();
  }));
  ctx->NewBuilder().PartialSum(p).PartialSum(u).Broadcast(i).PartialSum(out).Build();
  return Maybe<void>::Ok();
}

const std::vector<DataType> kMoved = {kFloat, kDouble, kFloat16, kUInt8, kInt64};
const char *const kTuples =
    "The last axis of indices (i32 or i64) holds index tuples into the first axes of the tensor. An index outside "
    "its axis is an error at run time. ";

REGISTER_USER_OP("gather_nd")
    .Input("params")
    .Input("indices")
    .Output("out")
    .SetTensorDescInferFn(inferGatherNd)
    .SetGetSbpFn(gatherNdSbp)
    .Doc(std::string(kTuples) + "out holds the slices of params that they address.")
    .Cases({user_op::Case("rows").In("params", {4, 3}).In("indices", kInt64, {5, 1}, 0, 4).Types(kMoved),
            user_op::Case("elements").In("params", {4, 3}).In("indices", kInt32, {2, 3, 2}, 0, 3).Types(kMoved)});

REGISTER_USER_OP("scatter_nd")
    .Input("indices")
    .Input("updates")
    .Output("out")
    .RequiredAttr<Shape>("shape")
    .SetTensorDescInferFn(inferScatter)
    .SetGetSbpFn(scatterNdSbp)
    .Doc(std::string(kTuples) +
         "out is zero but for the addressed slices, to which updates are added in order; equal tuples add up.")
    .Cases(
        {user_op::Case("rows").In("indices", kInt64, {5, 1}, 0, 4).In("updates", {5, 3}).Attr("shape", Shape({4, 3})),
         user_op::Case("elements")
             .In("indices", kInt32, {6, 2}, 0, 3)
             .In("updates", {6})
             .Attr("shape", Shape({3, 4}))});

REGISTER_USER_OP("scatter_nd_like")
    .Input("like")
    .Input("indices")
    .Input("updates")
    .Output("out")
    .SetTensorDescInferFn(inferScatter)
    .SetGetSbpFn(scatterNdSbp)
    .Doc(std::string(kTuples) + "As scatter_nd, in the shape of like, whose values are not read.")
    .Cases({user_op::Case("rows").In("like", {4, 3}).In("indices", kInt64, {5, 1}, 0, 4).In("updates", {5, 3})});

REGISTER_USER_OP("tensor_scatter_nd_update")
    .Input("params")
    .Input("updates")
    .Input("indices")
    .Output("out")
    .SetTensorDescInferFn(inferScatter)
    .SetGetSbpFn(tensorScatterSbp)
    .Doc(std::string(kTuples) +
         "out is params with the addressed slices replaced by updates; of equal tuples the last one stays.")
    .Cases({user_op::Case("rows")
                .In("params", {4, 3})
                .In("updates", {2, 3})
                .In("indices", kInt64, {2, 1}, 0, 4)
                .Types(kMoved)});

REGISTER_USER_OP("tensor_scatter_nd_add")
    .Input("params")
    .Input("updates")
    .Input("indices")
    .Output("out")
    .SetTensorDescInferFn(inferScatter)
    .SetGetSbpFn(tensorScatterSbp)
    .Doc(std::string(kTuples) +
         "out is params with updates added to the addressed slices in order; equal tuples add up.")
    .Cases({user_op::Case("rows").In("params", {4, 3}).In("updates", {5, 3}).In("indices", kInt64, {5, 1}, 0, 4)});

REGISTER_USER_OP("tensor_scatter_nd_update_grad")
    .GradientOf("tensor_scatter_nd_update")
    .Input("dy")
    .Input("indices")
    .Output("dx")
    .SetTensorDescInferFn([](InferContext *ctx) -> Maybe<void> {
      JUST(checkIndexType(ctx, "indices"));
      const TensorDesc dy = ctx->InputTensorDesc("dy", 0);
      *ctx->MutOutputTensorDesc("dx", 0) =
          TensorDesc(JUST(sliceShape(ctx->InputShape("indices", 0), dy.shape())), dy.data_type());
      return Maybe<void>::Ok();
    })
    .SetGetSbpFn([](user_op::SbpContext *ctx) -> Maybe<void> {
      const user_op::OpArg dy("dy", 0), i("indices", 0), dx("dx", 0);
      const int64_t rank = ctx->LogicalTensorDesc4InputArgNameAndIndex("dy", 0).shape().NumAxes();
      JUST(sliceAxes(ctx, rank,
                     [&](int64_t a, int64_t b) { ctx->NewBuilder().Split(dy, a).Broadcast(i).Split(dx, b).Build(); }));
      ctx->NewBuilder().PartialSum(dy).Broadcast(i).PartialSum(dx).Build();
      return Maybe<void>::Ok();
    })
    .Doc(std::string(kTuples) +
         "The gradient of tensor_scatter_nd_update by updates: dx holds the slices of dy that the tuples address. Of "
         "equal tuples only the last one counted; the others get 0.")
    .Cases({user_op::Case("rows")
                .In("dy", {4, 3})
                .In("indices", kInt64, {5, 1}, 0, 4)
                .Types({kFloat, kDouble, kFloat16})});
OPC_ANY_TYPE_CPU_KERNEL("tensor_scatter_nd_update_grad", UpdateGradNdKernel,
                        CpuKernelOptions{[](InferContext *ctx) -> size_t {
                                           return static_cast<size_t>(ctx->InputShape("dy", 0).elem_cnt());
                                         },
                                         nullptr});

OPC_ANY_TYPE_CPU_KERNEL("gather_nd", MoveNdKernel);
OPC_ANY_TYPE_CPU_KERNEL("tensor_scatter_nd_update", MoveNdKernel);
const CpuKernelOptions kSums{accumulatorSize("out"), nullptr};
OPC_CPU_KERNELS_WITH("scatter_nd", "updates", kSums, AddNdKernel, float, double, float16, bfloat16, int32_t, int64_t);
OPC_CPU_KERNELS_WITH("scatter_nd_like", "updates", kSums, AddNdKernel, float, double, float16, bfloat16, int32_t,
                     int64_t);
OPC_CPU_KERNELS_WITH("tensor_scatter_nd_add", "updates", kSums, AddNdKernel, float, double, float16, bfloat16, int32_t,
                     int64_t);

} // namespace
} // namespace opc::ops
