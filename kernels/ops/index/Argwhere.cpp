// argwhere: the places of elements that are not 0, in memory for as many as there can be.
// SPDX-License-Identifier: Apache-2.0
#include "index/FoundArguments.h"
#include "support/CudaTask.h"
#include "support/Operator.h"
#include "support/SbpRules.h"

#include <algorithm>

namespace opc::ops {
namespace {

Maybe<void> infer(InferContext *ctx) {
  const TensorDesc in = ctx->In("input");
  const DataType type = ctx->Attr<DataType>("dtype");
  if (type != kInt32 && type != kInt64)
    return (Error::TypeError() << "dtype is " << dataTypeName(type)).help("places are i32 or i64");
  if (type == kInt32 && in.shape().elem_cnt() > INT32_MAX)
    return (Error::ShapeMismatch() << "input has more than 2^31 elements").help("let dtype be i64");
  ctx->Out("output") = TensorDesc(Shape({in.shape().elem_cnt(), in.shape().NumAxes()}), type);
  return setOut(ctx, "output_size", TensorDesc(Shape({1}), type));
}

/// Whether an element counts: NaN does, both zeros do not.
template <class T> bool isFound(T x) {
  if constexpr (std::is_arithmetic_v<T>)
    return x != T(0);
  else
    return static_cast<float>(x) != 0;
}

/// Writes the place of every element: what does not count is written over. No branch, as few are foreseen.
template <int64_t kRank, class T, class I>
int64_t findInRow(const T *x, int64_t length, const I *outer, int64_t rank, int64_t found, I *places) {
  if constexpr (kRank > 0) rank = kRank;
  for (int64_t i = 0; i < length; ++i) {
    I *place = places + found * rank;
    for (int64_t axis = 0; axis + 1 < rank; ++axis) place[axis] = outer[axis];
    place[rank - 1] = static_cast<I>(i);
    found += isFound(x[i]);
  }
  return found;
}

template <class T, class I> void findPlaces(const T *x, const Shape &shape, I *places, I *count) {
  const int64_t n = shape.elem_cnt(), rank = shape.NumAxes(), length = rank == 0 ? 1 : shape.At(rank - 1);
  int64_t found = 0;
  if (rank == 0) found = isFound(x[0]);
  for (int64_t row = 0; rank > 0 && row * length < n; ++row) {
    I outer[kMaxRank] = {}; // the places along the axes before the last one
    int64_t rest = row;
    for (int64_t axis = rank - 1; axis-- > 0; rest /= shape.At(axis))
      outer[axis] = static_cast<I>(rest % shape.At(axis));
    const auto find = rank == 1 ? findInRow<1, T, I> : rank == 2 ? findInRow<2, T, I> : findInRow<0, T, I>;
    found = find(x + row * length, length, outer, rank, found, places);
  }
  std::fill(places + found * rank, places + n * rank, I(0));
  *count = static_cast<I>(found);
}

template <class T> class ArgwhereKernel final : public BindingKernel {
public:
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    const Tensor &in = ctx->In("input");
    const Shape shape = in.shape();
    Tensor &places = ctx->Out("output"), &count = ctx->Out("output_size");
    if (isOnGpu(ctx)) {
      ArgwhereArguments a{};
      a.in = in.raw_dptr();
      a.places = places.mut_raw_dptr();
      a.count = count.mut_raw_dptr();
      a.n = shape.elem_cnt();
      a.rank = static_cast<int32_t>(shape.NumAxes());
      for (int64_t axis = 0; axis < a.rank; ++axis) a.dims[axis] = shape.At(axis);
      a.isWide = places.data_type() == kInt64;
      const cuda::CudaFunction f =
          cuda::CudaLaunch::of(ctx->device_ctx()).function(kernelOf("argwhere", in.data_type()));
      return bindTask([=](DeviceCtx *dev) { cuda::CudaLaunch::of(dev).run(f, {1, 1, 1}, {cuda::kBlock, 1, 1}, 0, a); });
    }
    const T *x = in.dptr<T>();
    if (places.data_type() == kInt64)
      return bindTask([x, shape, to = places.mut_dptr<int64_t>(), n = count.mut_dptr<int64_t>()](DeviceCtx *) {
        findPlaces(x, shape, to, n);
      });
    return bindTask([x, shape, to = places.mut_dptr<int32_t>(), n = count.mut_dptr<int32_t>()](DeviceCtx *) {
      findPlaces(x, shape, to, n);
    });
  }
};

Case sample(const char *name, Shape shape) { return Case(name).In("input", std::move(shape), -2, 2); }

REGISTER_USER_OP("argwhere")
    .With(TensorArgs{{"input"}, {"output", "output_size"}})
    .Attr<DataType>("dtype", kInt32)
    .SetTensorDescInferFn(infer)
    .Sharding([](const SbpContext &ctx) -> Maybe<ShardingRule> {
      const int64_t rank = ctx.In("input").shape().NumAxes();
      return shardingRule({AxisFactors(static_cast<size_t>(rank), ".")}, {{".", "."}, {"."}});
    })
    .NoGrad("places are not differentiable")
    .Doc("output has a row of indices (dtype: i32 or i64) for each element of input that is not 0, in order; "
         "output_size says how many rows these are, and the rows behind them are 0. NaN is not 0.")
    .Cases({sample("plane", {3, 5}).Types({kFloat, kInt32, kUInt8, kBool, kFloat16}),
            sample("long", {700}).Attr("dtype", kInt64), sample("cube", {2, 3, 2}).Attr("dtype", kInt64),
            sample("scalar", {}), Case("empty").In("input", {0, 3})})
    .With(onCpuAndGpu<ArgwhereKernel, types::Computed>("input"));

} // namespace
} // namespace opc::ops
