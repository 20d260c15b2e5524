// What the reduce_* operators share: rules, plan, kernel.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reduce/Reducers.h"
#include "support/Axes.h"
#include "support/CpuKernels.h"

namespace opc::ops::reduce {

/// Attributes axis (list of i32) and keepdims. An empty list reduces nothing, as in OneFlow.
Maybe<void> inferReduce(InferContext *ctx);
/// The same with a boolean output.
Maybe<void> inferReduceToBool(InferContext *ctx);
/// Kept axes split; a linear reduction turns a split reduced axis, and a partial sum, into a partial sum.
Maybe<void> linearReduceSbp(user_op::SbpContext *ctx);
/// Kept axes and partial sums only: the mean of a piece divides by the piece's count, so that means do not add up.
Maybe<void> meanReduceSbp(user_op::SbpContext *ctx);
Maybe<void> plainReduceSbp(user_op::SbpContext *ctx);

/// The shape left when `axes` (resolved) are reduced.
Shape reducedShape(const Shape &in, const std::vector<int64_t> &axes, bool keepdims);
/// The plan of a reduce_* instance.
ReducePlan planOf(const user_op::OpContext *ctx, const Shape &in);
/// Bytes for the partial results of a reduce_* instance; 8 bytes each.
size_t reduceTmpSize(InferContext *ctx);

extern const char *const kAxisDoc;
/// Sample cases for values in [lo, hi).
std::vector<user_op::Case> reduceCases(double lo = -1, double hi = 1);

/// Reducer<T> over T, stored as Out after `Finish`.
template <class T, class Out, class R> class ReduceKernel : public BindingKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    const Tensor *in = ctx->Tensor4ArgNameAndIndex("input_tensor", 0);
    Tensor *out = ctx->Tensor4ArgNameAndIndex("output_tensor", 0);
    const ReducePlan plan = planOf(ctx, in->shape());
    const T *from = in->template dptr<T>();
    Out *to = out->template mut_dptr<Out>();
    auto *partials = plan.partials()
                         ? static_cast<typename R::Acc *>(ctx->Tensor4ArgNameAndIndex("tmp_buffer", 0)->mut_raw_dptr())
                         : nullptr;
    const double count = static_cast<double>(plan.reduceCount);
    return user_op::bindTask([=](DeviceCtx *dev) {
      runReduce(dev, plan, R{}, from, nullptr, partials,
                [&](int64_t o, typename R::Acc acc) { to[o] = final(acc, count); });
    });
  }

protected:
  static Out final(typename R::Acc acc, double count) {
    if constexpr (requires { R::kMean; })
      return finish<Out>(static_cast<double>(acc) / count);
    else
      return finish<Out>(acc);
  }
};

template <class T> struct MeanReducer : SumReducer<T> {
  static constexpr bool kMean = true;
};

} // namespace opc::ops::reduce
