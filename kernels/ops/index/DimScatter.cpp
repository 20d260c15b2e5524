// dim_scatter_update, dim_scatter_add, dim_scatter_mul, dim_scatter_max, dim_scatter_min and dim_scatter_add_like:
// elements put where indices along one axis say.
// SPDX-License-Identifier: Apache-2.0
#include "index/IndexOnGpu.h"
#include "support/Accumulate.h"
#include "support/FunctionKernel.h"

#include <cmath>

namespace opc::ops {
namespace {

/// `base` is the input with the shape of the output.
Maybe<void> infer(InferContext *ctx, const char *base) {
  const TensorDesc input = ctx->In(base), src = ctx->In("src");
  JUST(checkIndex(ctx, base));
  JUST(fitsInside(ctx->In("index").shape(), src.shape(), -1, "src"));
  if (src.data_type() != input.data_type())
    return (Error::TypeError() << "src is " << dataTypeName(src.data_type()) << ", " << base << " is "
                               << dataTypeName(input.data_type()))
        .help("cast src");
  return setOut(ctx, "output", input);
}

/// The larger element or the smaller one; NaN is both.
template <bool kIsLargest> struct Choose {
  template <class A> static A apply(A a, A value) {
    if constexpr (std::is_floating_point_v<A>)
      if (std::isnan(value)) return value;
    return (kIsLargest ? a < value : value < a) ? value : a;
  }
};
using Largest = Choose<true>;
using Smallest = Choose<false>;

template <class Update> constexpr const char *kKernelOnGpu = "dim_scatter_add";
template <> constexpr const char *kKernelOnGpu<Multiply> = "dim_scatter_mul";
template <> constexpr const char *kKernelOnGpu<Largest> = "dim_scatter_max";
template <> constexpr const char *kKernelOnGpu<Smallest> = "dim_scatter_min";

/// What the output starts from.
enum class Init { kInput, kZeros };

template <class Update, class T, Init init> std::unique_ptr<BoundKernel> bindScatter(KernelBindContext *ctx) {
  if (isOnGpu(ctx)) {
    const DataType type = ctx->In("src").data_type();
    const std::string kernel = std::is_same_v<Update, Replace> ? kernelOf("dim_scatter_update", GetSizeOfDataType(type))
                                                               : kernelOf(kKernelOnGpu<Update>, type);
    return bindLinesOnGpu(ctx, kernel, {init == Init::kInput ? &ctx->In("input") : nullptr, &ctx->In("src")},
                          ctx->Out("output"), "output", "src", true);
  }
  const Accumulated<T> out(ctx, "output", init == Init::kInput ? "input" : nullptr);
  const T *from = static_cast<const T *>(ctx->In("src").raw_dptr());
  return withIndices(ctx->In("index"), [&](const auto *indices) {
    const DimLines lines(ctx, indices, "output", "src");
    return bindTask([=](DeviceCtx *dev) {
      lines.check(dev);
      out.begin(dev);
      auto *to = out.data();
      lines.forEach(dev, [&](int64_t i, int64_t x, int64_t o) {
        for (int64_t k = 0; k < lines.length; ++k) {
          const int64_t place = lines.range.place(indices[i + k * lines.indexStep]);
          if (!lines.range.holds(place)) continue;
          auto &element = to[x + place * lines.indexedStep];
          element = Update::apply(element, out.value(from[o + k * lines.otherStep]));
        }
      });
      out.end(dev);
    });
  });
}
std::unique_ptr<BoundKernel> bindUpdate(KernelBindContext *ctx) {
  return withElementSize(elementSize(ctx->In("input")),
                         [&](auto tag) { return bindScatter<Replace, decltype(tag), Init::kInput>(ctx); });
}
template <class T> using AddKernel = FunctionKernel<bindScatter<Add, T, Init::kInput>>;
template <class T> using MulKernel = FunctionKernel<bindScatter<Multiply, T, Init::kInput>>;
template <class T> using MaxKernel = FunctionKernel<bindScatter<Largest, T, Init::kInput>>;
template <class T> using MinKernel = FunctionKernel<bindScatter<Smallest, T, Init::kInput>>;
template <class T> using AddLikeKernel = FunctionKernel<bindScatter<Add, T, Init::kZeros>>;

/// Each device may have a piece of the indexed axis. Addends of the input take addends of src, or, in a sum, pieces of
/// what is added; factors leave addends of the input what they are. The largest of sums is no sum.
template <class Update> Maybe<ShardingRule> sharding(const SbpContext &ctx) {
  constexpr bool sums = std::is_same_v<Update, Add>, factors = std::is_same_v<Update, Multiply>;
  constexpr bool chooses = std::is_same_v<Update, Largest> || std::is_same_v<Update, Smallest>;
  const Shape &index = ctx.In("index").shape();
  const int64_t dim = JUST(dimOf(ctx, index));
  const bool together = sums && ctx.In("src").shape().At(dim) == index.At(dim);
  const AxisFactors indexed = JUST(lineFactors(ctx, "entries")), updates = JUST(lineFactors(ctx, together ? "i" : "."));
  const AxisFactors base = !sums ? indexed : ctx.Has("like") ? unread(indexed) : added(indexed);
  ShardingRule rule = shardingRule({base, updates, updates}, {indexed});
  if (together) rule.add(Sum("i"));
  if (!chooses) rule.add(sums ? Linear({2}) : factors ? Linear({0}) : Linear({0, 2}));
  return rule;
}

std::function<void(OpRegistry &)> definition(const char *base) {
  return [base](OpRegistry &op) {
    op.Input(base).Input("index").Input("src").Output("output").RequiredAttr<int32_t>("dim").SetTensorDescInferFn(
        [base](InferContext *ctx) { return infer(ctx, base); });
  };
}
std::string doc(const char *verb) {
  return std::string("output is input, where element [i, index[i, j, k], k] (for dim = 1) ") + verb +
         " src[i, j, k], in the order of j. index is i32 or i64; a value outside the axis is an error at run time.";
}
Case columns(const char *base, int64_t entries) {
  return Case("columns")
      .In(base, {3, 5})
      .In("index", kInt64, {3, entries}, 0, 5)
      .In("src", {3, entries})
      .Attr<int32_t>("dim", 1);
}

// Distinct indices in the samples would need a permutation; one row of indices per line cannot collide.
REGISTER_USER_OP("dim_scatter_update")
    .With(definition("input"))
    .Sharding(sharding<Replace>)
    .Doc(doc("is replaced by"))
    .Cases({columns("input", 1).Types({kFloat, kDouble, kFloat16, kUInt8, kInt64})})
    .With(onCpuAndGpu<FunctionKernel<bindUpdate>>());

REGISTER_USER_OP("dim_scatter_add")
    .With(definition("input"))
    .Sharding(sharding<Add>)
    .Doc(doc("is increased by"))
    .Cases(
        {columns("input", 8),
         Case("rows").In("input", {4, 5}).In("index", kInt32, {6, 3}, 0, 4).In("src", {7, 5}).Attr<int32_t>("dim", 0)})
    .With(accumulating<AddKernel>("src", "output"));

REGISTER_USER_OP("dim_scatter_mul")
    .With(definition("input"))
    .Sharding(sharding<Multiply>)
    .Doc(doc("is multiplied by"))
    .Cases({columns("input", 8)})
    .With(accumulating<MulKernel>("src", "output"));

const char *const kNan = " NaN is larger and smaller than any number.";
Case rows() {
  return Case("rows").In("input", {4, 5}).In("index", kInt32, {6, 3}, 0, 4).In("src", {7, 5}).Attr<int32_t>("dim", 0);
}

REGISTER_USER_OP("dim_scatter_max")
    .With(definition("input"))
    .Sharding(sharding<Largest>)
    .Doc(doc("becomes the larger of itself and") + kNan)
    .Cases({columns("input", 8), rows()})
    .With(accumulating<MaxKernel>("src", "output"));

REGISTER_USER_OP("dim_scatter_min")
    .With(definition("input"))
    .Sharding(sharding<Smallest>)
    .Doc(doc("becomes the smaller of itself and") + kNan)
    .Cases({columns("input", 8), rows()})
    .With(accumulating<MinKernel>("src", "output"));

REGISTER_USER_OP("dim_scatter_add_like")
    .With(definition("like"))
    .Sharding(sharding<Add>)
    .Doc("dim_scatter_add into zeros of the shape of like, whose values are not read: the gradient of dim_gather.")
    .Cases({columns("like", 8)})
    .With(accumulating<AddLikeKernel>("src", "output"));

} // namespace
} // namespace opc::ops
