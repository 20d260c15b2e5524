// reduce_prod, reduce_any, reduce_all, and reduce_sum_like.
// SPDX-License-Identifier: Apache-2.0
#include "reduce/ReduceOp.h"
#include "support/StridedCopy.h"

namespace opc::ops::reduce {
namespace {

template <class T> using ProdKernel = ReduceKernel<T, T, ProdReducer<T>>;
template <class T> using AnyKernel = ReduceKernel<T, bool, TruthReducer<T, false>>;
template <class T> using AllKernel = ReduceKernel<T, bool, TruthReducer<T, true>>;

#define OPC_REDUCE_OP(name, inferFn)                                                                                   \
  REGISTER_USER_OP(name)                                                                                               \
      .Input("input_tensor")                                                                                           \
      .Output("output_tensor")                                                                                         \
      .RequiredAttr<std::vector<int32_t>>("axis")                                                                      \
      .Attr<bool>("keepdims", false)                                                                                   \
      .SetTensorDescInferFn(inferFn)                                                                                   \
      .SetGetSbpFn(plainReduceSbp)

OPC_REDUCE_OP("reduce_prod", inferReduce)
    .Doc(std::string("The product over the given axes. ") + kAxisDoc +
         "Floats multiply in f64; integers wrap around. The product of nothing is 1.")
    .Cases(reduceCases(0.5, 1.5));
OPC_REDUCE_OP("reduce_any", inferReduceToBool)
    .NoGrad("truth values are not differentiable")
    .Doc(std::string("Whether any element over the given axes is non-zero (NaN is), as bool. ") + kAxisDoc +
         "Of nothing: false.")
    .Cases(reduceCases(0, 2));
OPC_REDUCE_OP("reduce_all", inferReduceToBool)
    .NoGrad("truth values are not differentiable")
    .Doc(std::string("Whether all elements over the given axes are non-zero (NaN is), as bool. ") + kAxisDoc +
         "Of nothing: true.")
    .Cases(reduceCases(0, 2));

const CpuKernelOptions kOptions{reduceTmpSize, nullptr};
OPC_CPU_KERNELS_WITH("reduce_prod", "input_tensor", kOptions, ProdKernel, float, double, float16, bfloat16, int32_t,
                     int64_t);
OPC_CPU_KERNELS_WITH("reduce_any", "input_tensor", kOptions, AnyKernel, bool, float, double, int8_t, uint8_t, int32_t,
                     int64_t);
OPC_CPU_KERNELS_WITH("reduce_all", "input_tensor", kOptions, AllKernel, bool, float, double, int8_t, uint8_t, int32_t,
                     int64_t);

// --- reduce_sum_like
// ---------------------------------------------------------------------------------------------------

Maybe<std::vector<int64_t>> likeAxes(const user_op::OpContext *ctx, const Shape &x) {
  return resolveAxes(ctx->Attr<std::vector<int32_t>>("axis"), x.NumAxes());
}

Maybe<void> inferSumLike(InferContext *ctx) {
  const TensorDesc x = *ctx->TensorDesc4ArgNameAndIndex("x", 0);
  const Shape like = ctx->InputShape("like", 0);
  const auto axes = JUST(likeAxes(ctx, x.shape()));
  const Shape sums = reducedShape(x.shape(), axes, true);
  if (sums.elem_cnt() != like.elem_cnt())
    return (Error::ShapeMismatch() << "the sums of x " << x.shape().ToString() << " are " << sums.elem_cnt()
                                   << ", like " << like.ToString() << " has " << like.elem_cnt() << " elements")
        .help("list the axes along which like was broadcast to x");
  *ctx->TensorDesc4ArgNameAndIndex("y", 0) = TensorDesc(like, x.data_type());
  return Maybe<void>::Ok();
}

template <class T> class SumLikeKernel final : public BindingKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    using R = SumReducer<T>;
    const Tensor *x = ctx->Tensor4ArgNameAndIndex("x", 0);
    const auto axes = valueOf(likeAxes(ctx, x->shape()));
    const T *from = x->template dptr<T>();
    T *to = ctx->Tensor4ArgNameAndIndex("y", 0)->template mut_dptr<T>();
    if (axes.empty()) {
      const int64_t bytes = x->shape().elem_cnt() * static_cast<int64_t>(sizeof(T));
      return user_op::bindTask([=](DeviceCtx *dev) { copyBytes(dev, from, to, bytes); });
    }
    const ReducePlan plan = ReducePlan::make(x->shape(), axes);
    auto *partials = plan.partials()
                         ? static_cast<typename R::Acc *>(ctx->Tensor4ArgNameAndIndex("tmp_buffer", 0)->mut_raw_dptr())
                         : nullptr;
    return user_op::bindTask([=](DeviceCtx *dev) {
      runReduce(dev, plan, R{}, from, nullptr, partials,
                [&](int64_t o, typename R::Acc acc) { to[o] = finish<T>(acc); });
    });
  }
};

Maybe<void> sumLikeSbp(user_op::SbpContext *ctx) {
  const Shape x = ctx->LogicalTensorDesc4InputArgNameAndIndex("x", 0).shape(),
              like = ctx->LogicalTensorDesc4InputArgNameAndIndex("like", 0).shape();
  const auto axes = JUST(likeAxes(ctx, x));
  const user_op::OpArg from("x", 0), likeArg("like", 0), to("y", 0);
  int64_t outAxis = 0;
  for (int64_t a = 0; a < x.NumAxes(); ++a) {
    if (std::binary_search(axes.begin(), axes.end(), a)) {
      ctx->NewBuilder().Split(from, a).Broadcast(likeArg).PartialSum(to).Build();
      if (like.NumAxes() == x.NumAxes()) ++outAxis;
    } else {
      if (outAxis < like.NumAxes() && like.At(outAxis) == x.At(a))
        ctx->NewBuilder().Split(from, a).Split(likeArg, outAxis).Split(to, outAxis).Build();
      ++outAxis;
    }
  }
  ctx->NewBuilder().PartialSum(from).Broadcast(likeArg).PartialSum(to).Build();
  // The values of like are not read: it may be in any state.
  ctx->NewBuilder().PartialSum(from).PartialSum(likeArg).PartialSum(to).Build();
  ctx->NewBuilder().Broadcast(from).PartialSum(likeArg).Broadcast(to).Build();
  return Maybe<void>::Ok();
}

size_t sumLikeTmpSize(InferContext *ctx) {
  const Shape x = ctx->InputShape("x", 0);
  return static_cast<size_t>(ReducePlan::make(x, valueOf(likeAxes(ctx, x))).partials()) * 8;
}

REGISTER_USER_OP("reduce_sum_like")
    .Input("x")
    .Input("like")
    .Output("y")
    .RequiredAttr<std::vector<int32_t>>("axis")
    .SetTensorDescInferFn(inferSumLike)
    .SetGetSbpFn(sumLikeSbp)
    .Doc("The sum of x over the given axes in the shape of like, whose values are not read: the gradient of a "
         "broadcast. An empty list of "
         "axes copies x.")
    .Cases({user_op::Case("rows").In("x", {3, 4}).In("like", {4}).Attr("axis", std::vector<int32_t>{0}),
            user_op::Case("kept").In("x", {2, 3, 4}).In("like", {1, 3, 1}).Attr("axis", std::vector<int32_t>{0, 2})});

const CpuKernelOptions kLikeOptions{sumLikeTmpSize, nullptr};
OPC_CPU_KERNELS_WITH("reduce_sum_like", "x", kLikeOptions, SumLikeKernel, float, double, float16, bfloat16, int32_t,
                     int64_t);

} // namespace
} // namespace opc::ops::reduce
