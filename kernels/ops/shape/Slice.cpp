// slice, slice_update, slice_grad and narrow: boxes cut out of a tensor, or written into one.
// SPDX-License-Identifier: Apache-2.0
#include "support/Axes.h"
#include "support/CpuKernels.h"
#include "support/SbpRules.h"
#include "support/StridedCopy.h"

namespace opc::ops {
namespace {

/// A box: the first index of each axis, its step, and how many indices it takes.
struct Box {
  DimVector first, step, count;
};

Maybe<Box> resolveBox(const std::vector<int64_t> &start, const std::vector<int64_t> &stop,
                      const std::vector<int64_t> &step, const Shape &shape) {
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

Maybe<Box> boxOf(const user_op::OpContext *ctx, const Shape &shape) {
  using List = std::vector<int64_t>;
  return resolveBox(ctx->Attr<List>("start"), ctx->Attr<List>("stop"), ctx->Attr<List>("step"), shape);
}

Maybe<Box> narrowBox(const user_op::OpContext *ctx, const Shape &shape) {
  const int64_t dim = JUST(resolveAxis(ctx->Attr<int64_t>("dim"), shape.NumAxes(), "dim"));
  const int64_t n = shape.At(dim), length = ctx->Attr<int64_t>("length");
  int64_t start = ctx->Attr<int64_t>("start");
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

/// Where the box begins in a row-major tensor, and its strides there.
std::pair<int64_t, DimVector> place(const Box &box, const Shape &shape) {
  DimVector strides = rowMajorStrides(shape);
  int64_t offset = 0;
  for (size_t i = 0; i < strides.size(); ++i) {
    offset += box.first[i] * strides[i];
    strides[i] *= box.step[i];
  }
  return {offset, strides};
}

Maybe<void> inferSlice(InferContext *ctx) {
  const Box box = JUST(boxOf(ctx, ctx->InputShape("x", 0)));
  *ctx->TensorDesc4ArgNameAndIndex("y", 0) = TensorDesc(Shape(box.count), ctx->InputDType("x", 0));
  return Maybe<void>::Ok();
}
Maybe<void> inferNarrow(InferContext *ctx) {
  const Box box = JUST(narrowBox(ctx, ctx->InputShape("in", 0)));
  *ctx->TensorDesc4ArgNameAndIndex("out", 0) = TensorDesc(Shape(box.count), ctx->InputDType("in", 0));
  return Maybe<void>::Ok();
}
Maybe<void> inferSliceUpdate(InferContext *ctx) {
  const TensorDesc ref = *ctx->TensorDesc4ArgNameAndIndex("ref", 0),
                   value = *ctx->TensorDesc4ArgNameAndIndex("value", 0);
  const Box box = JUST(boxOf(ctx, ref.shape()));
  if (value.shape() != Shape(box.count))
    return (Error::ShapeMismatch() << "value is " << value.shape().ToString() << ", the slice of ref "
                                   << ref.shape().ToString() << " is " << Shape(box.count).ToString())
        .help("value must have the shape of the slice; broadcast it with expand first");
  if (value.data_type() != ref.data_type())
    return (Error::TypeError() << "value is " << dataTypeName(value.data_type()) << ", ref is "
                               << dataTypeName(ref.data_type()))
        .help("cast value to the dtype of ref");
  *ctx->TensorDesc4ArgNameAndIndex("y", 0) = ref;
  return Maybe<void>::Ok();
}
Maybe<void> inferSliceGrad(InferContext *ctx) {
  const TensorDesc dy = *ctx->TensorDesc4ArgNameAndIndex("dy", 0);
  const Shape like = ctx->Attr<Shape>("like_shape");
  const Box box = JUST(boxOf(ctx, like));
  if (dy.shape() != Shape(box.count))
    return Error::ShapeMismatch() << "dy is " << dy.shape().ToString() << ", the slice of like_shape "
                                  << like.ToString() << " is " << Shape(box.count).ToString();
  *ctx->TensorDesc4ArgNameAndIndex("dx", 0) = TensorDesc(like, dy.data_type());
  return Maybe<void>::Ok();
}

Maybe<void> inferNarrowGrad(InferContext *ctx) {
  const TensorDesc dy = ctx->InputTensorDesc("dy", 0), like = ctx->InputTensorDesc("like", 0);
  const Box box = JUST(narrowBox(ctx, like.shape()));
  if (dy != TensorDesc(Shape(box.count), like.data_type()))
    return Error::ShapeMismatch() << "dy is " << dy.toString() << ", what narrow takes of like is "
                                  << TensorDesc(Shape(box.count), like.data_type()).toString();
  *ctx->MutOutputTensorDesc("dx", 0) = like;
  return Maybe<void>::Ok();
}

/// slice and narrow.
class CutKernel final : public BindingKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    const bool isNarrow = ctx->user_op_conf().has_attr("length");
    const Tensor *in = ctx->Tensor4ArgNameAndIndex(isNarrow ? "in" : "x", 0);
    Tensor *out = ctx->Tensor4ArgNameAndIndex(isNarrow ? "out" : "y", 0);
    // Of an axis that is taken whole this may be a piece, while `length` is that of the whole.
    const Box all{DimVector(in->shape().dim_vec().size(), 0), DimVector(in->shape().dim_vec().size(), 1),
                  in->shape().dim_vec()};
    const Box box = !isNarrow                     ? valueOf(boxOf(ctx, in->shape()))
                    : in->shape() == out->shape() ? all
                                                  : valueOf(narrowBox(ctx, in->shape()));
    const auto [offset, strides] = place(box, in->shape());
    const size_t size = GetSizeOfDataType(in->data_type());
    StridedCopy copy(size, box.count, strides);
    const char *from = static_cast<const char *>(in->raw_dptr()) + offset * static_cast<int64_t>(size);
    void *to = out->mut_raw_dptr();
    return user_op::bindTask([=](DeviceCtx *dev) { copy.run(dev, from, to); });
  }
};

/// slice_update, slice_grad and narrow_grad: the whole is copied (or zeroed), then the box is written.
class PasteKernel final : public BindingKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    const bool isNarrow = ctx->user_op_conf().has_attr("length");
    const bool isGrad = isNarrow || ctx->user_op_conf().has_attr("like_shape");
    const Tensor *base = isGrad ? nullptr : ctx->Tensor4ArgNameAndIndex("ref", 0);
    const Tensor *value = ctx->Tensor4ArgNameAndIndex(isGrad ? "dy" : "value", 0);
    Tensor *out = ctx->Tensor4ArgNameAndIndex(isGrad ? "dx" : "y", 0);
    const Box box = valueOf(isNarrow ? narrowBox(ctx, out->shape()) : boxOf(ctx, out->shape()));
    const auto [offset, strides] = place(box, out->shape());
    const size_t size = GetSizeOfDataType(out->data_type());
    const int64_t elements = out->shape().elem_cnt();
    DimVector from(box.count.size());
    int64_t n = 1;
    for (size_t i = from.size(); i-- > 0;) from[i] = n, n *= box.count[i];
    StridedCopy copy(size, box.count, from, strides);
    const void *src = value->raw_dptr();
    const void *whole = base ? base->raw_dptr() : nullptr;
    char *dst = static_cast<char *>(out->mut_raw_dptr());
    char *boxAt = dst + offset * static_cast<int64_t>(size);
    return user_op::bindTask([=](DeviceCtx *dev) {
      const uint64_t zero = 0;
      if (whole)
        copyBytes(dev, whole, dst, elements * static_cast<int64_t>(size));
      else
        fillElements(dev, size, &zero, dst, elements);
      copy.run(dev, src, boxAt);
    });
  }
};

/// Axes that the box takes whole stay splittable.
template <int kWhich> Maybe<void> boxSbp(user_op::SbpContext *ctx) {
  const std::string in = kWhich == 0 ? "x" : kWhich == 1 ? "in" : kWhich == 2 ? "ref" : "dy";
  const std::string out = kWhich == 0 ? "y" : kWhich == 1 ? "out" : kWhich == 2 ? "y" : "dx";
  const Shape shape =
      kWhich == 3 ? ctx->Attr<Shape>("like_shape") : ctx->LogicalTensorDesc4InputArgNameAndIndex(in, 0).shape();
  const Box box = JUST(kWhich == 1 ? narrowBox(ctx, shape) : boxOf(ctx, shape));
  for (int64_t a = 0; a < shape.NumAxes(); ++a) {
    const size_t i = static_cast<size_t>(a);
    if (box.count[i] != shape.At(a) || box.step[i] != 1) continue;
    ctx->NewBuilder().Split(ctx->inputs(), a).Split(ctx->outputs(), a).Build();
  }
  ctx->NewBuilder().PartialSum(ctx->inputs()).PartialSum(ctx->outputs()).Build();
  return Maybe<void>::Ok();
}

using List = std::vector<int64_t>;
const std::vector<DataType> kSampleTypes = {kFloat, kDouble, kFloat16, kUInt8, kInt64, kBool};
user_op::Case &withBox(user_op::Case &c, List start, List stop, List step) {
  return c.Attr("start", start).Attr("stop", stop).Attr("step", step).Types(kSampleTypes);
}
user_op::Case slice(const char *name, Shape in, List start, List stop, List step) {
  user_op::Case c(name);
  c.In("x", in, 0, 2);
  return withBox(c, start, stop, step);
}
user_op::Case update(const char *name, Shape ref, Shape value, List start, List stop, List step) {
  user_op::Case c(name);
  c.In("ref", ref, 0, 2).In("value", value, 0, 2);
  return withBox(c, start, stop, step);
}
const char *const kBoxDoc =
    "Each axis takes the entries start, start+step, ... before stop. Negative positions count from the end; "
    "positions beyond an end are clamped to it. With a negative step, stop = -n-1 (n the dimension) or less includes "
    "entry 0. ";

REGISTER_USER_OP("slice")
    .Input("x")
    .Output("y")
    .RequiredAttr<List>("start")
    .RequiredAttr<List>("stop")
    .RequiredAttr<List>("step")
    .SetTensorDescInferFn(inferSlice)
    .SetGetSbpFn(boxSbp<0>)
    .Doc(std::string(kBoxDoc) + "y holds them in that order.")
    .Cases({slice("rows", {5, 4}, {1, 0}, {4, 4}, {1, 1}), slice("steps", {7, 6}, {0, 1}, {7, 6}, {3, 2}),
            slice("backwards", {5, 6}, {-1, 4}, {-6, 0}, {-2, -1}), slice("empty", {5}, {3}, {3}, {1})});

REGISTER_USER_OP("narrow")
    .Input("in")
    .Output("out")
    .RequiredAttr<int64_t>("dim")
    .RequiredAttr<int64_t>("start")
    .RequiredAttr<int64_t>("length")
    .SetTensorDescInferFn(inferNarrow)
    .SetGetSbpFn(boxSbp<1>)
    .Doc("The `length` entries of axis `dim` from `start` on.")
    .Cases({user_op::Case("columns")
                .In("in", {3, 5}, 0, 2)
                .Attr<int64_t>("dim", 1)
                .Attr<int64_t>("start", 1)
                .Attr<int64_t>("length", 3)
                .Types(kSampleTypes),
            user_op::Case("last_row")
                .In("in", {3, 5}, 0, 2)
                .Attr<int64_t>("dim", -2)
                .Attr<int64_t>("start", -1)
                .Attr<int64_t>("length", 1)
                .Types(kSampleTypes),
            user_op::Case("whole_axis") // may be split along it
                .In("in", {5, 3}, 0, 2)
                .Attr<int64_t>("dim", 0)
                .Attr<int64_t>("start", 0)
                .Attr<int64_t>("length", 5)
                .Types(kSampleTypes)});

REGISTER_USER_OP("slice_update")
    .Input("ref")
    .Input("value")
    .Output("y")
    .ArgAlias("x", "ref")
    .ArgAlias("update", "value")
    .RequiredAttr<List>("start")
    .RequiredAttr<List>("stop")
    .RequiredAttr<List>("step")
    .SetTensorDescInferFn(inferSliceUpdate)
    .SetGetSbpFn(boxSbp<2>)
    .Doc(std::string(kBoxDoc) + "y is ref with those entries replaced by value, which has the shape of the slice.")
    .Cases({update("rows", {5, 4}, {2, 4}, {1, 0}, {3, 4}, {1, 1}),
            update("backwards", {5, 4}, {2, 2}, {3, -1}, {0, -5}, {-2, -2})});

REGISTER_USER_OP("slice_grad")
    .GradientOf("slice")
    .Input("dy")
    .Output("dx")
    .RequiredAttr<Shape>("like_shape")
    .RequiredAttr<List>("start")
    .RequiredAttr<List>("stop")
    .RequiredAttr<List>("step")
    .SetTensorDescInferFn(inferSliceGrad)
    .SetGetSbpFn(boxSbp<3>)
    .Doc(std::string(kBoxDoc) +
         "dx has the shape like_shape, dy at those entries, and zeros elsewhere: the gradient of slice.")
    .Cases({[] {
      user_op::Case c("steps");
      c.In("dy", {3, 2}, 0, 2).Attr("like_shape", Shape({7, 5}));
      return withBox(c, {0, 1}, {7, 5}, {3, 2});
    }()});

REGISTER_USER_OP("narrow_grad")
    .GradientOf("narrow")
    .Input("dy")
    .Input("like")
    .Output("dx")
    .RequiredAttr<int64_t>("dim")
    .RequiredAttr<int64_t>("start")
    .RequiredAttr<int64_t>("length")
    .SetTensorDescInferFn(inferNarrowGrad)
    .SetGetSbpFn([](user_op::SbpContext *ctx) -> Maybe<void> {
      const Shape like = ctx->LogicalTensorDesc4InputArgNameAndIndex("like", 0).shape();
      const int64_t dim = JUST(resolveAxis(ctx->Attr<int64_t>("dim"), like.NumAxes(), "dim"));
      for (int64_t a = 0; a < like.NumAxes(); ++a)
        if (a != dim) ctx->NewBuilder().Split(ctx->inputs(), a).Split(ctx->outputs(), a).Build();
      ctx->NewBuilder().PartialSum(ctx->inputs()).PartialSum(ctx->outputs()).Build();
      return Maybe<void>::Ok();
    })
    .Doc("The gradient of narrow, for graphs that have it: dx has the shape of like, whose values are not read, dy "
         "at the `length` entries of axis `dim` from `start` on, and zeros elsewhere. (opc grad uses slice_grad, "
         "which keeps no like.)")
    .Cases({user_op::Case("columns")
                .In("dy", {3, 3}, 0, 2)
                .In("like", {3, 5}, 0, 2)
                .Attr<int64_t>("dim", 1)
                .Attr<int64_t>("start", 1)
                .Attr<int64_t>("length", 3)
                .Types(kSampleTypes)});

OPC_ANY_TYPE_CPU_KERNEL("narrow_grad", PasteKernel);
OPC_ANY_TYPE_CPU_KERNEL("slice", CutKernel);
OPC_ANY_TYPE_CPU_KERNEL("narrow", CutKernel);
OPC_ANY_TYPE_CPU_KERNEL("slice_update", PasteKernel, CpuKernelOptions{nullptr, inplaceOf("y", "ref")});
OPC_ANY_TYPE_CPU_KERNEL("slice_grad", PasteKernel);

} // namespace
} // namespace opc::ops
