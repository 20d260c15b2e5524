// square_sum, multi_square_sum and count_not_finite, which gradient clipping and loss scaling need.
// SPDX-License-Identifier: Apache-2.0
#include "reduce/ReduceOp.h"
#include "support/SbpRules.h"

#include <cmath>
#include <numeric>

namespace opc::ops::reduce {
namespace {

template <class T> struct SquareReducer : SumReducer<T> {
  using typename SumReducer<T>::Load;
  using typename SumReducer<T>::Lane;
  Lane step(Lane a, Load x, double) const { return a + static_cast<Lane>(x) * static_cast<Lane>(x); }
};
template <class T> struct NotFiniteReducer : SumIn<T, uint32_t, int64_t> { // a block has at most 4096 elements
  uint32_t step(uint32_t a, LoadOf<T> x, double) const {
    return a + static_cast<uint32_t>(!(std::abs(x) <= std::numeric_limits<LoadOf<T>>::max()));
  }
};

ReducePlan wholePlan(const Shape &shape) {
  std::vector<int64_t> axes(static_cast<size_t>(shape.NumAxes()));
  std::iota(axes.begin(), axes.end(), 0);
  return ReducePlan::make(shape, axes);
}

/// Reduces each of the inputs "x" whole, and adds up the results, into y of one element.
template <class T, class Out, class R> class WholeKernel : public BindingKernel {
public:
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    using Acc = typename R::Acc;
    struct Part {
      ReducePlan plan;
      const T *data;
    };
    std::vector<Part> parts;
    for (int32_t i = 0; i < ctx->input_size("x"); ++i) {
      const Tensor &x = ctx->In("x", i);
      parts.push_back({wholePlan(x.shape()), x.dptr<T>()});
    }
    Acc *partials = ctx->Tmp<Acc>();
    Out *to = ctx->Out("y").mut_dptr<Out>();
    return bindTask([=, parts = std::move(parts)](DeviceCtx *dev) {
      R reducer;
      Acc sum = reducer.acc0();
      for (const Part &p : parts)
        runReduce(dev, p.plan, reducer, p.data, nullptr, partials,
                  [&](int64_t, Acc acc) { sum = reducer.combine(sum, acc); });
      to[0] = finish<Out>(sum);
    });
  }
};
template <class T> using SquareSumKernel = WholeKernel<T, T, SquareReducer<T>>;
template <class T> using CountKernel = WholeKernel<T, int64_t, NotFiniteReducer<T>>;

size_t wholeTmpSize(InferContext *ctx) {
  int64_t most = 0;
  for (int32_t i = 0; i < ctx->input_size("x"); ++i)
    most = std::max(most, wholePlan(ctx->In("x", i).shape()).partials());
  return static_cast<size_t>(most) * 8;
}

template <bool kCount> Maybe<void> infer(InferContext *ctx) {
  const DataType type = ctx->In("x").data_type();
  for (int32_t i = 1; i < ctx->input_size("x"); ++i)
    if (ctx->In("x", i).data_type() != type)
      return (Error::TypeError() << "x_" << i << " is " << dataTypeName(ctx->In("x", i).data_type()) << ", x_0 is "
                                 << dataTypeName(type))
          .help("cast the inputs to one dtype");
  return setOut(ctx, "y", TensorDesc(Shape({1}), kCount ? kInt64 : type));
}
/// What pieces give adds up to what the whole gives.
Maybe<ShardingRule> sharding(const SbpContext &ctx) {
  const AxisFactors x = axisFactors(ctx.In("x").shape().NumAxes());
  return withSums(x, shardingRule({x}, {{"."}}));
}

/// The same, listed: the inputs differ in their ranks and sizes, and a rule's factors do not.
Maybe<void> listSignatures(SbpContext *ctx) {
  int64_t rank = INT64_MAX;
  for (const auto &[arg, i] : ctx->inputs()) rank = std::min(rank, ctx->In(arg, i).shape().NumAxes());
  for (int64_t a = 0; a < rank; ++a) ctx->NewBuilder().Split(ctx->inputs(), a).PartialSum(ctx->outputs()).Build();
  return Maybe<void>::Ok();
}

KernelOptions wholeKernel() { return KernelOptions().TmpSize(wholeTmpSize); }

REGISTER_USER_OP("square_sum")
    .With(TensorArgs{{"x"}, {"y"}})
    .SetTensorDescInferFn(infer<false>)
    .Sharding(sharding)
    .Doc("y, of one element, is the sum of the squares of all elements of x, accumulated as reduce_sum does.")
    .Cases({Case("matrix").In("x", {7, 9}), Case("scalar").In("x", {})})
    .Kernel<SquareSumKernel, types::Floating>("x", wholeKernel());

REGISTER_USER_OP("multi_square_sum")
    .InputWithMinimum("x", 1)
    .Output("y")
    .SetTensorDescInferFn(infer<false>)
    .SetGetSbpFn(listSignatures)
    .Doc("y, of one element, is the sum of the squares of all elements of all inputs, which have one dtype: the "
         "square of a global norm.")
    .Cases({Case("three").In("x", {7, 9}, -1, 1, 0).In("x", {5}, -1, 1, 1).In("x", {2, 2, 2}, -1, 1, 2)})
    .Kernel<SquareSumKernel, types::Floating>("x", wholeKernel());

REGISTER_USER_OP("count_not_finite")
    .With(TensorArgs{{"x"}, {"y"}})
    .SetTensorDescInferFn(infer<true>)
    .Sharding(sharding)
    .NoGrad("counts are not differentiable")
    .Doc("y (i64, of one element) is how many elements of x are infinite or NaN.")
    .Cases({Case("matrix").In("x", {7, 9})})
    .Kernel<CountKernel, types::Floating>("x", wholeKernel());

} // namespace
} // namespace opc::ops::reduce
