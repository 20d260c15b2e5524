// What the reduce_* operators share: definition, rules, plan, kernel.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reduce/ReduceColumns.h"
#include "support/Operator.h"
#include "support/PieceRange.h"

#include "opc/RowsKernel.h"

namespace opc::ops::reduce {

/// Attributes axis (list of i32) and keepdims. An empty list reduces nothing, as in OneFlow.
Maybe<void> inferReduce(InferContext *ctx);
/// The same with a boolean output.
Maybe<void> inferReduceToBool(InferContext *ctx);

/// What the pieces of a tensor tell about the reduction of the whole.
enum class Pieces {
  kNothing, // kept axes may be split, and that is all
  kAddUp,   // pieces of a reduced axis give addends
  kLinear,  // and so do addends of the input
};
/// The rule of a reduction of `axes` (resolved) of the first input.
ShardingRule reduceSharding(const Shape &in, const std::vector<int64_t> &axes, bool keepdims, Pieces pieces);

/// Definition of a reduce_* operator: input_tensor, axis, keepdims, output_tensor and their rules.
std::function<void(OpRegistry &)> reduceDefinition(TensorDescInferFn infer, Pieces pieces = Pieces::kNothing);
/// Options of its kernels: room for partial results.
KernelOptions reduceKernel();

/// The shape left when `axes` (resolved) are reduced.
Shape reducedShape(const Shape &in, const std::vector<int64_t> &axes, bool keepdims);
/// The plan of a reduce_* instance.
ReducePlan planOf(const OpContext *ctx, const Shape &in);

extern const char *const kAxisDoc;
/// Sample cases for values in [lo, hi).
std::vector<Case> reduceCases(double lo = -1, double hi = 1);

/// The loop of a reduction over the last axes. `final` makes an element of the output.
template <class T, class Out, class R, class Final> class ReduceRows final : public RowsLoop {
public:
  ReduceRows(const ReducePlan &plan, Final final) : plan_(plan), final_(final) {
    rows = plan.outputs;
    size = plan.inner;
    inputs = {RowPart::kRow};
    outputs = {RowPart::kOne};
  }
  void Run(const void *const *in, void *const *out, int64_t, int64_t count, void *) const override {
    const T *from = static_cast<const T *>(in[0]);
    for (int64_t i = 0; i < count; ++i)
      static_cast<Out *>(out[0])[i] = final_(reduceRow(R{}, plan_, from + i * size, 0.0));
  }

private:
  ReducePlan plan_;
  Final final_;
};

/// Reducer R over T, stored as Out.
template <class T, class Out, class R> class ReduceKernel : public BindingKernel, public RowsKernel {
public:
  Status MakeRows(const KernelContext &ctx, std::unique_ptr<RowsLoop> *loop) const override {
    const Shape &in = ctx.Desc("input_tensor").shape();
    const ReducePlan plan = planOf(&ctx, in);
    const int64_t whole = planOf(&ctx, wholeShape(&ctx, "input_tensor")).reduceCount;
    const bool isWhole = whole == plan.reduceCount; // else a device has a piece of what is reduced
    const auto store = [count = static_cast<double>(plan.reduceCount)](typename R::Acc acc) {
      return final(acc, count);
    };
    if (isWhole && plan.isRowByRow())
      *loop = std::make_unique<ReduceRows<T, Out, R, decltype(store)>>(plan, store);
    else if (isColumnByColumn(plan) && (isWhole || !isMean))
      *loop = columnsOf<T, Out, R>(plan, 1, 0, store);
    return Status::ok();
  }
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    const Tensor &in = ctx->In("input_tensor");
    const ReducePlan plan = planOf(ctx, in.shape());
    const T *from = in.dptr<T>();
    Out *to = ctx->Out("output_tensor").mut_dptr<Out>();
    auto *partials = ctx->Tmp<typename R::Acc>();
    const double count = static_cast<double>(planOf(ctx, wholeShape(ctx, "input_tensor")).reduceCount);
    return bindTask([=](DeviceCtx *dev) {
      runReduce(dev, plan, R{}, from, nullptr, partials,
                [&](int64_t o, typename R::Acc acc) { to[o] = final(acc, count); });
    });
  }

protected:
  static constexpr bool isMean = requires { R::kMean; };
  static Out final(typename R::Acc acc, double count) {
    if constexpr (isMean)
      return finish<Out>(static_cast<double>(acc) / count);
    else
      return finish<Out>(acc);
  }
};

} // namespace opc::ops::reduce
