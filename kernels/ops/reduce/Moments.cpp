// var and logsumexp: reductions in two passes, the first of which gives each output its shift.
// SPDX-License-Identifier: Apache-2.0
#include "reduce/ReduceOp.h"

#include <cmath>

namespace opc::ops::reduce {
namespace {

/// Sum of squared distances from the shift, in f64: a shift rounded to f32 would leave a bias.
template <class T> struct SquaredDistanceReducer : SumIn<T, double, double> {
  double step(double a, LoadOf<T> x, double mean) const {
    const double d = static_cast<double>(x) - mean;
    return a + d * d;
  }
};

/// Sum of exp(x - shift).
template <class T> struct ExpSumReducer : SumIn<T, double, double> {
  double step(double a, LoadOf<T> x, double shift) const {
    return a + static_cast<double>(std::exp(static_cast<LoadOf<T>>(x - static_cast<LoadOf<T>>(shift))));
  }
};

/// `var` names its axes dim, and an empty list means all of them.
Maybe<std::vector<int64_t>> varAxes(const OpContext &ctx, const Shape &in) {
  auto axes = JUST(resolveAxes(ctx.Attr<std::vector<int32_t>>("dim"), in.NumAxes(), "dim"));
  if (axes.empty())
    for (int64_t a = 0; a < in.NumAxes(); ++a) axes.push_back(a);
  return axes;
}
ReducePlan varPlan(const OpContext *ctx, const Shape &in) { return ReducePlan::make(in, valueOf(varAxes(*ctx, in))); }

Maybe<void> inferVar(InferContext *ctx) {
  const TensorDesc in = ctx->In("input");
  if (!IsFloatingDataType(in.data_type()))
    return (Error::TypeError() << "the variance of " << dataTypeName(in.data_type()) << " is not defined")
        .help("cast the input to a floating dtype");
  const auto axes = JUST(varAxes(*ctx, in.shape()));
  return setOut(ctx, "output", TensorDesc(reducedShape(in.shape(), axes, ctx->Attr<bool>("keepdim")), in.data_type()));
}

template <class T> class VarKernel final : public BindingKernel, public RowsKernel {
public:
  Status MakeRows(const KernelContext &ctx, std::unique_ptr<RowsLoop> *loop) const override {
    const ReducePlan plan = varPlan(&ctx, ctx.Desc("input").shape());
    *loop = rowsOf<T, T>(plan, [count = countOf(plan), divisor = divisorOf(&ctx, plan)](const auto &p, const T *row) {
      const double mean = reduceRow(SumReducer<T>{}, p, row, 0.0) / count;
      return finish<T>(reduceRow(SquaredDistanceReducer<T>{}, p, row, mean) / divisor);
    });
    return Status::ok();
  }
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    const Tensor &in = ctx->In("input");
    const ReducePlan plan = varPlan(ctx, in.shape());
    const T *from = in.dptr<T>();
    T *to = ctx->Out("output").mut_dptr<T>();
    double *means = ctx->Tmp<double>();
    const double count = countOf(plan), divisor = divisorOf(ctx, plan);
    return bindTask([=](DeviceCtx *dev) {
      double *partials = means + plan.outputs;
      runReduce(dev, plan, SumReducer<T>{}, from, nullptr, partials,
                [&](int64_t o, double sum) { means[o] = sum / count; });
      runReduce(dev, plan, SquaredDistanceReducer<T>{}, from, means, partials,
                [&](int64_t o, double sum) { to[o] = finish<T>(sum / divisor); });
    });
  }

private:
  static double countOf(const ReducePlan &plan) { return static_cast<double>(plan.reduceCount); }
  /// One element less for the unbiased estimate; of a single element it is NaN, as 0/0.
  static double divisorOf(const OpContext *ctx, const ReducePlan &plan) {
    return ctx->Attr<bool>("unbiased") ? std::max(0.0, countOf(plan) - 1) : countOf(plan);
  }
};
size_t varTmpSize(InferContext *ctx) {
  const ReducePlan p = varPlan(ctx, ctx->In("input").shape());
  return static_cast<size_t>(p.outputs + p.partials()) * sizeof(double);
}

template <class T> class LogSumExpKernel final : public BindingKernel, public RowsKernel {
public:
  Status MakeRows(const KernelContext &ctx, std::unique_ptr<RowsLoop> *loop) const override {
    *loop = rowsOf<T, T>(planOf(&ctx, ctx.Desc("input_tensor").shape()), [](const auto &p, const T *row) {
      const double shift = shiftOf(reduceRow(MaxReducer<T>{}, p, row, 0.0));
      return finish<T>(std::log(reduceRow(ExpSumReducer<T>{}, p, row, shift)) + shift);
    });
    return Status::ok();
  }
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    using Max = MaxReducer<T>;
    const Tensor &in = ctx->In("input_tensor");
    const ReducePlan plan = planOf(ctx, in.shape());
    const T *from = in.dptr<T>();
    T *to = ctx->Out("output_tensor").mut_dptr<T>();
    double *shifts = ctx->Tmp<double>();
    return bindTask([=](DeviceCtx *dev) {
      double *partials = shifts + plan.outputs;
      runReduce(dev, plan, Max{}, from, nullptr, reinterpret_cast<typename Max::Acc *>(partials),
                [&](int64_t o, typename Max::Acc m) { shifts[o] = shiftOf(m); });
      runReduce(dev, plan, ExpSumReducer<T>{}, from, shifts, partials,
                [&](int64_t o, double sum) { to[o] = finish<T>(std::log(sum) + shifts[o]); });
    });
  }

private:
  /// x - shift would be NaN at an infinite shift: exp(+-inf - 0) is right there.
  static double shiftOf(typename MaxReducer<T>::Acc top) {
    return std::isinf(static_cast<double>(top)) ? 0.0 : static_cast<double>(top);
  }
};
size_t logSumExpTmpSize(InferContext *ctx) {
  const ReducePlan p = planOf(ctx, ctx->In("input_tensor").shape());
  return static_cast<size_t>(p.outputs + p.partials()) * sizeof(double);
}

Maybe<ShardingRule> varSharding(const SbpContext &ctx) {
  const Shape &in = ctx.In("input").shape();
  return reduceSharding(in, JUST(varAxes(ctx, in)), ctx.Attr<bool>("keepdim"), Pieces::kNothing);
}

Case varCase(const char *name, Shape in, std::vector<int32_t> dim, bool unbiased, bool keepdim) {
  return Case(name).In("input", in, -2, 2).Attr("dim", dim).Attr("unbiased", unbiased).Attr("keepdim", keepdim);
}

REGISTER_USER_OP("var")
    .With(TensorArgs{{"input"}, {"output"}})
    .Attr<std::vector<int32_t>>("dim", {})
    .Attr<bool>("unbiased", true)
    .Attr<bool>("keepdim", false)
    .With(rules(inferVar, varSharding))
    .Doc("The variance over the axes in dim (all axes when it is empty): the mean of the squared distances from the "
         "mean; with unbiased their sum is divided by one less than the count, which makes the variance of a single "
         "element NaN. Accumulated in f64.")
    .Cases({varCase("rows", {5, 37}, {1}, true, false), varCase("columns", {19, 6}, {0}, false, true),
            varCase("all", {2, 3, 4}, {0, 1, 2}, true, false)})
    .Kernel<VarKernel, types::Floating>("input", KernelOptions().TmpSize(varTmpSize));

REGISTER_USER_OP("logsumexp")
    .With(reduceDefinition(inferReduce))
    .Doc(
        std::string("log(sum(exp(x))) over the given axes, computed about the maximum so that it does not overflow. ") +
        kAxisDoc + "Of nothing: minus infinity.")
    .Cases(reduceCases(-20, 20))
    .Kernel<LogSumExpKernel, types::Floating>("input_tensor", KernelOptions().TmpSize(logSumExpTmpSize));

} // namespace
} // namespace opc::ops::reduce
