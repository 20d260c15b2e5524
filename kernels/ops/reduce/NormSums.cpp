// square_sum, multi_square_sum and count_not_finite, which gradient clipping and loss scaling need; reduce_nansum.
// SPDX-License-Identifier: Apache-2.0
#include "reduce/ReduceOp.h"

#include <cmath>
#include <numeric>

namespace opc::ops::reduce {
namespace {

template <class T> struct SquareReducer : SumReducer<T> {
  using typename SumReducer<T>::Load;
  using typename SumReducer<T>::Lane;
  Lane step(Lane a, Load x, double) const { return a + static_cast<Lane>(x) * static_cast<Lane>(x); }
};
template <class T> struct NanSumReducer : SumReducer<T> {
  using typename SumReducer<T>::Load;
  using typename SumReducer<T>::Lane;
  Lane step(Lane a, Load x, double) const { return a + (x == x ? static_cast<Lane>(x) : Lane(0)); }
};
template <class T> struct NotFiniteReducer {
  using Load = LoadOf<T>;
  using Lane = uint32_t; // a block has at most 4096 elements
  using Acc = int64_t;
  Lane lane0() const { return 0; }
  Acc acc0() const { return 0; }
  Lane step(Lane a, Load x, double) const {
    return a + static_cast<Lane>(!(std::abs(x) <= std::numeric_limits<Load>::max()));
  }
  Lane join(Lane a, Lane b) const { return a + b; }
  Acc merge(Acc a, Lane b) const { return a + static_cast<Acc>(b); }
  Acc combine(Acc a, Acc b) const { return a + b; }
};

ReducePlan wholePlan(const Shape &shape) {
  std::vector<int64_t> axes(static_cast<size_t>(shape.NumAxes()));
  std::iota(axes.begin(), axes.end(), 0);
  return ReducePlan::make(shape, axes);
}

/// Reduces each of the inputs "x" whole, and adds up the results, into y of one element.
template <class T, class Out, class R> class WholeKernel : public BindingKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    using Acc = typename R::Acc;
    struct Part {
      ReducePlan plan;
      const T *data;
    };
    std::vector<Part> parts;
    bool partial = false;
    for (int32_t i = 0; i < ctx->input_size("x"); ++i) {
      const Tensor *x = ctx->Tensor4ArgNameAndIndex("x", i);
      parts.push_back({wholePlan(x->shape()), x->template dptr<T>()});
      partial |= parts.back().plan.partials() > 0;
    }
    Acc *partials =
        partial ? static_cast<Acc *>(ctx->Tensor4ArgNameAndIndex("tmp_buffer", 0)->mut_raw_dptr()) : nullptr;
    Out *to = ctx->Tensor4ArgNameAndIndex("y", 0)->template mut_dptr<Out>();
    return user_op::bindTask([=, parts = std::move(parts)](DeviceCtx *dev) {
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
template <class T> using NanSumKernel = ReduceKernel<T, T, NanSumReducer<T>>;

size_t wholeTmpSize(InferContext *ctx) {
  int64_t most = 0;
  for (int32_t i = 0; i < ctx->input_size("x"); ++i)
    most = std::max(most, wholePlan(ctx->InputShape("x", i)).partials());
  return static_cast<size_t>(most) * 8;
}

template <bool kCount> Maybe<void> infer(InferContext *ctx) {
  const DataType type = ctx->InputDType("x", 0);
  for (int32_t i = 1; i < ctx->input_size("x"); ++i)
    if (ctx->InputDType("x", i) != type)
      return (Error::TypeError() << "x_" << i << " is " << dataTypeName(ctx->InputDType("x", i)) << ", x_0 is "
                                 << dataTypeName(type))
          .help("cast the inputs to one dtype");
  *ctx->TensorDesc4ArgNameAndIndex("y", 0) = TensorDesc(Shape({1}), kCount ? kInt64 : type);
  return Maybe<void>::Ok();
}
/// Squares of pieces add up to squares of the whole.
Maybe<void> sbp(user_op::SbpContext *ctx) {
  int64_t rank = INT64_MAX;
  for (const auto &[arg, i] : ctx->inputs())
    rank = std::min(rank, ctx->LogicalTensorDesc4InputArgNameAndIndex(arg, i).shape().NumAxes());
  for (int64_t a = 0; a < rank; ++a) ctx->NewBuilder().Split(ctx->inputs(), a).PartialSum(ctx->outputs()).Build();
  return Maybe<void>::Ok();
}

REGISTER_USER_OP("square_sum")
    .Input("x")
    .Output("y")
    .SetTensorDescInferFn(infer<false>)
    .SetGetSbpFn(sbp)
    .Doc("y, of one element, is the sum of the squares of all elements of x, accumulated as reduce_sum does.")
    .Cases({user_op::Case("matrix").In("x", {7, 9}), user_op::Case("scalar").In("x", {})});

REGISTER_USER_OP("multi_square_sum")
    .InputWithMinimum("x", 1)
    .Output("y")
    .SetTensorDescInferFn(infer<false>)
    .SetGetSbpFn(sbp)
    .Doc("y, of one element, is the sum of the squares of all elements of all inputs, which have one dtype: the square "
         "of a global norm.")
    .Cases({user_op::Case("three").In("x", {7, 9}, -1, 1, 0).In("x", {5}, -1, 1, 1).In("x", {2, 2, 2}, -1, 1, 2)});

REGISTER_USER_OP("count_not_finite")
    .Input("x")
    .Output("y")
    .SetTensorDescInferFn(infer<true>)
    .SetGetSbpFn(sbp)
    .NoGrad("counts are not differentiable")
    .Doc("y (i64, of one element) is how many elements of x are infinite or NaN.")
    .Cases({user_op::Case("matrix").In("x", {7, 9})});

REGISTER_USER_OP("reduce_nansum")
    .Input("input_tensor")
    .Output("output_tensor")
    .RequiredAttr<std::vector<int32_t>>("axis")
    .Attr<bool>("keepdims", false)
    .SetTensorDescInferFn(inferReduce)
    .SetGetSbpFn(plainReduceSbp)
    .Doc(std::string("The sum over the given axes of the elements that are not NaN. ") + kAxisDoc +
         "Accumulated as reduce_sum does.")
    .Cases(reduceCases());

const CpuKernelOptions kWhole{wholeTmpSize, nullptr}, kReduce{reduceTmpSize, nullptr};
OPC_CPU_KERNELS_WITH("square_sum", "x", kWhole, SquareSumKernel, float, double, float16, bfloat16);
OPC_CPU_KERNELS_WITH("multi_square_sum", "x", kWhole, SquareSumKernel, float, double, float16, bfloat16);
OPC_CPU_KERNELS_WITH("count_not_finite", "x", kWhole, CountKernel, float, double, float16, bfloat16);
OPC_CPU_KERNELS_WITH("reduce_nansum", "input_tensor", kReduce, NanSumKernel, float, double, float16, bfloat16);

} // namespace
} // namespace opc::ops::reduce
