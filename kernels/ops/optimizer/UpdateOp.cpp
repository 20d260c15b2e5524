// The rules of the update ops, and what their tasks read.
// SPDX-License-Identifier: Apache-2.0
#include "optimizer/UpdateOp.h"

#include <limits>

namespace opc::ops::optimizer {

const char *const kCommonDoc =
    "The gradient is model_diff * scale * scale_by_tensor + l1 * sign(model) + l2 * model; the rate is "
    "learning_rate, or learning_rate_val without one, times learning_rate_scale. With skip_if other than 0 nothing "
    "changes. The first argument and the state are variables, updated in place. ";

namespace {
const char *const kRealScalars[] = {"learning_rate",    "scale_by_tensor", "bias_correction1",
                                    "bias_correction2", "beta1_t",         "beta2_t"};
const char *const kIntegerScalars[] = {"skip_if", "train_step"};
constexpr char kNormsArg[] = "norms";

/// Attributes that have a range: other values make no optimizer. What has none is finite.
struct AttrRange {
  const char *name;
  float least, most;
  bool isOpen; // `most` itself is not allowed
};
constexpr float kNoLimit = std::numeric_limits<float>::max();
constexpr AttrRange kRanges[] = {{"beta1", 0, 1, true},
                                 {"beta2", 0, 1, true},
                                 {"decay_rate", 0, 1, false},
                                 {"beta", 0, kNoLimit, false},
                                 {"momentum_beta", 0, kNoLimit, false},
                                 {"epsilon", 0, kNoLimit, false},
                                 {"weight_decay", 0, kNoLimit, false},
                                 {"l1", 0, kNoLimit, false},
                                 {"l2", 0, kNoLimit, false},
                                 {"lr_decay", 0, kNoLimit, false},
                                 {"lars_coefficient", 0, kNoLimit, false},
                                 {"learning_rate_val", -kNoLimit, kNoLimit, false},
                                 {"dampening", -kNoLimit, kNoLimit, false}};

Maybe<void> checkRanges(const UserOpDefWrapper &, const UserOpConfWrapper &conf) {
  for (const AttrRange &r : kRanges) {
    if (!conf.has_attr(r.name)) continue;
    const float v = conf.attr<float>(r.name);
    if (v >= r.least && (r.isOpen ? v < r.most : v <= r.most)) continue;
    const std::string least = AttrValue(r.least).toString(), most = AttrValue(r.most).toString();
    Error error = Error("OPC0205") << r.name << " is " << AttrValue(v).toString() << ", it should be ";
    if (r.least < 0) return error << "finite";
    if (r.most == kNoLimit) return error << least << " or more";
    return error << "from " << least << (r.isOpen ? " to less than " : " to ") << most;
  }
  return Maybe<void>::Ok();
}
} // namespace

Maybe<void> checkScalar(InferContext *ctx, const char *arg, DataType type, DataType orType) {
  const TensorDesc &d = ctx->In(arg);
  if (d.shape().elem_cnt() != 1)
    return Error::ShapeMismatch() << arg << " is " << d.toString() << ", it should have one element";
  if (d.data_type() != type && d.data_type() != orType)
    return (Error::TypeError() << arg << " is " << dataTypeName(d.data_type()) << ", it should be "
                               << dataTypeName(type)
                               << (type == orType ? std::string() : std::string(" or ") + dataTypeName(orType)))
        .help(std::string("cast ") + arg);
  return Maybe<void>::Ok();
}

Maybe<DataType> rateType(InferContext *ctx) {
  const DataType type = ctx->Attr<DataType>("dtype");
  if (type != kFloat && type != kDouble)
    return Error::TypeError() << "dtype is " << dataTypeName(type) << ", it should be f32 or f64";
  return type;
}

void putScalar(Tensor *out, double value) {
  if (out->data_type() == kDouble)
    *out->mut_dptr<double>() = value;
  else
    *out->mut_dptr<float>() = static_cast<float>(value);
}

Maybe<void> inferUpdate(InferContext *ctx, const std::vector<std::string> &state) {
  const TensorDesc &model = ctx->In("model"), &diff = ctx->In("model_diff");
  const DataType type = model.data_type();
  const auto differs = [&](Error error, const std::string &arg) {
    return error << arg << " is " << ctx->In(arg).toString() << ", model is " << model.toString();
  };
  for (const std::string &arg : state)
    if (ctx->Has(arg) && ctx->In(arg) != model)
      return differs(ctx->In(arg).shape() == model.shape() ? Error::TypeError() : Error::ShapeMismatch(), arg);
  if (diff.shape() != model.shape()) return differs(Error::ShapeMismatch(), "model_diff");
  const auto half = [](DataType t) { return t == kFloat16 || t == kBFloat16; };
  if (diff.data_type() != type && !(half(diff.data_type()) && type == kFloat))
    return differs(Error::TypeError(), "model_diff").help("cast model_diff to the dtype of model");
  if (ctx->Has("model_copy")) {
    const TensorDesc &copy = ctx->In("model_copy");
    if (copy.shape() != model.shape()) return differs(Error::ShapeMismatch(), "model_copy");
    if (type != kFloat || !half(copy.data_type()))
      return Error::TypeError() << "model_copy is " << copy.toString()
                                << ", it should be f16 or bf16 beside a model of f32; model is " << model.toString();
  }
  for (const char *arg : kRealScalars)
    if (ctx->Has(arg)) JUST(checkScalar(ctx, arg, kFloat, type));
  for (const char *arg : kIntegerScalars)
    if (ctx->Has(arg)) JUST(checkScalar(ctx, arg, kInt64));
  if (ctx->Has(kNormsArg) && ctx->In(kNormsArg) != kNorms)
    return (Error::ShapeMismatch() << kNormsArg << " is " << ctx->In(kNormsArg).toString() << ", it should be "
                                   << kNorms.toString())
        .help("lamb_norms and lars_norms make them");
  return Maybe<void>::Ok();
}

void splitUpdate(OpRegistry &op) {
  std::vector<std::string> args;
  for (const auto &arg : op.def().inputs) args.push_back(arg.name);
  op.Sharding([args](const SbpContext &ctx) -> Maybe<ShardingRule> {
    const AxisFactors model = axisFactors(ctx.In("model").shape().NumAxes());
    std::vector<AxisFactors> terms;
    for (const std::string &arg : args) {
      const auto isIt = [&](const char *name) { return arg == name; };
      const bool isNorms = isIt(kNormsArg);
      if (isNorms && !ctx.Has(arg)) return ShardingRule(); // a device that has a piece needs the norms of the whole
      const bool isWhole = isNorms || std::any_of(std::begin(kRealScalars), std::end(kRealScalars), isIt) ||
                           std::any_of(std::begin(kIntegerScalars), std::end(kIntegerScalars), isIt);
      terms.push_back(isWhole ? AxisFactors{".."} : model);
    }
    return withSums(model, shardingRule(terms, {{".."}}));
  });
}

void modelInputs(OpRegistry &op) { op.Input("model").Input("model_diff"); }
void rateInputs(OpRegistry &op) {
  op.OptionalInput("learning_rate").OptionalInput("scale_by_tensor").OptionalInput("skip_if");
}

void gradientAttrs(OpRegistry &op) {
  op.Attr<float>("learning_rate_val", 0.0f)
      .Attr<float>("learning_rate_scale", 1.0f)
      .Attr<double>("scale", 1.0)
      .Attr<float>("l1", 0.0f)
      .Attr<float>("l2", 0.0f)
      .Attr<float>("weight_decay", 0.0f);
}

std::function<void(OpRegistry &)> updates(const std::vector<std::string> &state) {
  return [=](OpRegistry &op) {
    op.With(gradientAttrs)
        .With(splitUpdate)
        .SetCheckAttrFn(checkRanges)
        .SetTensorDescInferFn([=](InferContext *ctx) { return inferUpdate(ctx, state); })
        .SetInputArgModifyFn([=](const GetInputArgModifier &get, const UserOpConfWrapper &conf) {
          get("model", 0)->set_is_mutable(true);
          if (conf.input_size("model_copy") > 0) get("model_copy", 0)->set_is_mutable(true);
          for (const std::string &arg : state) get(arg, 0)->set_is_mutable(true);
        })
        .NoGrad("it updates a variable");
  };
}

Case updateCase(const char *name, const Shape &shape) { return Case(name).In("model", shape).In("model_diff", shape); }

template <class T> Update<T>::Update(KernelBindContext *ctx, bool writes) {
  const Tensor &model = ctx->In("model");
  n_ = model.shape().elem_cnt();
  model_ = model.template dptr<T>();
  written_ = writes ? ctx->Out("model").template mut_dptr<T>() : nullptr;
  diff_ = ctx->In("model_diff").raw_dptr();
  diffType_ = ctx->In("model_diff").data_type();
  if (ctx->Has("model_copy")) {
    copy_ = ctx->Out("model_copy").mut_raw_dptr();
    copyType_ = ctx->In("model_copy").data_type();
  }
  skipIf_ = ctx->Has("skip_if") ? ctx->In("skip_if").template dptr<int64_t>() : nullptr;
  rate_ = RunScalar(ctx, "learning_rate", real(ctx, "learning_rate_val"));
  scaleBy_ = RunScalar(ctx, "scale_by_tensor", 1);
  rateScale_ = real(ctx, "learning_rate_scale");
  scale_ = ctx->Attr<double>("scale");
  l1_ = real(ctx, "l1");
  l2_ = real(ctx, "l2");
  weightDecay_ = real(ctx, "weight_decay");
}
template class Update<float>;
template class Update<double>;

} // namespace opc::ops::optimizer
