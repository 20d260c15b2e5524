// bias_add: a vector added along one axis.
// SPDX-License-Identifier: Apache-2.0
#include "MatrixProduct.h"
#include "support/SbpRules.h"

#include "opc/JoinableKernel.h"

namespace opc::ops {
namespace {

Maybe<int64_t> biasAxis(int32_t axis, const TensorDesc &a) {
  const int64_t rank = a.shape().NumAxes();
  const int64_t at = axis < 0 ? axis + rank : axis;
  if (at < 0 || at >= rank)
    return Error::InvalidValueError().id("OPC0205").help("axis must be in [" + std::to_string(-rank) + ", " +
                                                         std::to_string(rank - 1) + "]")
           << "axis " << axis << " is outside a, which is " << a.toString();
  return at;
}

Maybe<void> infer(InferContext *ctx) {
  const TensorDesc a = ctx->In("a"), b = ctx->In("b");
  const int64_t axis = JUST(biasAxis(ctx->Attr<int32_t>("axis"), a));
  if (a.data_type() != b.data_type()) return dtypeMismatch("a", a, "b", b).help("cast one of them");
  if (b.shape().NumAxes() != 1 || b.shape().At(0) != a.shape().At(axis))
    return Error::ShapeMismatch() << "b must be a vector of " << a.shape().At(axis)
                                  << " elements, as many as a's dimension " << axis << ": a is " << a.toString()
                                  << ", b is " << b.toString();
  return setOut(ctx, "out", a);
}

Maybe<ShardingRule> sharding(const SbpContext &ctx) {
  const TensorDesc &a = ctx.In("a");
  const AxisFactors factors = axisFactors(a.shape().NumAxes());
  const int64_t axis = JUST(biasAxis(ctx.Attr<int32_t>("axis"), a));
  return shardingRule({factors, {factors[static_cast<size_t>(axis)]}}, {factors}, Linear({0, 1}));
}

/// The sum of two elements; half types are added in f32.
template <class T> T sumOf(T x, T y) {
  if constexpr (std::is_arithmetic_v<T>)
    return static_cast<T>(x + y);
  else
    return T(static_cast<float>(x) + static_cast<float>(y));
}

/// Along the last axis b is broadcast as numpy does it: element by element.
template <class T> class BiasAddLoop final : public RowLoop {
public:
  void Run(const void *const *in, uint32_t contiguous, void *out, int64_t n) const override {
    const T *a = static_cast<const T *>(in[0]), *b = static_cast<const T *>(in[1]);
    T *o = static_cast<T *>(out);
    if ((contiguous & 3u) == 3u) {
      for (int64_t i = 0; i < n; ++i) o[i] = sumOf(a[i], b[i]);
      return;
    }
    if (n == 0) return;
    const bool manyA = (contiguous & 1u) != 0;
    const T one = manyA ? *b : *a, *many = manyA ? a : b;
    const bool none = (contiguous & 3u) == 0;
    for (int64_t i = 0; i < n; ++i) o[i] = manyA ? sumOf(many[i], one) : sumOf(one, many[none ? 0 : i]);
  }
};

template <class T> class BiasAddKernel final : public BindingKernel, public JoinableKernel {
public:
  Status MakeLoop(const KernelContext &ctx, std::unique_ptr<RowLoop> *loop) const override {
    const int64_t axis = ctx.user_op_conf().attr<int32_t>("axis"), rank = ctx.Desc("a").shape().NumAxes();
    if (axis == -1 || axis == rank - 1) *loop = std::make_unique<BiasAddLoop<T>>();
    return Status();
  }

private:
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    const Shape &shape = ctx->In("a").shape();
    int64_t axis = ctx->Attr<int32_t>("axis");
    if (axis < 0) axis += shape.NumAxes();
    const int64_t channels = shape.At(axis), inner = shape.Count(axis + 1), rows = shape.Count(0, axis + 1);
    const T *a = ctx->In("a").dptr<T>(), *b = ctx->In("b").dptr<T>();
    T *out = ctx->Out("out").mut_dptr<T>();
    if (inner == 1) // the axis is the last one that counts: whole vectors are added
      return bindTask([=](DeviceCtx *d) {
        d->parallelFor(rows / std::max<int64_t>(channels, 1),
                       std::max<int64_t>(1, 16384 / std::max<int64_t>(channels, 1)), [&](int64_t begin, int64_t end) {
                         for (int64_t r = begin; r < end; ++r)
                           for (int64_t c = 0; c < channels; ++c)
                             out[r * channels + c] = sumOf(a[r * channels + c], b[c]);
                       });
      });
    return bindTask([=](DeviceCtx *d) {
      d->parallelFor(rows, std::max<int64_t>(1, 16384 / std::max<int64_t>(inner, 1)), [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          const T bias = b[r % channels];
          for (int64_t i = r * inner; i < (r + 1) * inner; ++i) out[i] = sumOf(a[i], bias);
        }
      });
    });
  }
};

REGISTER_USER_OP("bias_add")
    .With(TensorArgs{{"a", "b"}, {"out"}})
    .RequiredAttr<int32_t>("axis")
    .With(rules(infer, sharding))
    .Doc("Adds the vector b along one axis of a: out[..., c, ...] = a[..., c, ...] + b[c], c the index in dimension "
         "`axis` (negative: from the end).")
    .Cases({Case("rows").In("a", {3, 17}, -5, 5).In("b", {17}, -5, 5).Attr("axis", int32_t{1}),
            Case("channels").In("a", {2, 3, 5, 4}, -5, 5).In("b", {3}, -5, 5).Attr("axis", int32_t{1}),
            Case("first").In("a", {3, 2}, -5, 5).In("b", {3}, -5, 5).Attr("axis", int32_t{-2}),
            Case("empty").In("a", {0, 4}).In("b", {4}).Attr("axis", int32_t{1})})
    .Kernel<BiasAddKernel, types::Numbers>("out", KernelOptions().Inplace("out", "a"));

} // namespace
} // namespace opc::ops
