// Operators with gradient rules as their authors write them: right ones in both styles, and wrong ones.
// SPDX-License-Identifier: Apache-2.0
#include "oneflow/core/framework/framework.h"
#include "opc/GradientRule.h"

#include <cmath>
#include <stdexcept>

namespace oneflow {
namespace {

Maybe<void> sameAsInput(user_op::InferContext *ctx) {
  *ctx->Shape4ArgNameAndIndex("out", 0) = *ctx->Shape4ArgNameAndIndex("in", 0);
  *ctx->Dtype4ArgNameAndIndex("out", 0) = *ctx->Dtype4ArgNameAndIndex("in", 0);
  return Maybe<void>::Ok();
}

/// out = 3 in^2.
template <typename T> class ThriceSquare final : public user_op::OpKernel {
private:
  void Compute(user_op::KernelComputeContext *ctx) const override {
    const user_op::Tensor *in = ctx->Tensor4ArgNameAndIndex("in", 0);
    user_op::Tensor *out = ctx->Tensor4ArgNameAndIndex("out", 0);
    for (int64_t i = 0; i < in->shape().elem_cnt(); ++i)
      out->mut_dptr<T>()[i] = T(3) * in->dptr<T>()[i] * in->dptr<T>()[i];
  }
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
};

#define THRICE_SQUARE(name)                                                                                            \
  REGISTER_USER_OP(name).Input("in").Output("out").SetTensorDescInferFn(sameAsInput);                                  \
  REGISTER_USER_KERNEL(name).SetCreateFn<ThriceSquare<float>>().SetIsMatchedHob(                                       \
      (user_op::HobDeviceType() == DeviceType::kCPU) & (user_op::HobDataType("in", 0) == GetDataType<float>::value));  \
  REGISTER_USER_KERNEL(name).SetCreateFn<ThriceSquare<double>>().SetIsMatchedHob(                                      \
      (user_op::HobDeviceType() == DeviceType::kCPU) & (user_op::HobDataType("in", 0) == GetDataType<double>::value))

/// As a newcomer writes it: for the type that the graph has.
#define FLOAT_ONLY(name)                                                                                               \
  REGISTER_USER_OP(name).Input("in").Output("out").SetTensorDescInferFn(sameAsInput);                                  \
  REGISTER_USER_KERNEL(name).SetCreateFn<ThriceSquare<float>>().SetIsMatchedHob(                                       \
      (user_op::HobDeviceType() == DeviceType::kCPU) & (user_op::HobDataType("in", 0) == GetDataType<float>::value))

// The callbacks capture the rule's own variables: they must have run when it returns.
#define GRADIENT_BY_TWO_OPS(name, factor)                                                                              \
  REGISTER_USER_OP_GRAD(name).SetBackwardOpConfGenFn([](user_op::BackwardOpConfContext *ctx) {                         \
    const auto product = ctx->FwOp().op_name() + "_product";                                                           \
    const auto scaled = ctx->FwOp().op_name() + "_scaled";                                                             \
    ctx->DefineOp(product, [&ctx](user_op::BackwardOpBuilder &builder) {                                               \
      return builder.OpTypeName("multiply")                                                                            \
          .InputBind("x", ctx->FwOp().input("in", 0))                                                                  \
          .InputBind("y", ctx->FwOp().output_grad("out", 0))                                                           \
          .Output("out")                                                                                               \
          .Build();                                                                                                    \
    });                                                                                                                \
    ctx->DefineOp(scaled, [&ctx, &product](user_op::BackwardOpBuilder &builder) {                                      \
      return builder.OpTypeName("scalar_mul")                                                                          \
          .InputBind("in", ctx->GetOp(product).output("out", 0))                                                       \
          .Attr("has_float_operand", true)                                                                             \
          .Attr("has_int_operand", false)                                                                              \
          .Attr("float_operand", static_cast<double>(factor))                                                          \
          .Attr("int_operand", static_cast<int64_t>(factor))                                                           \
          .Output("out")                                                                                               \
          .Build();                                                                                                    \
    });                                                                                                                \
    ctx->DefineOp(ctx->FwOp().op_name() + "_never_asked_for",                                                          \
                  [](user_op::BackwardOpBuilder &builder) { return builder.OpTypeName("no_such_op").Build(); });       \
    ctx->FwOp().InputGradBind(user_op::OpArg("in", 0), [&ctx, &scaled]() -> const std::string & {                      \
      return ctx->GetOp(scaled).output("out", 0);                                                                      \
    });                                                                                                                \
  })

THRICE_SQUARE("g_right");
GRADIENT_BY_TWO_OPS("g_right", 6);
FLOAT_ONLY("g_float_only");
GRADIENT_BY_TWO_OPS("g_float_only", 6);
THRICE_SQUARE("g_wrong_sign");
GRADIENT_BY_TWO_OPS("g_wrong_sign", -6);

// The older style binds the result of an op before it adds the op.
THRICE_SQUARE("g_old_style");
REGISTER_USER_OP_GRAD("g_old_style").SetGenBackwardOpConfFn([](const user_op::UserOpWrapper &op, user_op::AddOpFn add) {
  if (!op.NeedGenGradTensor4OpInput("in", 0)) return;
  user_op::UserOpConfWrapperBuilder product(op.op_name() + "_product");
  const auto multiply = product.Op("multiply")
                            .Input("x", op.input("in", 0))
                            .Input("y", op.GetGradTensorWithOpOutput("out", 0))
                            .Output("out")
                            .Build();
  user_op::UserOpConfWrapperBuilder scaled(op.op_name() + "_scaled");
  const auto scale = scaled.Op("scalar_mul")
                         .Input("in", multiply.output("out", 0))
                         .Attr("has_float_operand", true)
                         .Attr("has_int_operand", false)
                         .Attr("float_operand", 6.0)
                         .Attr("int_operand", int64_t(6))
                         .Output("out")
                         .Build();
  op.BindGradTensorWithOpInput(scale.output("out", 0), "in", 0);
  add(multiply);
  add(scale);
});

THRICE_SQUARE("g_none");

THRICE_SQUARE("g_unbound");
REGISTER_USER_OP_GRAD("g_unbound").SetBackwardOpConfGenFn([](user_op::BackwardOpConfContext *) {});

THRICE_SQUARE("g_misspelt");
REGISTER_USER_OP_GRAD("g_misspelt").SetBackwardOpConfGenFn([](user_op::BackwardOpConfContext *ctx) {
  ctx->FwOp().InputGradBind(user_op::OpArg("inn", 0),
                            [ctx]() -> const std::string & { return ctx->FwOp().input("in", 0); });
});

#define BAD_RULE(name, body)                                                                                           \
  THRICE_SQUARE(name);                                                                                                 \
  REGISTER_USER_OP_GRAD(name).SetBackwardOpConfGenFn([](user_op::BackwardOpConfContext *ctx) { body; })

BAD_RULE("g_throws", (void)ctx; throw std::runtime_error("the rule gave up"));
BAD_RULE("g_no_such_tensor", ctx->FwOp().BindGradTensorWithOpInput("nobody/out_0", "in", 0));
BAD_RULE("g_no_such_input", ctx->FwOp().BindGradTensorWithOpInput(ctx->FwOp().output_grad("out", 0), "inn", 0));
BAD_RULE("g_no_such_output", ctx->FwOp().BindGradTensorWithOpInput(ctx->FwOp().output_grad("outt", 0), "in", 0));
BAD_RULE("g_twice", ctx->FwOp().BindGradTensorWithOpInput(ctx->FwOp().output_grad("out", 0), "in", 0);
         ctx->FwOp().BindGradTensorWithOpInput(ctx->FwOp().output_grad("out", 0), "in", 0));
BAD_RULE("g_not_defined", ctx->GetOp("nobody"));
BAD_RULE("g_unknown_op", const auto name = ctx->FwOp().op_name() + "_x"; ctx->DefineOp(
    name,
    [&](user_op::BackwardOpBuilder &b) {
      return b.OpTypeName("multipli").InputBind("x", ctx->FwOp().input("in", 0)).Output("out").Build();
    });
         ctx->FwOp().InputGradBind(user_op::OpArg("in", 0),
                                   [&]() -> const std::string & { return ctx->GetOp(name).output("out", 0); }));
BAD_RULE("g_wrong_shape", const auto name = ctx->FwOp().op_name() + "_x";
         ctx->DefineOp(name,
                       [&](user_op::BackwardOpBuilder &b) {
                         return b.OpTypeName("reduce_sum")
                             .InputBind("input_tensor", ctx->FwOp().output_grad("out", 0))
                             .Attr("axis", std::vector<int32_t>{0})
                             .Attr("keepdims", false)
                             .Output("output_tensor")
                             .Build();
                       });
         ctx->FwOp().InputGradBind(user_op::OpArg("in", 0), [&]() -> const std::string & {
           return ctx->GetOp(name).output("output_tensor", 0);
         }));

#define SHORT_RULE(name, ...)                                                                                          \
  REGISTER_USER_OP_GRAD(name).SetBackwardOpConfGenFn(                                                                  \
      opc::user_op::gradientRule([](opc::user_op::GradientRule &g) { __VA_ARGS__; }))
THRICE_SQUARE("g_short_bind");
SHORT_RULE("g_short_bind", g.bind("inn", g.dy("out")));
THRICE_SQUARE("g_short_needs");
SHORT_RULE("g_short_needs", if (!g.needs("inn")) g.bind("in", g.dy("out")));
THRICE_SQUARE("g_short_output");
SHORT_RULE("g_short_output", g.bind("in", g.add("relu", "x").in("x", g.dy("out")).out()));
THRICE_SQUARE("g_short_index");
SHORT_RULE("g_short_index", g.bind("in", g.add("relu", "x").in("x", g.dy("out")).out("y", 1)));
THRICE_SQUARE("g_short_input");
SHORT_RULE("g_short_input", g.bind("in", g.add("relu", "x").in("zz", g.dy("out")).out("y")));
REGISTER_USER_OP("g_short_optional").Input("in").OptionalInput("mask").Output("out").SetTensorDescInferFn(sameAsInput);
SHORT_RULE("g_short_optional", if (!g.needs("mask")) g.bind("in", g.dy("out")); g.bind("mask", g.dy("out")));

// Signatures that do not hold: softmax along the last axis cannot be cut along it; scaling by 2 and adding 1 is not
// linear.
class RowSoftmax final : public user_op::OpKernel {
private:
  void Compute(user_op::KernelComputeContext *ctx) const override {
    const user_op::Tensor *in = ctx->Tensor4ArgNameAndIndex("in", 0);
    user_op::Tensor *out = ctx->Tensor4ArgNameAndIndex("out", 0);
    const int64_t n = in->shape().At(in->shape().NumAxes() - 1), rows = in->shape().elem_cnt() / n;
    for (int64_t r = 0; r < rows; ++r) {
      const double *x = in->dptr<double>() + r * n;
      double *y = out->mut_dptr<double>() + r * n, sum = 0;
      for (int64_t i = 0; i < n; ++i) sum += y[i] = std::exp(x[i]);
      for (int64_t i = 0; i < n; ++i) y[i] /= sum;
    }
  }
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
};
Maybe<void> everyAxis(user_op::SbpContext *ctx) {
  const auto &in = ctx->LogicalTensorDesc4InputArgNameAndIndex("in", 0);
  for (int64_t axis = 0; axis < in.shape().NumAxes(); ++axis)
    ctx->NewBuilder().Split(ctx->inputs(), axis).Split(ctx->outputs(), axis).Build();
  return Maybe<void>::Ok();
}
REGISTER_USER_OP("s_softmax")
    .Input("in")
    .Output("out")
    .SetTensorDescInferFn(sameAsInput)
    .SetGetSbpFn(everyAxis)
    .Cases({opc::user_op::Case("rows").In("in", opc::Shape({4, 5}))});
REGISTER_USER_KERNEL("s_softmax")
    .SetCreateFn<RowSoftmax>()
    .SetIsMatchedHob((user_op::HobDeviceType() == DeviceType::kCPU) &
                     (user_op::HobDataType("in", 0) == GetDataType<double>::value));
REGISTER_USER_OP("s_rule")
    .Input("in")
    .Output("out")
    .SetTensorDescInferFn(sameAsInput)
    .Sharding("a b c -> a b c")
    .Cases({opc::user_op::Case("rows").In("in", opc::Shape({4, 5}))});
REGISTER_USER_KERNEL("s_rule").SetCreateFn<RowSoftmax>().SetIsMatchedHob(
    (user_op::HobDeviceType() == DeviceType::kCPU) & (user_op::HobDataType("in", 0) == GetDataType<double>::value));
REGISTER_USER_OP("s_square")
    .Input("in")
    .Output("out")
    .SetTensorDescInferFn(sameAsInput)
    .Sharding("... -> ...", opc::user_op::Linear({0}))
    .Cases({opc::user_op::Case("row").In("in", opc::Shape({7}))});
REGISTER_USER_KERNEL("s_square")
    .SetCreateFn<ThriceSquare<double>>()
    .SetIsMatchedHob((user_op::HobDeviceType() == DeviceType::kCPU) &
                     (user_op::HobDataType("in", 0) == GetDataType<double>::value));

// Definitions that name what is not there, forget what is, or fail.
#define ELEMENTWISE_WITH(name, ...)                                                                                    \
  REGISTER_USER_OP(name).Input("in").Output("out").SetTensorDescInferFn(sameAsInput).__VA_ARGS__;                      \
  REGISTER_USER_KERNEL(name).SetCreateFn<ThriceSquare<float>>().SetIsMatchedHob(                                       \
      (user_op::HobDeviceType() == DeviceType::kCPU) & (user_op::HobDataType("in", 0) == GetDataType<float>::value))
#define SIGNATURE(...)                                                                                                 \
  SetGetSbpFn([](user_op::SbpContext *ctx) {                                                                           \
    ctx->NewBuilder().__VA_ARGS__.Build();                                                                             \
    return Maybe<void>::Ok();                                                                                          \
  })
ELEMENTWISE_WITH("s_misspelt", SIGNATURE(Split(ctx->inputs(), 0).Split(user_op::OpArg("outt", 0), 0)));
ELEMENTWISE_WITH("s_forgotten", SIGNATURE(Split(ctx->inputs(), 0)));
ELEMENTWISE_WITH("s_index", SIGNATURE(Split(ctx->inputs(), 0).Split(user_op::OpArg("out", 1), 0)));
ELEMENTWISE_WITH("s_input", SIGNATURE(Split(user_op::OpArg("inn", 0), 0).Split(ctx->outputs(), 0)));
ELEMENTWISE_WITH("s_right", SIGNATURE(Split(ctx->inputs(), 0).Split(ctx->outputs(), 0)));
ELEMENTWISE_WITH("m_misspelt",
                 SetInputArgModifyFn([](user_op::GetInputArgModifier get, const user_op::UserOpConfWrapper &) {
                   get("inn", 0)->set_requires_grad(false);
                 }));
ELEMENTWISE_WITH("m_throws", SetInputArgModifyFn([](user_op::GetInputArgModifier, const user_op::UserOpConfWrapper &) {
                   throw std::runtime_error("gave up");
                 }));
ELEMENTWISE_WITH("m_output",
                 SetOutputArgModifyFn([](user_op::GetOutputArgModifier get, const user_op::UserOpConfWrapper &) {
                   get("outt", 0)->set_requires_grad(false);
                 }));
REGISTER_USER_OP("t_throws").Input("in").Output("out").SetTensorDescInferFn(sameAsInput);
REGISTER_USER_KERNEL("t_throws")
    .SetCreateFn<ThriceSquare<float>>()
    .SetIsMatchedHob((user_op::HobDeviceType() == DeviceType::kCPU) &
                     (user_op::HobDataType("in", 0) == GetDataType<float>::value))
    .SetInferTmpSizeFn([](user_op::InferContext *) -> size_t { throw std::runtime_error("gave up"); });

#define IN_PLACE(name, ...)                                                                                            \
  REGISTER_USER_OP(name).Input("in").Output("out").SetTensorDescInferFn(sameAsInput);                                  \
  REGISTER_USER_KERNEL(name)                                                                                           \
      .SetCreateFn<ThriceSquare<float>>()                                                                              \
      .SetIsMatchedHob(user_op::HobDataType("in", 0) == GetDataType<float>::value)                                     \
      .SetInplaceProposalFn(                                                                                           \
          [](const user_op::InferContext &, user_op::AddInplaceArgPair add) -> Maybe<void> { __VA_ARGS__ })
IN_PLACE("p_misspelt", return add("out", 0, "inn", 0, true););
IN_PLACE("p_misspelt_output", return add("outt", 0, "in", 0, true););
IN_PLACE("p_throws", throw std::runtime_error("gave up"););

REGISTER_USER_OP("k_condition").Input("in").Output("out").SetTensorDescInferFn(sameAsInput);
REGISTER_USER_KERNEL("k_condition")
    .SetCreateFn<ThriceSquare<float>>()
    .SetIsMatchedHob(user_op::HobAttr<bool>("no_such") == true);

/// Two kernels of one priority, and one above both.
REGISTER_USER_OP("k_two").Input("in").Output("out").SetTensorDescInferFn(sameAsInput);
REGISTER_USER_KERNEL("k_two").SetCreateFn<ThriceSquare<float>>().SetIsMatchedHob(user_op::HobTrue());
REGISTER_USER_KERNEL("k_two").SetCreateFn<ThriceSquare<float>>().SetIsMatchedHob(user_op::HobDeviceTag() == "cpu");
REGISTER_USER_OP("k_three").Input("in").Output("out").SetTensorDescInferFn(sameAsInput);
REGISTER_USER_KERNEL("k_three").SetCreateFn<ThriceSquare<float>>().SetIsMatchedHob(user_op::HobTrue());
REGISTER_USER_KERNEL("k_three").SetCreateFn<ThriceSquare<float>>().SetIsMatchedHob(user_op::HobTrue());
REGISTER_USER_KERNEL("k_three").SetCreateFn<ThriceSquare<float>>().SetIsMatchedHob(user_op::HobTrue()).SetPriority(10);

/// out = 3 in^2 (1 + n), and n grows with each run: differences compare runs of the same n.
class Growing final : public user_op::OpKernel {
private:
  void Compute(user_op::KernelComputeContext *ctx) const override {
    const user_op::Tensor *in = ctx->Tensor4ArgNameAndIndex("in", 0);
    user_op::Tensor *n = ctx->Tensor4ArgNameAndIndex("n", 0), *out = ctx->Tensor4ArgNameAndIndex("out", 0);
    double &runs = *n->mut_dptr<double>();
    for (int64_t i = 0; i < in->shape().elem_cnt(); ++i)
      out->mut_dptr<double>()[i] = 3 * in->dptr<double>()[i] * in->dptr<double>()[i] * (1 + runs);
    runs += 1;
  }
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
};
#define GROWING(name)                                                                                                  \
  REGISTER_USER_OP(name)                                                                                               \
      .Input("in")                                                                                                     \
      .Input("n")                                                                                                      \
      .Output("out")                                                                                                   \
      .SetTensorDescInferFn(sameAsInput)                                                                               \
      .SetInputArgModifyFn([](user_op::GetInputArgModifier get, const user_op::UserOpConfWrapper &) {                  \
        get("n", 0)->set_is_mutable(true);                                                                             \
        get("n", 0)->set_requires_grad(false);                                                                         \
      });                                                                                                              \
  REGISTER_USER_KERNEL(name).SetCreateFn<Growing>().SetIsMatchedHob(                                                   \
      (user_op::HobDeviceType() == DeviceType::kCPU) & (user_op::HobDataType("in", 0) == GetDataType<double>::value))
GROWING("g_growing");
GRADIENT_BY_TWO_OPS("g_growing", 6);
GROWING("g_growing_wrong");
GRADIENT_BY_TWO_OPS("g_growing_wrong", 600);

} // namespace
} // namespace oneflow
