// where and masked_fill: they move elements, so their kernels depend on element sizes alone.
// SPDX-License-Identifier: Apache-2.0
#include "elementwise/ElementwiseOps.h"

#include "LogicScalars.h"
#include "opc/Convert.h"
#include "opc/Dispatch.h"

#include <cstring>

namespace opc::user_op {
namespace {

using elementwise::Operand;
using elementwise::Row;

/// out = condition ? a : b. Parameter 1 is the bits of `a` when it is a number.
template <class M, class B, bool CondArray, bool AArray, bool BArray>
void selectLoop(const M *c, const B *a, const B *b, B *out, int64_t n) {
  OPC_INDEPENDENT_ITERATIONS
  for (int64_t i = 0; i < n; ++i) {
    const B x = a[AArray ? i : 0], y = b[BArray ? i : 0];
    out[i] = c[CondArray ? i : 0] != 0 ? x : y;
  }
}
template <class M, class B>
void selectRow(const void *const *in, uint32_t mask, const void *parameters, void *output, int64_t n) {
  const M *c = static_cast<const M *>(in[0]);
  const B *b = static_cast<const B *>(in[2]);
  B *out = static_cast<B *>(output);
  const B scalarA = in[1] ? *static_cast<const B *>(in[1]) : *static_cast<const B *>(parameters);
  const B scalarB = *b;
  const B *a = (mask & 2u) ? static_cast<const B *>(in[1]) : &scalarA;
  if (!(mask & 4u)) b = &scalarB;
  switch (mask & 7u) {
  case 7: return selectLoop<M, B, true, true, true>(c, a, b, out, n);
  case 5: return selectLoop<M, B, true, false, true>(c, a, b, out, n);
  case 3: return selectLoop<M, B, true, true, false>(c, a, b, out, n);
  case 1: return selectLoop<M, B, true, false, false>(c, a, b, out, n);
  default: break;
  }
  // The condition is one element: a row of a or of b.
  const bool first = *c != 0;
  const B *from = first ? a : b;
  if (mask & (first ? 2u : 4u)) {
    if (from != out) std::memcpy(out, from, static_cast<size_t>(n) * sizeof(B));
  } else {
    const B value = *from;
    for (int64_t i = 0; i < n; ++i) out[i] = value;
  }
}
template <class M> Row rowFor(size_t size) {
  switch (size) {
  case 1: return selectRow<M, uint8_t>;
  case 2: return selectRow<M, uint16_t>;
  case 4: return selectRow<M, uint32_t>;
  default: return selectRow<M, uint64_t>;
  }
}
Row rowFor(DataType condition, size_t size) {
  switch (GetSizeOfDataType(condition)) {
  case 1: return rowFor<uint8_t>(size);
  case 2: return rowFor<uint16_t>(size);
  case 4: return rowFor<uint32_t>(size);
  default: return rowFor<uint64_t>(size);
  }
}
bool isConditionType(DataType t) { return t == kBool || IsIntegralDataType(t); }

uint64_t bitsOf(const scalar::ScalarValue &v, DataType type) {
  uint64_t bits = 0;
  visit(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T value;
    if constexpr (isShortFloat<T>)
      value = T(v.as<float>());
    else if constexpr (std::is_same_v<T, bool>)
      value = v.real != 0;
    else
      value = v.as<T>();
    std::memcpy(&bits, &value, sizeof(T));
  });
  return bits;
}

std::vector<scalar::ScalarValue> fillValue(const UserOpConfWrapper &conf, DataType) {
  if (conf.attr<bool>("has_int_operand")) return {scalar::ScalarValue(conf.attr<int64_t>("int_operand"))};
  if (conf.attr<bool>("has_bool_operand"))
    return {scalar::ScalarValue(static_cast<int32_t>(conf.attr<bool>("bool_operand")))};
  return {scalar::ScalarValue(conf.attr<double>("float_operand"))};
}

class WhereKernel final : public OpKernel {
public:
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override { return make(ctx); }
  void Compute(KernelComputeContext *ctx) const override { make(ctx)->Run(ctx->device_ctx()); }

private:
  static std::unique_ptr<BoundKernel> make(KernelComputeContext *ctx) {
    const DataType condition = ctx->TensorDesc4ArgNameAndIndex("condition", 0)->data_type();
    const size_t size = GetSizeOfDataType(ctx->TensorDesc4ArgNameAndIndex("out", 0)->data_type());
    return elementwise::bind(ctx, {{"condition", GetSizeOfDataType(condition)}, {"x", size}, {"y", size}},
                             {"out", size}, rowFor(condition, size), nullptr, 0);
  }
};

/// The same rows with the number instead of `a`: the inputs are mask, nothing, x.
class MaskedFillKernel final : public OpKernel {
public:
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override { return make(ctx); }
  void Compute(KernelComputeContext *ctx) const override { make(ctx)->Run(ctx->device_ctx()); }

private:
  template <class M, class B>
  static void row(const void *const *in, uint32_t mask, const void *parameters, void *out, int64_t n) {
    const void *const all[] = {in[1], nullptr, in[0]};
    selectRow<M, B>(all, ((mask >> 1) & 1u) | ((mask & 1u) << 2), parameters, out, n);
  }
  template <class M> static Row fillRow(size_t size) {
    switch (size) {
    case 1: return row<M, uint8_t>;
    case 2: return row<M, uint16_t>;
    case 4: return row<M, uint32_t>;
    default: return row<M, uint64_t>;
    }
  }
  static std::unique_ptr<BoundKernel> make(KernelComputeContext *ctx) {
    const DataType mask = ctx->TensorDesc4ArgNameAndIndex("mask", 0)->data_type();
    const DataType type = ctx->TensorDesc4ArgNameAndIndex("out", 0)->data_type();
    const size_t size = GetSizeOfDataType(type), maskSize = GetSizeOfDataType(mask);
    const uint64_t value = bitsOf(fillValue(ctx->user_op_conf(), type)[0], type);
    const Row r = maskSize == 1   ? fillRow<uint8_t>(size)
                  : maskSize == 2 ? fillRow<uint16_t>(size)
                  : maskSize == 4 ? fillRow<uint32_t>(size)
                                  : fillRow<uint64_t>(size);
    return elementwise::bind(ctx, {{"x", size}, {"mask", maskSize}}, {"out", size}, r, &value, sizeof value);
  }
};

Maybe<void> inferSelect(InferContext *ctx, const char *condition, const std::vector<std::string> &values) {
  const TensorDesc &c = ctx->InputTensorDesc(condition, 0);
  if (!isConditionType(c.data_type()))
    return (Error::TypeError() << condition << " is " << dataTypeName(c.data_type())
                               << ", expected bool or an integer type")
        .help("compare it with a number, or cast it to bool");
  const TensorDesc first = ctx->InputTensorDesc(values[0], 0);
  std::vector<std::pair<std::string, Shape>> shapes = {{condition, c.shape()}};
  for (const std::string &name : values) {
    const TensorDesc &d = ctx->InputTensorDesc(name, 0);
    if (d.data_type() != first.data_type())
      return (Error::TypeError() << "element types differ: " << values[0] << " is " << dataTypeName(first.data_type())
                                 << ", " << name << " is " << dataTypeName(d.data_type()))
          .help("insert a cast");
    shapes.emplace_back(name, d.shape());
  }
  const Shape shape = JUST(elementwise::broadcastShapes(shapes));
  TensorDesc *out = ctx->TensorDesc4ArgNameAndIndex("out", 0);
  *out->mut_shape() = shape;
  *out->mut_data_type() = first.data_type();
  return Maybe<void>::Ok();
}

/// The output may take the place of a value tensor of its shape.
InplaceProposalFn inplaceOf(std::vector<std::string> values) {
  return [values = std::move(values)](const InferContext &ctx, AddInplaceArgPair propose) -> Maybe<void> {
    for (const std::string &name : values)
      if (ctx.InputTensorDesc(name, 0).shape() == ctx.OutputTensorDesc("out", 0).shape())
        JUST(propose("out", 0, name, 0, true));
    return Maybe<void>::Ok();
  };
}

/// Selection gives an op an expression, but its inputs have different types, so Elementwise does not fit.
OpRegistry withProgram(OpRegistry registry, scalar::ScalarProgram program, scalar::AttributeReader reader = nullptr) {
  program.attributes = std::move(reader);
  registry.def().scalar = std::make_shared<scalar::ScalarProgram>(std::move(program));
  return registry;
}

Case whereCase(const char *name, Shape c, Shape x, Shape y) {
  return Case(name).In("condition", kBool, std::move(c), 0, 2).In("x", std::move(x)).In("y", std::move(y));
}
Case maskedFillCase(const char *name, Shape x, Shape mask) {
  return Case(name)
      .In("x", std::move(x))
      .In("mask", kBool, std::move(mask), 0, 2)
      .Attr("has_float_operand", true)
      .Attr("float_operand", 2.5);
}

const UserOpRegisterTrigger whereOp = withProgram(
    OpRegistry("where", __FILE__, __LINE__)
        .Input("condition")
        .Input("x")
        .Input("y")
        .Output("out")
        .Doc("x where the condition is not 0, y elsewhere, with broadcasting. The condition is bool or an integer.")
        .SetTensorDescInferFn([](InferContext *ctx) { return inferSelect(ctx, "condition", {"x", "y"}); })
        .Sharding("..., ..., ... -> ...", Linear({1, 2}))
        .Cases({whereCase("matrix", {3, 5}, {3, 5}, {3, 5}), whereCase("broadcast", {4, 1}, {3, 1, 5}, {}),
                whereCase("one_condition", {}, {2, 3}, {3}), whereCase("scalar", {}, {}, {}),
                whereCase("empty", {0, 3}, {0, 3}, {1, 3}),
                Case("i32_condition").In("condition", kInt32, {7}, 0, 2).In("x", {7}).In("y", {7})}),
    scalar::record<scalar::Where>(3));
REGISTER_USER_KERNEL("where")
    .SetCreateFn<WhereKernel>()
    .SetIsMatchedHob(HobDeviceType() == DeviceType::kCPU)
    .SetInplaceProposalFn(inplaceOf({"x", "y"}));

const UserOpRegisterTrigger maskedFillOp =
    withProgram(OpRegistry("masked_fill", __FILE__, __LINE__)
                    .Input("x")
                    .Input("mask")
                    .Output("out")
                    .Attr<bool>("has_int_operand", false)
                    .Attr<bool>("has_float_operand", false)
                    .Attr<bool>("has_bool_operand", false)
                    .Attr<int64_t>("int_operand", 0)
                    .Attr<double>("float_operand", 0)
                    .Attr<bool>("bool_operand", false)
                    .Doc("The operand (int_operand, float_operand or bool_operand, as the has_ attributes say) where "
                         "the mask is not 0, x elsewhere, with broadcasting.")
                    .SetCheckAttrFn([](const UserOpDefWrapper &, const UserOpConfWrapper &conf) -> Maybe<void> {
                      const int given = conf.attr<bool>("has_int_operand") + conf.attr<bool>("has_float_operand") +
                                        conf.attr<bool>("has_bool_operand");
                      if (given == 1) return Maybe<void>::Ok();
                      return (Error::InvalidValueError()
                              << given << " of has_int_operand, has_float_operand and has_bool_operand are true")
                          .help("set exactly one of them, and the operand it names");
                    })
                    .SetTensorDescInferFn([](InferContext *ctx) { return inferSelect(ctx, "mask", {"x"}); })
                    .Sharding("..., ... -> ...")
                    .Cases({maskedFillCase("matrix", {3, 5}, {3, 5}), maskedFillCase("broadcast", {4, 1, 5}, {3, 1}),
                            maskedFillCase("scalar", {}, {}), maskedFillCase("empty", {0, 3}, {3})}),
                scalar::record<scalar::MaskedFill>(2), fillValue);
REGISTER_USER_KERNEL("masked_fill")
    .SetCreateFn<MaskedFillKernel>()
    .SetIsMatchedHob(HobDeviceType() == DeviceType::kCPU)
    .SetInplaceProposalFn(inplaceOf({"x"}));

} // namespace
} // namespace opc::user_op
