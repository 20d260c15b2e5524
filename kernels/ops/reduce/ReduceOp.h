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

/// The loop of a reduction over the last axes: `make(plan, row)` is the number of a row.
template <class T, class Out, class Make> class ReduceRows final : public RowsLoop {
public:
  ReduceRows(const ReducePlan &plan, Make make) : plan_(plan), make_(make) {
    rows = plan.outputs;
    size = plan.inner;
    inputs = {RowPart::kRow};
    outputs = {RowPart::kOne};
  }
  void Run(const void *const *in, void *const *out, int64_t, int64_t count, void *) const override {
    const T *from = static_cast<const T *>(in[0]);
    for (int64_t i = 0; i < count; ++i) static_cast<Out *>(out[0])[i] = make_(plan_, from + i * size);
  }

private:
  ReducePlan plan_;
  Make make_;
};
/// Null where it goes over other axes.
template <class T, class Out, class Make> std::unique_ptr<RowsLoop> rowsOf(const ReducePlan &plan, Make make) {
  if (!plan.isRowByRow()) return nullptr;
  return std::make_unique<ReduceRows<T, Out, Make>>(plan, make);
}

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
      *loop = rowsOf<T, Out>(plan,
                             [store](const ReducePlan &p, const T *row) { return store(reduceRow(R{}, p, row, 0.0)); });
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
