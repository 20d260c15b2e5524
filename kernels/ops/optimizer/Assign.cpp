// assign, l1_l2_regularize_gradient, dynamic_loss_scale_schedule.
// SPDX-License-Identifier: Apache-2.0
#include "optimizer/UpdateOp.h"

#include <cstring>
#include <limits>

namespace opc::ops::optimizer {
namespace {

Maybe<void> inferAssign(InferContext *ctx) {
  const TensorDesc &ref = ctx->InputTensorDesc("ref", 0), &value = ctx->InputTensorDesc("value", 0);
  if (ref.data_type() != value.data_type())
    return (Error::TypeError() << "value is " << value.toString() << ", ref is " << ref.toString()).help("cast value");
  if (ref.shape() != value.shape())
    return (Error::ShapeMismatch() << "value is " << value.toString() << ", ref is " << ref.toString())
        .help("reshape or broadcast value");
  return Maybe<void>::Ok();
}

class AssignKernel final : public UpdateKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    Tensor *ref = ctx->Tensor4ArgNameAndIndex("ref", 0);
    const char *from = static_cast<const char *>(ctx->Tensor4ArgNameAndIndex("value", 0)->raw_dptr());
    char *to = static_cast<char *>(ref->mut_raw_dptr());
    const int64_t bytes = ref->shape().elem_cnt() * static_cast<int64_t>(GetSizeOfDataType(ref->data_type()));
    return user_op::bindTask([=](DeviceCtx *dev) {
      if (from == to) return;
      dev->parallelFor(bytes, 1 << 16,
                       [&](int64_t b, int64_t e) { std::memcpy(to + b, from + b, static_cast<size_t>(e - b)); });
    });
  }
};

REGISTER_USER_OP("assign")
    .Input("ref")
    .Input("value")
    .SetTensorDescInferFn(inferAssign)
    .Sharding("..., ... ->")
    .SetInputArgModifyFn([](user_op::GetInputArgModifier get, const user_op::UserOpConfWrapper &) {
      get("ref", 0)->set_is_mutable(true);
    })
    .NoGrad("it updates a variable")
    .Doc("The variable ref becomes value, of the same shape and dtype. Everybody who reads ref in this step sees its "
         "old value, unless the graph orders the reader after the assign (ctrl_in_op_name).")
    .Cases({user_op::Case("matrix").In("ref", {5, 7}).In("value", {5, 7}),
            user_op::Case("large").In("ref", {300, 300}).In("value", {300, 300}).Types({kFloat, kInt64})});
OPC_ANY_TYPE_CPU_KERNEL("assign", AssignKernel);

// --- l1_l2_regularize_gradient ---------------------------------------------------------------------------------------

Maybe<void> inferRegularize(InferContext *ctx) {
  const TensorDesc model = ctx->InputTensorDesc("model", 0);
  if (ctx->InputTensorDesc("model_diff", 0) != model)
    return Error::ShapeMismatch() << "model_diff is " << ctx->InputTensorDesc("model_diff", 0).toString()
                                  << ", model is " << model.toString();
  *ctx->TensorDesc4ArgNameAndIndex("out", 0) = model;
  return Maybe<void>::Ok();
}

template <class T> class RegularizeKernel final : public BindingKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    const T *model = ctx->Tensor4ArgNameAndIndex("model", 0)->template dptr<T>();
    const T *diff = ctx->Tensor4ArgNameAndIndex("model_diff", 0)->template dptr<T>();
    Tensor *out = ctx->Tensor4ArgNameAndIndex("out", 0);
    T *to = out->template mut_dptr<T>();
    const int64_t n = out->shape().elem_cnt();
    const typename Update<T>::Gradient gradient{T(1), static_cast<T>(ctx->Attr<float>("l1")),
                                                static_cast<T>(ctx->Attr<float>("l2"))};
    return user_op::bindTask([=](DeviceCtx *dev) {
      dev->parallelFor(n, 16384, [&](int64_t b, int64_t e) {
        OPC_EACH_ELEMENT
        for (int64_t i = b; i < e; ++i) to[i] = gradient(diff[i], model[i]);
      });
    });
  }
};

REGISTER_USER_OP("l1_l2_regularize_gradient")
    .Input("model")
    .Input("model_diff")
    .Output("out")
    .Attr<float>("l1", 0.0f)
    .Attr<float>("l2", 0.0f)
    .SetTensorDescInferFn(inferRegularize)
    .Sharding("..., ... -> ...")
    .NoGrad("it stands behind the gradient")
    .Doc("out = model_diff + l1 * sign(model) + l2 * model: the gradient with that of l1 * |model| + l2 / 2 * model^2.")
    .Cases({user_op::Case("both").In("model", {5, 7}).In("model_diff", {5, 7}).Attr("l1", 0.25f).Attr("l2", 0.5f)});
OPC_CPU_KERNELS_WITH("l1_l2_regularize_gradient", "model", (CpuKernelOptions{nullptr, inplaceOf("out", "model_diff")}),
                     RegularizeKernel, float, double);

// --- dynamic_loss_scale_schedule -------------------------------------------------------------------------------------

Maybe<void> inferLossScale(InferContext *ctx) {
  const std::pair<const char *, DataType> wanted[] = {
      {"count_not_finite", kInt64}, {"loss_scale", kFloat}, {"good_step_counter", kInt64}};
  for (const auto &[arg, type] : wanted) {
    const TensorDesc &d = ctx->InputTensorDesc(arg, 0);
    if (d.shape().elem_cnt() != 1)
      return Error::ShapeMismatch() << arg << " is " << d.toString() << ", it should have one element";
    if (d.data_type() != type)
      return Error::TypeError() << arg << " is " << dataTypeName(d.data_type()) << ", it should be "
                                << dataTypeName(type);
  }
  if (ctx->Attr<int64_t>("increment_period") < 1)
    return Error("OPC0205") << "increment_period is " << ctx->Attr<int64_t>("increment_period")
                            << ", it should be 1 or more";
  if (!(ctx->Attr<float>("multiplier") > 1))
    return Error("OPC0205") << "multiplier is " << ctx->Attr<float>("multiplier") << ", it should be more than 1";
  return Maybe<void>::Ok();
}

class LossScaleKernel final : public UpdateKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    const int64_t *count = ctx->Tensor4ArgNameAndIndex("count_not_finite", 0)->dptr<int64_t>();
    float *scale = ctx->Tensor4ArgNameAndIndex("loss_scale", 0)->mut_dptr<float>();
    int64_t *good = ctx->Tensor4ArgNameAndIndex("good_step_counter", 0)->mut_dptr<int64_t>();
    const int64_t period = ctx->Attr<int64_t>("increment_period");
    const double multiplier = static_cast<double>(ctx->Attr<float>("multiplier"));
    return user_op::bindTask([=](DeviceCtx *) {
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
};

REGISTER_USER_OP("dynamic_loss_scale_schedule")
    .Input("count_not_finite")
    .Input("loss_scale")
    .Input("good_step_counter")
    .Attr<int64_t>("increment_period", 2000)
    .Attr<float>("multiplier", 2.0f)
    .SetTensorDescInferFn(inferLossScale)
    .SetInputArgModifyFn([](user_op::GetInputArgModifier get, const user_op::UserOpConfWrapper &) {
      get("loss_scale", 0)->set_is_mutable(true);
      get("good_step_counter", 0)->set_is_mutable(true);
    })
    .NoGrad("it updates a variable")
    .Doc("For training in half precision. After a step with values that are not finite (count_not_finite, i64) the "
         "variable loss_scale (f32) is divided by multiplier, to 1 at least, and the variable good_step_counter "
         "(i64) begins again at 0; after increment_period steps without any, loss_scale is multiplied.")
    .Cases({user_op::Case("good")
                .In("count_not_finite", kInt64, {1}, 0, 1)
                .In("loss_scale", kFloat, {1}, 8, 16)
                .In("good_step_counter", kInt64, {1}, 1, 9),
            user_op::Case("grows")
                .In("count_not_finite", kInt64, {1}, 0, 1)
                .In("loss_scale", kFloat, {1}, 8, 16)
                .In("good_step_counter", kInt64, {1}, 3, 4)
                .Attr<int64_t>("increment_period", 4),
            user_op::Case("bad")
                .In("count_not_finite", kInt64, {1}, 1, 9)
                .In("loss_scale", kFloat, {1}, 8, 16)
                .In("good_step_counter", kInt64, {1}, 1, 9)
                .Attr("multiplier", 4.0f),
            user_op::Case("least")
                .In("count_not_finite", kInt64, {1}, 1, 9)
                .In("loss_scale", kFloat, {1}, 1, 1.5)
                .In("good_step_counter", kInt64, {1}, 1, 9)});
OPC_ANY_TYPE_CPU_KERNEL("dynamic_loss_scale_schedule", LossScaleKernel);

} // namespace
} // namespace opc::ops::optimizer
