// constant, constant_like, zero_like, ones_like: tensors filled with one value.
// SPDX-License-Identifier: Apache-2.0
#include "support/ConvertElements.h"
#include "support/FunctionKernel.h"
#include "support/Operator.h"
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
  return setOut(ctx, "out", TensorDesc(shape, type));
}

Maybe<void> inferConstantLike(InferContext *ctx) {
  DataType type = ctx->Attr<DataType>("dtype");
  if (type == kInvalidDataType) type = ctx->In("like").data_type();
  if (!isTensorDataType(type))
    return Error::TypeError() << "dtype is " << DataType_Name(type) << ", which tensors cannot have";
  return setOut(ctx, "out", TensorDesc(ctx->In("like").shape(), type));
}

/// Fills out with `value`, of type `from`, converted.
std::unique_ptr<BoundKernel> fill(KernelBindContext *ctx, DataType from, const void *value) {
  Tensor &out = ctx->Out("out");
  const size_t size = GetSizeOfDataType(out.data_type());
  uint64_t element = 0; // its bytes
  converter(from, out.data_type())(value, &element, 1);
  void *to = out.mut_raw_dptr();
  const int64_t n = out.shape().elem_cnt();
  return bindTask([=](DeviceCtx *dev) { fillElements(dev, size, &element, to, n); });
}

std::unique_ptr<BoundKernel> bindConstant(KernelBindContext *ctx) {
  if (ctx->Attr<bool>("is_floating_value")) return fill(ctx, kDouble, &ctx->Attr<double>("floating_value"));
  return fill(ctx, kInt64, &ctx->Attr<int64_t>("integer_value"));
}

template <int64_t kValue> class FillKernel final : public BindingKernel {
public:
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    const int64_t value = kValue;
    return fill(ctx, kInt64, &value);
  }
};

/// Definition of zero_like and ones_like.
void likeDefinition(OpRegistry &op) {
  op.With(TensorArgs{{"like"}, {"out"}})
      .With(rules(TensorDescInferFnUtil::Unchanged, "? ... -> ..."))
      .NoGrad("the output does not depend on the values of like")
      .Cases({Case("matrix").In("like", {2, 3}).Types({kFloat, kDouble, kFloat16, kBFloat16, kInt8, kInt64, kBool})});
}

const char *const kValueDoc =
    "The value is floating_value when is_floating_value, else integer_value, converted to the dtype by the rules of "
    "cast. ";

REGISTER_USER_OP("constant")
    .Output("out")
    .Attr<double>("floating_value", 0.0)
    .Attr<int64_t>("integer_value", 0)
    .Attr<bool>("is_floating_value", false)
    .Attr<bool>("is_complex_value", false)
    .RequiredAttr<DataType>("dtype")
    .RequiredAttr<Shape>("shape")
    .Attr<std::vector<std::string>>("nd_sbp", {})
    .With(rules(inferConstant, "-> ..."))
    .Pure()
    .NoGrad("it has no input")
    .Doc(std::string("A tensor of `shape` and `dtype` with one value everywhere. ") + kValueDoc)
    .Cases({Case("float")
                .Attr("shape", Shape({2, 3}))
                .Attr("dtype", kFloat)
                .Attr("floating_value", 1.5)
                .Attr("is_floating_value", true),
            Case("int").Attr("shape", Shape({4})).Attr("dtype", kInt64).Attr<int64_t>("integer_value", -7),
            Case("half")
                .Attr("shape", Shape())
                .Attr("dtype", kFloat16)
                .Attr("floating_value", 0.1)
                .Attr("is_floating_value", true)})
    .With(onCpuAndGpu<FunctionKernel<bindConstant>>());

REGISTER_USER_OP("constant_like")
    .With(TensorArgs{{"like"}, {"out"}})
    .Attr<double>("floating_value", 0.0)
    .Attr<int64_t>("integer_value", 0)
    .Attr<bool>("is_floating_value", false)
    .Attr<DataType>("dtype", kInvalidDataType)
    .With(rules(inferConstantLike, "? ... -> ..."))
    .NoGrad("the output does not depend on the values of like")
    .Doc(std::string("A tensor of the shape of like, and of its dtype unless `dtype` is given. ") + kValueDoc)
    .Cases({Case("float")
                .In("like", {2, 3})
                .Attr("floating_value", 2.5)
                .Attr("is_floating_value", true)
                .Types({kFloat, kDouble, kFloat16}),
            Case("int").In("like", {2, 3}).Attr<int64_t>("integer_value", 3).Types({kInt8, kInt64})})
    .With(onCpuAndGpu<FunctionKernel<bindConstant>>());

REGISTER_USER_OP("zero_like")
    .Alias("zeros_like")
    .With(likeDefinition)
    .Doc("Zeros in the shape and dtype of like.")
    .With(onCpuAndGpu<FillKernel<0>>());

REGISTER_USER_OP("ones_like")
    .With(likeDefinition)
    .Doc("Ones in the shape and dtype of like.")
    .With(onCpuAndGpu<FillKernel<1>>());

} // namespace
} // namespace opc::ops
