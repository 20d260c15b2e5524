// where and masked_fill: they move elements, so their kernels depend on element sizes alone.
// SPDX-License-Identifier: Apache-2.0
#include "ElementwiseWalk.h"
#include "LogicScalars.h"
#include "elementwise/ElementwiseOps.h"
#include "opc/Convert.h"
#include "opc/Dispatch.h"
#include "opc/JoinableKernel.h"
#include "support/CudaTask.h"
#include "support/ElementBytes.h"

#include <cstring>

namespace opc::ops {
namespace {

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
template <class M, class B> struct SelectRow {
  static void row(const void *const *in, uint32_t mask, const void *parameters, void *output, int64_t n) {
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
};

/// The same with the number instead of `a`: the inputs are x, mask.
template <class M, class B> struct FillRow {
  static void row(const void *const *in, uint32_t mask, const void *parameters, void *out, int64_t n) {
    const void *const all[] = {in[1], nullptr, in[0]};
    SelectRow<M, B>::row(all, ((mask >> 1) & 1u) | ((mask & 1u) << 2), parameters, out, n);
  }
};

/// R<M, B> for conditions and values of these sizes.
template <template <class, class> class R> Row rowFor(size_t condition, size_t value) {
  return withElementSize(condition, [&](auto m) {
    return withElementSize(value, [](auto b) -> Row { return R<decltype(m), decltype(b)>::row; });
  });
}

size_t sizeOf(const KernelContext &ctx, const char *arg) { return GetSizeOfDataType(ctx.Desc(arg).data_type()); }

uint64_t bitsOf(const scalar::ScalarValue &v, DataType type) {
  uint64_t bits = 0;
  visit(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T value;
    if constexpr (isShortFloat<T>)
      value = T(v.as<float>());
    else if constexpr (isNarrowInteger<T>)
      value = convertElement<T>(v.as<int64_t>());
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

/// On a GPU: `a` is null where the number with these bits stands in its place.
std::unique_ptr<BoundKernel> bindSelect(KernelBindContext *ctx, const Tensor &condition, const Tensor *a,
                                        const Tensor &b, uint64_t number) {
  Tensor &out = ctx->Out("out");
  cuda::ElementwiseArguments p{};
  const Tensor *inputs[] = {&condition, a, &b};
  bool isAligned = reinterpret_cast<uintptr_t>(out.raw_dptr()) % 16 == 0;
  std::vector<Shape> shapes;
  for (const Tensor *t : inputs) {
    if (t) isAligned = isAligned && reinterpret_cast<uintptr_t>(t->raw_dptr()) % 16 == 0;
    p.in[shapes.size()] = t ? t->raw_dptr() : nullptr;
    shapes.emplace_back(t ? t->shape() : condition.shape());
  }
  p.out = out.mut_raw_dptr();
  p.isAligned = isAligned;
  cuda::walk(Shape(out.shape()), shapes, &p);
  std::memcpy(p.parameters, &number, sizeof number);
  return bindLaunch(ctx, kernelOf(kernelOf("select", elementSize(condition)), elementSize(b)), p.n, p);
}

class WhereKernel final : public BindingKernel, public JoinableKernel {
public:
  Status MakeLoop(const KernelContext &ctx, std::unique_ptr<RowLoop> *loop) const override {
    const size_t condition = sizeOf(ctx, "condition"), size = sizeOf(ctx, "out");
    *loop = elementwise::makeLoop(3, size, rowFor<SelectRow>(condition, size), nullptr, 0);
    return Status();
  }
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    if (isOnGpu(ctx)) return bindSelect(ctx, ctx->In("condition"), &ctx->In("x"), ctx->In("y"), 0);
    const size_t condition = sizeOf(*ctx, "condition"), size = sizeOf(*ctx, "out");
    return elementwise::bind(ctx, {{"condition", condition}, {"x", size}, {"y", size}}, {"out", size},
                             rowFor<SelectRow>(condition, size), nullptr, 0);
  }
};

class MaskedFillKernel final : public BindingKernel, public JoinableKernel {
public:
  Status MakeLoop(const KernelContext &ctx, std::unique_ptr<RowLoop> *loop) const override {
    const DataType type = ctx.Desc("out").data_type();
    const size_t mask = sizeOf(ctx, "mask"), size = sizeOf(ctx, "out");
    const uint64_t value = bitsOf(fillValue(ctx.user_op_conf(), type)[0], type);
    *loop = elementwise::makeLoop(2, size, rowFor<FillRow>(mask, size), &value, sizeof value);
    return Status();
  }
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    const DataType type = ctx->Desc("out").data_type();
    const size_t mask = sizeOf(*ctx, "mask"), size = sizeOf(*ctx, "out");
    const uint64_t value = bitsOf(fillValue(ctx->user_op_conf(), type)[0], type);
    if (isOnGpu(ctx)) return bindSelect(ctx, ctx->In("mask"), nullptr, ctx->In("x"), value);
    return elementwise::bind(ctx, {{"x", size}, {"mask", mask}}, {"out", size}, rowFor<FillRow>(mask, size), &value,
                             sizeof value);
  }
};

Maybe<void> inferSelect(InferContext *ctx, const char *condition, const std::vector<std::string> &values) {
  const TensorDesc &c = ctx->In(condition);
  if (c.data_type() != kBool && !IsIntegralDataType(c.data_type()))
    return (Error::TypeError() << condition << " is " << dataTypeName(c.data_type())
                               << ", expected bool or an integer type")
        .help("compare it with a number, or cast it to bool");
  const TensorDesc first = ctx->In(values[0]);
  std::vector<std::pair<std::string, Shape>> shapes = {{condition, c.shape()}};
  for (const std::string &name : values) {
    const TensorDesc &d = ctx->In(name);
    if (d.data_type() != first.data_type())
      return (Error::TypeError() << "element types differ: " << values[0] << " is " << dataTypeName(first.data_type())
                                 << ", " << name << " is " << dataTypeName(d.data_type()))
          .help("insert a cast");
    shapes.emplace_back(name, d.shape());
  }
  return setOut(ctx, "out", TensorDesc(JUST(elementwise::broadcastShapes(shapes)), first.data_type()));
}

Maybe<void> checkFill(const UserOpDefWrapper &, const UserOpConfWrapper &conf) {
  const int given =
      conf.attr<bool>("has_int_operand") + conf.attr<bool>("has_float_operand") + conf.attr<bool>("has_bool_operand");
  if (given == 1) return Maybe<void>::Ok();
  return (Error::InvalidValueError() << given << " of has_int_operand, has_float_operand and has_bool_operand are true")
      .help("set exactly one of them, and the operand it names");
}

/// The output may take the place of a value tensor of its shape.
KernelOptions inplaceOf(std::vector<std::string> values) {
  return KernelOptions().Inplace(
      [values = std::move(values)](const InferContext &ctx, AddInplaceArgPair propose) -> Maybe<void> {
        for (const std::string &name : values)
          if (ctx.In(name).shape() == ctx.In("out").shape()) JUST(propose("out", 0, name, 0, true));
        return Maybe<void>::Ok();
      });
}

/// Selection gives an op an expression, but its inputs have different types, so Elementwise does not fit.
auto program(scalar::ScalarProgram program, scalar::AttributeReader reader = nullptr) {
  program.attributes = std::move(reader);
  return [program](OpRegistry &op) { op.def().scalar = std::make_shared<scalar::ScalarProgram>(program); };
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

REGISTER_USER_OP("where")
    .With(TensorArgs{{"condition", "x", "y"}, {"out"}})
    .With(program(scalar::record<scalar::Where>(3)))
    .Doc("x where the condition is not 0, y elsewhere, with broadcasting. The condition is bool or an integer.")
    .With(rules([](InferContext *ctx) { return inferSelect(ctx, "condition", {"x", "y"}); }, "..., ..., ... -> ...",
                Linear({1, 2})))
    .Cases({whereCase("matrix", {3, 5}, {3, 5}, {3, 5}), whereCase("broadcast", {4, 1}, {3, 1, 5}, {}),
            whereCase("one_condition", {}, {2, 3}, {3}), whereCase("scalar", {}, {}, {}),
            whereCase("empty", {0, 3}, {0, 3}, {1, 3}),
            Case("i32_condition").In("condition", kInt32, {7}, 0, 2).In("x", {7}).In("y", {7})})
    .Kernel<WhereKernel>(inplaceOf({"x", "y"}))
    .Kernel<WhereKernel>(inplaceOf({"x", "y"}).Device(DeviceType::kGPU));

REGISTER_USER_OP("masked_fill")
    .With(TensorArgs{{"x", "mask"}, {"out"}})
    .Attr<bool>("has_int_operand", false)
    .Attr<bool>("has_float_operand", false)
    .Attr<bool>("has_bool_operand", false)
    .Attr<int64_t>("int_operand", 0)
    .Attr<double>("float_operand", 0)
    .Attr<bool>("bool_operand", false)
    .Doc("The operand (int_operand, float_operand or bool_operand, as the has_ attributes say) where "
         "the mask is not 0, x elsewhere, with broadcasting.")
    .With(program(scalar::record<scalar::MaskedFill>(2), fillValue))
    .SetCheckAttrFn(checkFill)
    .With(rules([](InferContext *ctx) { return inferSelect(ctx, "mask", {"x"}); }, "..., ... -> ..."))
    .Cases({maskedFillCase("matrix", {3, 5}, {3, 5}), maskedFillCase("broadcast", {4, 1, 5}, {3, 1}),
            maskedFillCase("scalar", {}, {}), maskedFillCase("empty", {0, 3}, {3})})
    .Kernel<MaskedFillKernel>(inplaceOf({"x"}))
    .Kernel<MaskedFillKernel>(inplaceOf({"x"}).Device(DeviceType::kGPU));

} // namespace
} // namespace opc::ops
