// dim_gather, dim_scatter_{update,add,mul} and dim_scatter_add_like: elements addressed along one axis.
// SPDX-License-Identifier: Apache-2.0
#include "support/Accumulate.h"
#include "support/Axes.h"
#include "support/IndexCheck.h"
#include "support/StridedCopy.h"
#include "support/Walk.h"

namespace opc::ops {
namespace {

Maybe<void> fitsInside(const Shape &index, const Shape &other, int64_t freeAxis, const char *name) {
  bool fits = index.NumAxes() == other.NumAxes();
  for (int64_t a = 0; fits && a < index.NumAxes(); ++a) fits = a == freeAxis || index.At(a) <= other.At(a);
  if (!fits)
    return (Error::ShapeMismatch() << "index is " << index.ToString() << ", " << name << " is " << other.ToString())
        .help("index has the rank of the other operands and is nowhere longer than they are, but for the indexed "
              "axis of the indexed one");
  return Maybe<void>::Ok();
}

Maybe<void> inferDimGather(InferContext *ctx) {
  JUST(checkIndexType(ctx, "index"));
  const TensorDesc input = *ctx->TensorDesc4ArgNameAndIndex("input", 0);
  const Shape index = ctx->InputShape("index", 0);
  const int64_t dim = JUST(resolveAxis(ctx->Attr<int32_t>("dim"), input.shape().NumAxes(), "dim"));
  JUST(fitsInside(index, input.shape(), dim, "input"));
  *ctx->TensorDesc4ArgNameAndIndex("output", 0) = TensorDesc(index, input.data_type());
  return Maybe<void>::Ok();
}

Maybe<void> inferDimScatter(InferContext *ctx) {
  JUST(checkIndexType(ctx, "index"));
  const char *base = ctx->has_input("like", 0) ? "like" : "input";
  const TensorDesc input = *ctx->TensorDesc4ArgNameAndIndex(base, 0);
  const Shape index = ctx->InputShape("index", 0);
  const int64_t dim = JUST(resolveAxis(ctx->Attr<int32_t>("dim"), input.shape().NumAxes(), "dim"));
  JUST(fitsInside(index, input.shape(), dim, base));
  JUST(fitsInside(index, ctx->InputShape("src", 0), -1, "src"));
  if (ctx->InputDType("src", 0) != input.data_type())
    return (Error::TypeError() << "src is " << dataTypeName(ctx->InputDType("src", 0)) << ", " << base << " is "
                               << dataTypeName(input.data_type()))
        .help("cast src");
  *ctx->TensorDesc4ArgNameAndIndex("output", 0) = input;
  return Maybe<void>::Ok();
}

/// The positions of `index` without axis `dim`, with their offsets in a tensor of shape `shape`.
std::vector<StridedDim> others(const Shape &index, int64_t dim, const Shape &shape) {
  const DimVector strides = rowMajorStrides(shape);
  std::vector<StridedDim> dims;
  for (int64_t a = 0; a < index.NumAxes(); ++a)
    if (a != dim) dims.push_back({index.At(a), strides[static_cast<size_t>(a)]});
  return dims;
}

/// Lines along `dim`: where they lie in index, in the indexed tensor, and in src (or the output of a gather).
struct Lines {
  std::vector<StridedDim> index, indexed, other;
  int64_t count, length, indexStep, indexedStep, otherStep, limit;

  Lines(const Shape &indexShape, const Shape &indexedShape, const Shape &otherShape, int64_t dim)
      : index(others(indexShape, dim, indexShape)), indexed(others(indexShape, dim, indexedShape)),
        other(others(indexShape, dim, otherShape)) {
    const size_t d = static_cast<size_t>(dim);
    length = indexShape.At(dim);
    count = length == 0 ? 0 : indexShape.elem_cnt() / length;
    indexStep = rowMajorStrides(indexShape)[d];
    indexedStep = rowMajorStrides(indexedShape)[d];
    otherStep = rowMajorStrides(otherShape)[d];
    limit = indexedShape.At(dim);
  }
  /// f(index offset, indexed offset, other offset) for each line; lines are independent of each other.
  template <class F> void forEach(DeviceCtx *dev, F f) const {
    if (count == 0) return;
    dev->parallelFor(count, std::max<int64_t>(1, 8192 / std::max<int64_t>(1, length)), [&](int64_t b, int64_t e) {
      Walk i(index, b), x(indexed, b), o(other, b);
      for (int64_t line = b; line < e; ++line, i.next(), x.next(), o.next()) f(i.offset, x.offset, o.offset);
    });
  }
};

class DimGatherKernel final : public BindingKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    const Tensor *input = ctx->Tensor4ArgNameAndIndex("input", 0), *index = ctx->Tensor4ArgNameAndIndex("index", 0);
    const int64_t dim = valueOf(resolveAxis(ctx->Attr<int32_t>("dim"), input->shape().NumAxes()));
    const Shape indexShape = index->shape();
    const Lines lines(indexShape, input->shape(), indexShape, dim);
    const IndexRange range = indexRange(ctx, "input", dim);
    const void *from = input->raw_dptr();
    void *to = ctx->Tensor4ArgNameAndIndex("output", 0)->mut_raw_dptr();
    return withIndexType(index->data_type(), [&](auto tag) -> std::unique_ptr<user_op::BoundKernel> {
      using I = decltype(tag);
      const I *indices = index->dptr<I>();
      return withElementSize(
          GetSizeOfDataType(input->data_type()), [&](auto elementTag) -> std::unique_ptr<user_op::BoundKernel> {
            using T = decltype(elementTag);
            return user_op::bindTask([=](DeviceCtx *dev) {
              checkIndices(dev, indices, indexShape, range.whole, "index", "the indexed axis");
              lines.forEach(dev, [&](int64_t i, int64_t x, int64_t o) {
                for (int64_t k = 0; k < lines.length; ++k) {
                  const int64_t place = range.place(indices[i + k * lines.indexStep]);
                  static_cast<T *>(to)[o + k * lines.otherStep] =
                      range.holds(place) ? static_cast<const T *>(from)[x + place * lines.indexedStep] : T(0);
                }
              });
            });
          });
    });
  }
};

class DimScatterUpdateKernel final : public BindingKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    const Tensor *input = ctx->Tensor4ArgNameAndIndex("input", 0), *index = ctx->Tensor4ArgNameAndIndex("index", 0);
    const Tensor *src = ctx->Tensor4ArgNameAndIndex("src", 0);
    const int64_t dim = valueOf(resolveAxis(ctx->Attr<int32_t>("dim"), input->shape().NumAxes()));
    const Shape indexShape = index->shape();
    const Lines lines(indexShape, input->shape(), src->shape(), dim);
    const void *base = input->raw_dptr(), *from = src->raw_dptr();
    void *to = ctx->Tensor4ArgNameAndIndex("output", 0)->mut_raw_dptr();
    const int64_t bytes = input->shape().elem_cnt() * static_cast<int64_t>(GetSizeOfDataType(input->data_type()));
    return withIndexType(index->data_type(), [&](auto tag) -> std::unique_ptr<user_op::BoundKernel> {
      using I = decltype(tag);
      const I *indices = index->dptr<I>();
      return withElementSize(
          GetSizeOfDataType(input->data_type()), [&](auto elementTag) -> std::unique_ptr<user_op::BoundKernel> {
            using T = decltype(elementTag);
            return user_op::bindTask([=](DeviceCtx *dev) {
              checkIndices(dev, indices, indexShape, lines.limit, "index", "the indexed axis");
              copyBytes(dev, base, to, bytes);
              lines.forEach(dev, [&](int64_t i, int64_t x, int64_t o) {
                for (int64_t k = 0; k < lines.length; ++k)
                  static_cast<T *>(to)[x + static_cast<int64_t>(indices[i + k * lines.indexStep]) * lines.indexedStep] =
                      static_cast<const T *>(from)[o + k * lines.otherStep];
              });
            });
          });
    });
  }
};

/// dy where each src element was written, and 0 for those that a later one replaced. Lines are walked backwards: the
/// first visit of a place is the last write to it.
class DimScatterUpdateGradKernel final : public BindingKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    const Tensor *dy = ctx->Tensor4ArgNameAndIndex("dy", 0), *index = ctx->Tensor4ArgNameAndIndex("index", 0);
    const int64_t dim = valueOf(resolveAxis(ctx->Attr<int32_t>("dim"), dy->shape().NumAxes()));
    const Shape indexShape = index->shape();
    const Lines lines(indexShape, dy->shape(), indexShape, dim);
    const void *from = dy->raw_dptr();
    void *to = ctx->Tensor4ArgNameAndIndex("dx", 0)->mut_raw_dptr();
    const int64_t places = dy->shape().elem_cnt();
    char *seen = places ? static_cast<char *>(ctx->Tensor4ArgNameAndIndex("tmp_buffer", 0)->mut_raw_dptr()) : nullptr;
    return withIndexType(index->data_type(), [&](auto tag) -> std::unique_ptr<user_op::BoundKernel> {
      using I = decltype(tag);
      const I *indices = index->dptr<I>();
      return withElementSize(
          GetSizeOfDataType(dy->data_type()), [&](auto elementTag) -> std::unique_ptr<user_op::BoundKernel> {
            using T = decltype(elementTag);
            return user_op::bindTask([=](DeviceCtx *dev) {
              checkIndices(dev, indices, indexShape, lines.limit, "index", "the indexed axis");
              if (places) std::memset(seen, 0, static_cast<size_t>(places));
              lines.forEach(dev, [&](int64_t i, int64_t x, int64_t o) {
                for (int64_t k = lines.length; k-- > 0;) {
                  const int64_t at = x + static_cast<int64_t>(indices[i + k * lines.indexStep]) * lines.indexedStep;
                  static_cast<T *>(to)[o + k * lines.otherStep] = seen[at] ? T(0) : static_cast<const T *>(from)[at];
                  seen[at] = 1;
                }
              });
            });
          });
    });
  }
};

template <class T, bool kMul> class DimScatterCombineKernel : public BindingKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    const Tensor *index = ctx->Tensor4ArgNameAndIndex("index", 0), *src = ctx->Tensor4ArgNameAndIndex("src", 0);
    const bool hasBase = ctx->TensorDesc4ArgNameAndIndex("input", 0) != nullptr;
    const Shape outShape = ctx->Tensor4ArgNameAndIndex("output", 0)->shape(), indexShape = index->shape();
    const int64_t dim = valueOf(resolveAxis(ctx->Attr<int32_t>("dim"), outShape.NumAxes()));
    const Lines lines(indexShape, outShape, src->shape(), dim);
    const IndexRange range = indexRange(ctx, "output", dim);
    Accumulated<T> out(ctx, "output", hasBase ? ctx->Tensor4ArgNameAndIndex("input", 0)->template dptr<T>() : nullptr);
    const T *from = src->template dptr<T>();
    return withIndexType(index->data_type(), [&](auto tag) -> std::unique_ptr<user_op::BoundKernel> {
      using I = decltype(tag);
      const I *indices = index->dptr<I>();
      return user_op::bindTask([=](DeviceCtx *dev) {
        checkIndices(dev, indices, indexShape, range.whole, "index", "the indexed axis");
        out.begin(dev);
        auto *acc = out.data();
        lines.forEach(dev, [&](int64_t i, int64_t x, int64_t o) {
          for (int64_t k = 0; k < lines.length; ++k) {
            const int64_t place = range.place(indices[i + k * lines.indexStep]);
            if (!range.holds(place)) continue;
            auto &a = acc[x + place * lines.indexedStep];
            const auto v = out.value(from[o + k * lines.otherStep]);
            a = kMul ? out.mul(a, v) : out.add(a, v);
          }
        });
        out.end(dev);
      });
    });
  }
};
template <class T> using DimScatterAddKernel = DimScatterCombineKernel<T, false>;
template <class T> using DimScatterMulKernel = DimScatterCombineKernel<T, true>;

/// The gradient of dim_scatter_mul by src: dy * input * the other factors of the place. For each place the product of
/// the factors that are not 0, in f64, and how many are.
template <class T> class DimScatterMulGradKernel final : public BindingKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    const Tensor *index = ctx->Tensor4ArgNameAndIndex("index", 0), *input = ctx->Tensor4ArgNameAndIndex("input", 0);
    const int64_t dim = valueOf(resolveAxis(ctx->Attr<int32_t>("dim"), input->shape().NumAxes()));
    const Shape indexShape = index->shape();
    const Lines lines(indexShape, input->shape(), indexShape, dim);
    const T *dy = ctx->Tensor4ArgNameAndIndex("dy", 0)->template dptr<T>(), *base = input->template dptr<T>(),
            *src = ctx->Tensor4ArgNameAndIndex("src", 0)->template dptr<T>();
    T *dsrc = ctx->Tensor4ArgNameAndIndex("dsrc", 0)->template mut_dptr<T>();
    const int64_t places = input->shape().elem_cnt();
    double *products =
        places ? static_cast<double *>(ctx->Tensor4ArgNameAndIndex("tmp_buffer", 0)->mut_raw_dptr()) : nullptr;
    int64_t *zeros = reinterpret_cast<int64_t *>(products + places);
    return withIndexType(index->data_type(), [&](auto tag) -> std::unique_ptr<user_op::BoundKernel> {
      using I = decltype(tag);
      const I *indices = index->dptr<I>();
      return user_op::bindTask([=](DeviceCtx *dev) {
        checkIndices(dev, indices, indexShape, lines.limit, "index", "the indexed axis");
        lines.forEach(dev, [&](int64_t i, int64_t x, int64_t o) {
          const auto place = [&](int64_t k) {
            return x + static_cast<int64_t>(indices[i + k * lines.indexStep]) * lines.indexedStep;
          };
          for (int64_t k = 0; k < lines.limit; ++k) {
            products[x + k * lines.indexedStep] = 1;
            zeros[x + k * lines.indexedStep] = 0;
          }
          for (int64_t k = 0; k < lines.length; ++k) {
            const double factor = wide(src[o + k * lines.otherStep]);
            if (factor == 0)
              ++zeros[place(k)];
            else
              products[place(k)] *= factor;
          }
          for (int64_t k = 0; k < lines.length; ++k) {
            const int64_t at = place(k);
            const double factor = wide(src[o + k * lines.otherStep]),
                         all = wide(dy[at]) * wide(base[at]) * products[at];
            const double d = zeros[at] == 0 ? all / factor : zeros[at] == 1 && factor == 0 ? all : 0.0;
            dsrc[o + k * lines.otherStep] = T(static_cast<Narrow>(d));
          }
        });
      });
    });
  }

private:
  using Narrow = std::conditional_t<std::is_same_v<T, double>, double, float>;
  static double wide(T v) { return static_cast<double>(static_cast<Narrow>(v)); }
};

/// Axes other than `dim` split when all operands are equally long there.
Maybe<void> sbp(user_op::SbpContext *ctx) {
  const Shape first = ctx->LogicalTensorDesc4InputArgNameAndIndex(ctx->inputs()[0].first, 0).shape();
  const int64_t dim = JUST(resolveAxis(ctx->Attr<int32_t>("dim"), first.NumAxes(), "dim"));
  for (int64_t a = 0; a < first.NumAxes(); ++a) {
    bool equal = a != dim;
    for (const auto &[arg, i] : ctx->inputs())
      equal = equal && ctx->LogicalTensorDesc4InputArgNameAndIndex(arg, i).shape().At(a) == first.At(a);
    if (equal) ctx->NewBuilder().Split(ctx->inputs(), a).Split(ctx->outputs(), a).Build();
  }
  return Maybe<void>::Ok();
}

/// dim_gather: the indexed axis may be split, which gives partial sums, or that of the indices.
Maybe<void> gatherSbp(user_op::SbpContext *ctx) {
  JUST(sbp(ctx));
  const user_op::OpArg input("input", 0), index("index", 0), output("output", 0);
  const int64_t rank = ctx->LogicalTensorDesc4InputArgNameAndIndex("input", 0).shape().NumAxes();
  const int64_t dim = JUST(resolveAxis(ctx->Attr<int32_t>("dim"), rank, "dim"));
  ctx->NewBuilder().Broadcast(input).Split(index, dim).Split(output, dim).Build();
  ctx->NewBuilder().Split(input, dim).Broadcast(index).PartialSum(output).Build();
  ctx->NewBuilder().PartialSum(input).Broadcast(index).PartialSum(output).Build();
  return Maybe<void>::Ok();
}
/// dim_scatter_add_like: the same turned round.
Maybe<void> scatterAddLikeSbp(user_op::SbpContext *ctx) {
  JUST(sbp(ctx));
  const user_op::OpArg like("like", 0), index("index", 0), src("src", 0), output("output", 0);
  const Shape indices = ctx->LogicalTensorDesc4InputArgNameAndIndex("index", 0).shape();
  const int64_t dim = JUST(resolveAxis(ctx->Attr<int32_t>("dim"), indices.NumAxes(), "dim"));
  if (ctx->LogicalTensorDesc4InputArgNameAndIndex("src", 0).shape().At(dim) == indices.At(dim))
    ctx->NewBuilder().Broadcast(like).Split(index, dim).Split(src, dim).PartialSum(output).Build();
  ctx->NewBuilder().Split(like, dim).Broadcast(index).Broadcast(src).Split(output, dim).Build();
  ctx->NewBuilder().Broadcast(like).Broadcast(index).PartialSum(src).PartialSum(output).Build();
  return Maybe<void>::Ok();
}

const std::vector<DataType> kMoved = {kFloat, kDouble, kFloat16, kUInt8, kInt64};

REGISTER_USER_OP("dim_gather")
    .Input("input")
    .Input("index")
    .Output("output")
    .RequiredAttr<int32_t>("dim")
    .SetTensorDescInferFn(inferDimGather)
    .SetGetSbpFn(gatherSbp)
    .Doc("output[i, j, k] = input[i, index[i, j, k], k] for dim = 1, and likewise for other axes: PyTorch's gather. "
         "index is i32 or i64; a value outside the axis is an error at run time.")
    .Cases({user_op::Case("columns")
                .In("input", {3, 5})
                .In("index", kInt64, {3, 4}, 0, 5)
                .Attr<int32_t>("dim", 1)
                .Types(kMoved),
            user_op::Case("rows")
                .In("input", {4, 5})
                .In("index", kInt32, {6, 3}, 0, 4)
                .Attr<int32_t>("dim", 0)
                .Types(kMoved)});

#define OPC_DIM_SCATTER(name, verb)                                                                                    \
  REGISTER_USER_OP(name)                                                                                               \
      .Input("input")                                                                                                  \
      .Input("index")                                                                                                  \
      .Input("src")                                                                                                    \
      .Output("output")                                                                                                \
      .RequiredAttr<int32_t>("dim")                                                                                    \
      .SetTensorDescInferFn(inferDimScatter)                                                                           \
      .SetGetSbpFn(sbp)                                                                                                \
      .Doc("output is input, where element [i, index[i, j, k], k] (for dim = 1) " verb                                 \
           " src[i, j, k], in the order of j. "                                                                        \
           "index is i32 or i64; a value outside the axis is an error at run time.")
// Distinct indices in the samples would need a permutation; one row of indices per line cannot collide.
OPC_DIM_SCATTER("dim_scatter_update", "is replaced by")
    .Cases({user_op::Case("columns")
                .In("input", {3, 5})
                .In("index", kInt64, {3, 1}, 0, 5)
                .In("src", {3, 1})
                .Attr<int32_t>("dim", 1)
                .Types(kMoved)});
OPC_DIM_SCATTER("dim_scatter_add", "is increased by")
    .Cases({user_op::Case("columns")
                .In("input", {3, 5})
                .In("index", kInt64, {3, 8}, 0, 5)
                .In("src", {3, 8})
                .Attr<int32_t>("dim", 1),
            user_op::Case("rows")
                .In("input", {4, 5})
                .In("index", kInt32, {6, 3}, 0, 4)
                .In("src", {7, 5})
                .Attr<int32_t>("dim", 0)});
OPC_DIM_SCATTER("dim_scatter_mul", "is multiplied by")
    .Cases({user_op::Case("columns")
                .In("input", {3, 5})
                .In("index", kInt64, {3, 8}, 0, 5)
                .In("src", {3, 8})
                .Attr<int32_t>("dim", 1)});

REGISTER_USER_OP("dim_scatter_add_like")
    .Input("like")
    .Input("index")
    .Input("src")
    .Output("output")
    .RequiredAttr<int32_t>("dim")
    .SetTensorDescInferFn(inferDimScatter)
    .SetGetSbpFn(scatterAddLikeSbp)
    .Doc("dim_scatter_add into zeros of the shape of like, whose values are not read: the gradient of dim_gather.")
    .Cases({user_op::Case("columns")
                .In("like", {3, 5})
                .In("index", kInt64, {3, 8}, 0, 5)
                .In("src", {3, 8})
                .Attr<int32_t>("dim", 1)});

REGISTER_USER_OP("dim_scatter_update_grad")
    .GradientOf("dim_scatter_update")
    .Input("dy")
    .Input("index")
    .Output("dx")
    .RequiredAttr<int32_t>("dim")
    .SetTensorDescInferFn([](InferContext *ctx) -> Maybe<void> {
      JUST(checkIndexType(ctx, "index"));
      const TensorDesc dy = ctx->InputTensorDesc("dy", 0);
      const Shape index = ctx->InputShape("index", 0);
      const int64_t dim = JUST(resolveAxis(ctx->Attr<int32_t>("dim"), dy.shape().NumAxes(), "dim"));
      JUST(fitsInside(index, dy.shape(), dim, "dy"));
      *ctx->MutOutputTensorDesc("dx", 0) = TensorDesc(index, dy.data_type());
      return Maybe<void>::Ok();
    })
    .SetGetSbpFn(sbp)
    .Doc("The gradient of dim_scatter_update by src: dx, in the shape of index, holds the entries of dy where the "
         "elements of src were written. Of several written to one place only the last one counted; the others get 0.")
    .Cases({user_op::Case("columns")
                .In("dy", {3, 5})
                .In("index", kInt64, {3, 4}, 0, 5)
                .Attr<int32_t>("dim", 1)
                .Types({kFloat, kDouble, kFloat16}),
            user_op::Case("rows")
                .In("dy", {4, 3})
                .In("index", kInt32, {6, 2}, 0, 4)
                .Attr<int32_t>("dim", 0)
                .Types({kFloat, kDouble})});
OPC_ANY_TYPE_CPU_KERNEL("dim_scatter_update_grad", DimScatterUpdateGradKernel,
                        CpuKernelOptions{[](InferContext *ctx) -> size_t {
                                           return static_cast<size_t>(ctx->InputShape("dy", 0).elem_cnt());
                                         },
                                         nullptr});

REGISTER_USER_OP("dim_scatter_mul_grad")
    .GradientOf("dim_scatter_mul")
    .Input("dy")
    .Input("input")
    .Input("index")
    .Input("src")
    .Output("dsrc")
    .RequiredAttr<int32_t>("dim")
    .SetTensorDescInferFn([](InferContext *ctx) -> Maybe<void> {
      JUST(checkIndexType(ctx, "index"));
      const TensorDesc input = ctx->InputTensorDesc("input", 0), src = ctx->InputTensorDesc("src", 0);
      const Shape index = ctx->InputShape("index", 0);
      const int64_t dim = JUST(resolveAxis(ctx->Attr<int32_t>("dim"), input.shape().NumAxes(), "dim"));
      JUST(fitsInside(index, input.shape(), dim, "input"));
      if (ctx->InputTensorDesc("dy", 0) != input || src != TensorDesc(index, input.data_type()))
        return Error::ShapeMismatch() << "dy is " << ctx->InputTensorDesc("dy", 0).toString() << " and src "
                                      << src.toString() << ", expected " << input.toString() << " and "
                                      << TensorDesc(index, input.data_type()).toString();
      *ctx->MutOutputTensorDesc("dsrc", 0) = src;
      return Maybe<void>::Ok();
    })
    .SetGetSbpFn(sbp)
    .Doc("The gradient of dim_scatter_mul by src, which has the shape of index: dsrc is dy * input at the place that "
         "an element of src multiplies, times the other elements that do, right also where some are 0.")
    .Cases({user_op::Case("columns")
                .In("dy", {3, 3})
                .In("input", {3, 3}, 0.5, 1.5)
                .In("index", kInt64, {3, 5}, 0, 3)
                .In("src", {3, 5}, 0.5, 1.5)
                .Attr<int32_t>("dim", 1)});
OPC_CPU_KERNELS_WITH("dim_scatter_mul_grad", "dy",
                     (CpuKernelOptions{[](InferContext *ctx) -> size_t {
                                         return static_cast<size_t>(ctx->InputShape("input", 0).elem_cnt()) * 16;
                                       },
                                       nullptr}),
                     DimScatterMulGradKernel, float, double, float16, bfloat16);

OPC_ANY_TYPE_CPU_KERNEL("dim_gather", DimGatherKernel);
OPC_ANY_TYPE_CPU_KERNEL("dim_scatter_update", DimScatterUpdateKernel);
const CpuKernelOptions kSums{accumulatorSize("output"), nullptr};
OPC_CPU_KERNELS_WITH("dim_scatter_add", "src", kSums, DimScatterAddKernel, float, double, float16, bfloat16, int32_t,
                     int64_t);
OPC_CPU_KERNELS_WITH("dim_scatter_add_like", "src", kSums, DimScatterAddKernel, float, double, float16, bfloat16,
                     int32_t, int64_t);
OPC_CPU_KERNELS_WITH("dim_scatter_mul", "src", kSums, DimScatterMulKernel, float, double, float16, bfloat16, int32_t,
                     int64_t);

} // namespace
} // namespace opc::ops
