// assign, l1_l2_regularize_gradient, dynamic_loss_scale_schedule.
// SPDX-License-Identifier: Apache-2.0
#include "optimizer/UpdateOp.h"
#include "support/CudaTask.h"
#include "support/FunctionKernel.h"
#include "support/StridedCopy.h"

#include <cstring>
#include <limits>

namespace opc::ops::optimizer {
namespace {

/// For SetInputArgModifyFn: these variables are written.
InputArgModifyFn writes(std::vector<std::string> variables) {
  return [variables = std::move(variables)](GetInputArgModifier get, const UserOpConfWrapper &) {
    for (const std::string &arg : variables) get(arg, 0)->set_is_mutable(true);
  };
}

Maybe<void> inferAssign(InferContext *ctx) {
  const TensorDesc &ref = ctx->In("ref"), &value = ctx->In("value");
  if (ref.data_type() != value.data_type())
    return (Error::TypeError() << "value is " << value.toString() << ", ref is " << ref.toString()).help("cast value");
  if (ref.shape() != value.shape())
    return (Error::ShapeMismatch() << "value is " << value.toString() << ", ref is " << ref.toString())
        .help("reshape or broadcast value");
  return Maybe<void>::Ok();
}

std::unique_ptr<BoundKernel> bindAssign(KernelBindContext *ctx) {
  Tensor &ref = ctx->Out("ref");
  const char *from = static_cast<const char *>(ctx->In("value").raw_dptr());
  char *to = static_cast<char *>(ref.mut_raw_dptr());
  const int64_t bytes = ref.shape().elem_cnt() * static_cast<int64_t>(GetSizeOfDataType(ref.data_type()));
  return bindTask([=](DeviceCtx *dev) { copyBytes(dev, from, to, bytes); });
}

REGISTER_USER_OP("assign")
    .Input("ref")
    .Input("value")
    .With(rules(inferAssign, "..., ... ->"))
    .SetInputArgModifyFn(writes({"ref"}))
    .NoGrad("it updates a variable")
    .Doc("The variable ref becomes value, of the same shape and dtype. Everybody who reads ref in this step sees its "
         "old value, unless the graph orders the reader after the assign (ctrl_in_op_name).")
    .Cases({Case("matrix").In("ref", {5, 7}).In("value", {5, 7}),
            Case("large").In("ref", {300, 300}).In("value", {300, 300}).Types({kFloat, kInt64})})
    .With(onCpuAndGpu<FunctionKernel<bindAssign>>());

// --- l1_l2_regularize_gradient ---------------------------------------------------------------------------------------

Maybe<void> inferRegularize(InferContext *ctx) {
  const TensorDesc model = ctx->In("model");
  if (ctx->In("model_diff") != model)
    return Error::ShapeMismatch() << "model_diff is " << ctx->In("model_diff").toString() << ", model is "
                                  << model.toString();
  return setOut(ctx, "out", model);
}

template <class T> class RegularizeKernel final : public BindingKernel {
public:
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    const T *model = ctx->In("model").template dptr<T>(), *diff = ctx->In("model_diff").template dptr<T>();
    T *to = ctx->Out("out").template mut_dptr<T>();
    const int64_t n = ctx->In("model").shape().elem_cnt();
    const Gradient<T> gradient{T(1), static_cast<T>(real(ctx, "l1")), static_cast<T>(real(ctx, "l2"))};
    return bindTask([=](DeviceCtx *dev) {
      dev->parallelFor(n, 16384, [&](int64_t b, int64_t e) {
        eachElement(b, e, [=](int64_t i) { to[i] = gradient(diff[i], model[i]); });
      });
    });
  }
};

REGISTER_USER_OP("l1_l2_regularize_gradient")
    .With(TensorArgs{{"model", "model_diff"}, {"out"}})
    .Attr<float>("l1", 0.0f)
    .Attr<float>("l2", 0.0f)
    .With(rules(inferRegularize, "..., ... -> ..."))
    .NoGrad("it stands behind the gradient")
    .Doc("out = model_diff + l1 * sign(model) + l2 * model: the gradient with that of l1 * |model| + l2 / 2 * model^2.")
    .Cases({updateCase("both", {5, 7}).Attr("l1", 0.25f).Attr("l2", 0.5f)})
    .Kernel<RegularizeKernel, ModelTypes>("model", KernelOptions().Inplace("out", "model_diff"));

// --- dynamic_loss_scale_schedule -------------------------------------------------------------------------------------

Maybe<void> inferLossScale(InferContext *ctx) {
  JUST(checkScalar(ctx, "count_not_finite", kInt64));
  JUST(checkScalar(ctx, "loss_scale", kFloat));
  JUST(checkScalar(ctx, "good_step_counter", kInt64));
  if (ctx->Has("skip_if")) JUST(checkScalar(ctx, "skip_if", kInt64));
  if (ctx->Attr<int64_t>("increment_period") < 1)
    return Error("OPC0205") << "increment_period is " << ctx->Attr<int64_t>("increment_period")
                            << ", it should be 1 or more";
  if (!(ctx->Attr<float>("multiplier") > 1))
    return Error("OPC0205") << "multiplier is " << ctx->Attr<float>("multiplier") << ", it should be more than 1";
  return Maybe<void>::Ok();
}

std::unique_ptr<BoundKernel> bindLossScale(KernelBindContext *ctx) {
  const int64_t *count = ctx->In("count_not_finite").dptr<int64_t>();
  float *scale = ctx->Out("loss_scale").mut_dptr<float>();
  int64_t *good = ctx->Out("good_step_counter").mut_dptr<int64_t>();
  const int64_t period = ctx->Attr<int64_t>("increment_period");
  const double multiplier = real(ctx, "multiplier");
  const int64_t *skip = ctx->Has("skip_if") ? ctx->In("skip_if").dptr<int64_t>() : nullptr;
  if (isOnGpu(ctx)) return bindSingle(ctx, "dynamic_loss_scale_schedule", count, scale, good, period, multiplier, skip);
  return bindTask([=](DeviceCtx *) {
    if (skip && *skip != 0) return;
    const double now = static_cast<double>(*scale);
    if (*count != 0) {
      *good = 0;
      *scale = static_cast<float>(std::max(now / multiplier, 1.0));
    } else if (*good + 1 < period) {
      ++*good;
    } else {
      *good = 0;
      *scale = static_cast<float>(std::min(now * multiplier, static_cast<double>(std::numeric_limits<float>::max())));
    }
  });
}

using Range = std::pair<double, double>;
Case lossScaleCase(const char *name, Range count, Range scale, Range good) {
  return Case(name)
      .In("count_not_finite", kInt64, {1}, count.first, count.second)
      .In("loss_scale", kFloat, {1}, scale.first, scale.second)
      .In("good_step_counter", kInt64, {1}, good.first, good.second);
}

REGISTER_USER_OP("dynamic_loss_scale_schedule")
    .Input("count_not_finite")
    .Input("loss_scale")
    .Input("good_step_counter")
    .OptionalInput("skip_if")
    .Attr<int64_t>("increment_period", 2000)
    .Attr<float>("multiplier", 2.0f)
    .SetTensorDescInferFn(inferLossScale)
    .SetInputArgModifyFn(writes({"loss_scale", "good_step_counter"}))
    .NoGrad("it updates a variable")
    .Doc("For training in half precision. After a step with values that are not finite (count_not_finite, i64) the "
         "variable loss_scale (f32) is divided by multiplier, to 1 at least, and the variable good_step_counter "
         "(i64) begins again at 0; after increment_period steps without any, loss_scale is multiplied. With skip_if "
         "(i64) other than 0 nothing changes.")
    .Cases({lossScaleCase("good", {0, 1}, {8, 16}, {1, 9}),
            lossScaleCase("grows", {0, 1}, {8, 16}, {3, 4}).Attr<int64_t>("increment_period", 4),
            lossScaleCase("bad", {1, 9}, {8, 16}, {1, 9}).Attr("multiplier", 4.0f),
            lossScaleCase("least", {1, 9}, {1, 1.5}, {1, 9}),
            lossScaleCase("skipped", {1, 9}, {8, 16}, {1, 9}).In("skip_if", kInt64, {1}, 1, 3),
            lossScaleCase("not_skipped", {1, 9}, {8, 16}, {1, 9}).In("skip_if", kInt64, {1}, 0, 1)})
    .With(onCpuAndGpu<FunctionKernel<bindLossScale>>());

} // namespace
} // namespace opc::ops::optimizer
