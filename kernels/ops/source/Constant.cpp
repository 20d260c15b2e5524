// constant, constant_like, zero_like, ones_like: tensors filled with one value.
// SPDX-License-Identifier: Apache-2.0
#include "support/Axes.h"
#include "support/ConvertElements.h"
#include "support/CpuKernels.h"
#include "support/StridedCopy.h"

namespace opc::ops {
namespace {

Maybe<void> checkShape(const Shape &shape) {
  for (int64_t d : shape)
    if (d < 0)
      return (Error("OPC0205") << "shape " << shape.ToString() << " has the dimension " << d)
          .help("dimensions are 0 or more");
  return Maybe<void>::Ok();
}

Maybe<void> inferConstant(InferContext *ctx) {
  const Shape shape = ctx->Attr<Shape>("shape");
  JUST(checkShape(shape));
  const DataType type = ctx->Attr<DataType>("dtype");
  if (!isTensorDataType(type))
    return (Error::TypeError() << "dtype is " << DataType_Name(type) << ", which tensors cannot have")
        .help("for example dtype: kFloat");
  *ctx->TensorDesc4ArgNameAndIndex("out", 0) = TensorDesc(shape, type);
  return Maybe<void>::Ok();
}

Maybe<void> inferConstantLike(InferContext *ctx) {
  DataType type = ctx->Attr<DataType>("dtype");
  if (type == kInvalidDataType) type = ctx->InputDType("like", 0);
  if (!isTensorDataType(type))
    return Error::TypeError() << "dtype is " << DataType_Name(type) << ", which tensors cannot have";
  *ctx->TensorDesc4ArgNameAndIndex("out", 0) = TensorDesc(ctx->InputShape("like", 0), type);
  return Maybe<void>::Ok();
}

class FillKernel final : public BindingKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    Tensor *out = ctx->Tensor4ArgNameAndIndex("out", 0);
    const auto &conf = ctx->user_op_conf();
    const DataType type = out->data_type();
    const size_t size = GetSizeOfDataType(type);
    uint64_t value = 0; // the element's bytes
    if (conf.has_attr("is_floating_value")) {
      if (ctx->Attr<bool>("is_floating_value")) {
        const double v = ctx->Attr<double>("floating_value");
        converter(kDouble, type)(&v, &value, 1);
      } else {
        const int64_t v = ctx->Attr<int64_t>("integer_value");
        converter(kInt64, type)(&v, &value, 1);
      }
    } else if (ctx->op_type_name() == "ones_like") {
      const int64_t one = 1;
      converter(kInt64, type)(&one, &value, 1);
    }
    void *dst = out->mut_raw_dptr();
    const int64_t n = out->shape().elem_cnt();
    return user_op::bindTask([=](DeviceCtx *dev) { fillElements(dev, size, &value, dst, n); });
  }
};

Maybe<void> constantSbp(user_op::SbpContext *ctx) {
  const int64_t rank = ctx->Attr<Shape>("shape").NumAxes();
  for (int64_t a = 0; a < rank; ++a) ctx->NewBuilder().Split(ctx->outputs(), a).Build();
  return Maybe<void>::Ok();
}
/// The values of like are not read: a partial sum gives its shape as well as anything.
Maybe<void> likeSbp(user_op::SbpContext *ctx) {
  const int64_t rank = ctx->LogicalTensorDesc4InputArgNameAndIndex("like", 0).shape().NumAxes();
  for (int64_t a = 0; a < rank; ++a) ctx->NewBuilder().Split(ctx->inputs(), a).Split(ctx->outputs(), a).Build();
  ctx->NewBuilder().PartialSum(ctx->inputs()).Broadcast(ctx->outputs()).Build();
  return Maybe<void>::Ok();
}

const char *const kValueDoc =
    "The value is floating_value when is_floating_value, else integer_value, converted to the dtype by the rules of "
    "cast. ";
const std::vector<DataType> kSampleTypes = {kFloat, kDouble, kFloat16, kBFloat16, kInt8, kInt64, kBool};

REGISTER_USER_OP("constant")
    .Output("out")
    .Attr<double>("floating_value", 0.0)
    .Attr<int64_t>("integer_value", 0)
    .Attr<bool>("is_floating_value", false)
    .Attr<bool>("is_complex_value", false)
    .RequiredAttr<DataType>("dtype")
    .RequiredAttr<Shape>("shape")
    .Attr<std::vector<std::string>>("nd_sbp", {})
    .SetTensorDescInferFn(inferConstant)
    .SetGetSbpFn(constantSbp)
    .NoGrad("it has no input")
    .Doc(std::string("A tensor of `shape` and `dtype` with one value everywhere. ") + kValueDoc)
    .Cases({user_op::Case("float")
                .Attr("shape", Shape({2, 3}))
                .Attr("dtype", kFloat)
                .Attr("floating_value", 1.5)
                .Attr("is_floating_value", true),
            user_op::Case("int").Attr("shape", Shape({4})).Attr("dtype", kInt64).Attr<int64_t>("integer_value", -7),
            user_op::Case("half")
                .Attr("shape", Shape())
                .Attr("dtype", kFloat16)
                .Attr("floating_value", 0.1)
                .Attr("is_floating_value", true)});

REGISTER_USER_OP("constant_like")
    .Input("like")
    .Output("out")
    .Attr<double>("floating_value", 0.0)
    .Attr<int64_t>("integer_value", 0)
    .Attr<bool>("is_floating_value", false)
    .Attr<DataType>("dtype", kInvalidDataType)
    .SetTensorDescInferFn(inferConstantLike)
    .SetGetSbpFn(likeSbp)
    .NoGrad("the output does not depend on the values of like")
    .Doc(std::string("A tensor of the shape of like, and of its dtype unless `dtype` is given. ") + kValueDoc)
    .Cases({user_op::Case("float")
                .In("like", {2, 3})
                .Attr("floating_value", 2.5)
                .Attr("is_floating_value", true)
                .Types({kFloat, kDouble, kFloat16}),
            user_op::Case("int").In("like", {2, 3}).Attr<int64_t>("integer_value", 3).Types({kInt8, kInt64})});

REGISTER_USER_OP("zero_like")
    .Input("like")
    .Output("out")
    .Alias("zeros_like")
    .SetTensorDescInferFn(user_op::TensorDescInferFnUtil::Unchanged)
    .SetGetSbpFn(likeSbp)
    .NoGrad("the output does not depend on the values of like")
    .Doc("Zeros in the shape and dtype of like.")
    .Cases({user_op::Case("matrix").In("like", {2, 3}).Types(kSampleTypes)});

REGISTER_USER_OP("ones_like")
    .Input("like")
    .Output("out")
    .SetTensorDescInferFn(user_op::TensorDescInferFnUtil::Unchanged)
    .SetGetSbpFn(likeSbp)
    .NoGrad("the output does not depend on the values of like")
    .Doc("Ones in the shape and dtype of like.")
    .Cases({user_op::Case("matrix").In("like", {2, 3}).Types(kSampleTypes)});

OPC_ANY_TYPE_CPU_KERNEL("constant", FillKernel);
OPC_ANY_TYPE_CPU_KERNEL("constant_like", FillKernel);
OPC_ANY_TYPE_CPU_KERNEL("zero_like", FillKernel);
OPC_ANY_TYPE_CPU_KERNEL("ones_like", FillKernel);

} // namespace
} // namespace opc::ops
