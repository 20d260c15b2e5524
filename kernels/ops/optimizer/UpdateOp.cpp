// The rule of the update ops, and what their tasks read.
// SPDX-License-Identifier: Apache-2.0
#include "optimizer/UpdateOp.h"

namespace opc::ops::optimizer {

const char *const kCommonDoc =
    "The gradient is model_diff * scale * scale_by_tensor + l1 * sign(model) + l2 * model; the rate is "
    "learning_rate, or learning_rate_val without one, times learning_rate_scale. With skip_if other than 0 nothing "
    "changes. The first argument and the state are variables, updated in place. ";

namespace {

Maybe<void> needsOneElement(InferContext *ctx, const char *arg, DataType type, DataType orType) {
  if (!ctx->has_input(arg, 0)) return Maybe<void>::Ok();
  const TensorDesc &d = ctx->InputTensorDesc(arg, 0);
  if (d.shape().elem_cnt() != 1)
    return Error::ShapeMismatch() << arg << " is " << d.toString() << ", it should have one element";
  if (d.data_type() != type && d.data_type() != orType)
    return (Error::TypeError() << arg << " is " << dataTypeName(d.data_type()) << ", it should be "
                               << dataTypeName(type)
                               << (type == orType ? std::string() : std::string(" or ") + dataTypeName(orType)))
        .help(std::string("cast ") + arg);
  return Maybe<void>::Ok();
}

} // namespace

Maybe<void> inferUpdate(InferContext *ctx, std::initializer_list<const char *> state) {
  const TensorDesc &model = ctx->InputTensorDesc("model", 0);
  const DataType type = model.data_type();
  for (const char *arg : state)
    if (ctx->has_input(arg, 0) && ctx->InputTensorDesc(arg, 0) != model)
      return (ctx->InputShape(arg, 0) == model.shape() ? Error::TypeError() : Error::ShapeMismatch())
             << arg << " is " << ctx->InputTensorDesc(arg, 0).toString() << ", model is " << model.toString();
  const TensorDesc &diff = ctx->InputTensorDesc("model_diff", 0);
  if (diff.shape() != model.shape())
    return Error::ShapeMismatch() << "model_diff is " << diff.toString() << ", model is " << model.toString();
  const bool half = diff.data_type() == kFloat16 || diff.data_type() == kBFloat16;
  if (diff.data_type() != type && !(half && type == kFloat))
    return (Error::TypeError() << "model_diff is " << diff.toString() << ", model is " << model.toString())
        .help("cast model_diff to the dtype of model");
  if (ctx->has_input("model_copy", 0)) {
    const TensorDesc &copy = ctx->InputTensorDesc("model_copy", 0);
    if (copy.shape() != model.shape())
      return Error::ShapeMismatch() << "model_copy is " << copy.toString() << ", model is " << model.toString();
    if (type != kFloat || (copy.data_type() != kFloat16 && copy.data_type() != kBFloat16))
      return Error::TypeError() << "model_copy is " << copy.toString()
                                << ", it should be f16 or bf16 beside a model of f32; model is " << model.toString();
  }
  for (const char *arg :
       {"learning_rate", "scale_by_tensor", "bias_correction1", "bias_correction2", "beta1_t", "beta2_t"})
    if (auto ok = needsOneElement(ctx, arg, kFloat, type); !ok.IsOk()) return ok;
  for (const char *arg : {"skip_if", "train_step"})
    if (auto ok = needsOneElement(ctx, arg, kInt64, kInt64); !ok.IsOk()) return ok;
  return Maybe<void>::Ok();
}

Maybe<void> splitUpdate(user_op::SbpContext *ctx) {
  static const char *const kScalars[] = {"learning_rate",    "scale_by_tensor", "skip_if", "bias_correction1",
                                         "bias_correction2", "beta1_t",         "beta2_t", "train_step"};
  const int64_t rank = ctx->LogicalTensorDesc4InputArgNameAndIndex("model", 0).shape().NumAxes();
  for (int64_t axis = 0; axis < rank; ++axis) {
    auto builder = ctx->NewBuilder();
    builder.Split(ctx->inputs(), axis);
    for (const char *scalar : kScalars) builder.Broadcast(user_op::OpArg(scalar, 0));
    builder.Build();
  }
  return Maybe<void>::Ok();
}

user_op::InputArgModifyFn writesModelAnd(std::vector<std::string> state) {
  return [state = std::move(state)](user_op::GetInputArgModifier get, const user_op::UserOpConfWrapper &) {
    for (const char *arg : {"model", "model_copy"}) get(arg, 0)->set_is_mutable(true);
    for (const std::string &arg : state) get(arg, 0)->set_is_mutable(true);
  };
}

template <class T> Update<T>::Update(KernelBindContext *ctx) {
  Tensor *model = ctx->Tensor4ArgNameAndIndex("model", 0);
  const Tensor *diff = ctx->Tensor4ArgNameAndIndex("model_diff", 0);
  n_ = model->shape().elem_cnt();
  model_ = model->template mut_dptr<T>();
  diff_ = diff->raw_dptr();
  diffType_ = diff->data_type();
  if (Tensor *copy = ctx->Tensor4ArgNameAndIndex("model_copy", 0)) {
    copy_ = copy->mut_raw_dptr();
    copyType_ = copy->data_type();
  }
  const Tensor *skip = ctx->Tensor4ArgNameAndIndex("skip_if", 0);
  skipIf_ = skip ? skip->template dptr<int64_t>() : nullptr;
  auto real = [&](const char *name) { return static_cast<double>(ctx->Attr<float>(name)); };
  const Tensor *rate = ctx->Tensor4ArgNameAndIndex("learning_rate", 0);
  rate_ = RunScalar(rate, rate ? 0 : real("learning_rate_val"));
  scaleBy_ = RunScalar(ctx->Tensor4ArgNameAndIndex("scale_by_tensor", 0), 1);
  rateScale_ = real("learning_rate_scale");
  scale_ = ctx->Attr<double>("scale");
  l1_ = real("l1");
  l2_ = real("l2");
  weightDecay_ = real("weight_decay");
}
template class Update<float>;
template class Update<double>;

} // namespace opc::ops::optimizer
