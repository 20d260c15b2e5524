// cumsum and cumprod: running sums and products along an axis.
// SPDX-License-Identifier: Apache-2.0
#include "support/Operator.h"
#include "support/SbpRules.h"

#include <type_traits>

namespace opc::ops::reduce {
namespace {

Maybe<void> infer(InferContext *ctx) {
  const TensorDesc x = ctx->In("x");
  JUST(resolveAxis(ctx->Attr<int64_t>("dim"), x.shape().NumAxes(), "dim"));
  return setOut(ctx, "y", x);
}

template <class T> constexpr bool isHalf = std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>;
/// f32 sums run in f64, halves in f32, integers modulo 2^64.
template <class T>
using RunningOf = std::conditional_t<isHalf<T>, float, std::conditional_t<std::is_integral_v<T>, uint64_t, double>>;

/// The tensor as (outer, n, inner); the lines along n are independent. Up to kWidth neighbouring lines run together.
template <class T, bool kProduct> class ScanKernel : public BindingKernel {
public:
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    const Tensor &x = ctx->In("x");
    const Shape shape = x.shape();
    const int64_t axis = valueOf(resolveAxis(ctx->Attr<int64_t>("dim"), shape.NumAxes()));
    const int64_t outer = shape.Count(0, axis), n = shape.At(axis), inner = shape.Count(axis + 1);
    const T *from = x.dptr<T>();
    T *to = ctx->Out("y").mut_dptr<T>();
    if (inner == 1)
      return bindTask([=](DeviceCtx *dev) {
        dev->parallelFor(outer, std::max<int64_t>(1, 8192 / std::max<int64_t>(1, n)), [&](int64_t b, int64_t e) {
          for (; b + kTogether <= e; b += kTogether) scanRows<kTogether>(from + b * n, to + b * n, n);
          for (; b < e; ++b) scanRows<1>(from + b * n, to + b * n, n);
        });
      });
    return bindTask([=](DeviceCtx *dev) {
      const int64_t tiles = (inner + kWidth - 1) / kWidth;
      dev->parallelFor(outer * tiles, std::max<int64_t>(1, 8192 / std::max<int64_t>(1, n * std::min(inner, kWidth))),
                       [&](int64_t b, int64_t e) {
                         for (int64_t job = b; job < e; ++job) {
                           const int64_t c0 = job % tiles * kWidth, m = std::min(kWidth, inner - c0),
                                         at = job / tiles * n * inner + c0;
                           scan(from + at, to + at, n, inner, m);
                         }
                       });
    });
  }

private:
  using R = RunningOf<T>;
  static constexpr int64_t kWidth = 64;
  static constexpr int64_t kTogether = 8; // rows: each waits for its own last sum
  static R value(T x) {
    if constexpr (isHalf<T>)
      return static_cast<float>(x);
    else
      return static_cast<R>(x);
  }
  template <int64_t kRows> static void scanRows(const T *from, T *to, int64_t n) {
    R running[kRows];
    std::fill_n(running, kRows, R(kProduct ? 1 : 0));
    for (int64_t i = 0; i < n; ++i)
      for (int64_t r = 0; r < kRows; ++r) {
        running[r] = kProduct ? running[r] * value(from[r * n + i]) : running[r] + value(from[r * n + i]);
        to[r * n + i] = static_cast<T>(running[r]);
      }
  }
  static void scan(const T *from, T *to, int64_t n, int64_t stride, int64_t width) {
    R running[kWidth];
    std::fill_n(running, width, R(kProduct ? 1 : 0));
    for (int64_t i = 0; i < n; ++i, from += stride, to += stride)
      for (int64_t c = 0; c < width; ++c) {
        running[c] = kProduct ? running[c] * value(from[c]) : running[c] + value(from[c]);
        to[c] = static_cast<T>(running[c]);
      }
  }
};
template <class T> using CumSumKernel = ScanKernel<T, false>;
template <class T> using CumProdKernel = ScanKernel<T, true>;

/// Definition of cumsum and cumprod; sums are linear.
std::function<void(OpRegistry &)> scanDefinition(bool linear) {
  return [linear](OpRegistry &op) {
    op.With(TensorArgs{{"x"}, {"y"}})
        .RequiredAttr<int64_t>("dim")
        .SetTensorDescInferFn(infer)
        .Sharding([linear](const SbpContext &ctx) -> Maybe<ShardingRule> {
          const int64_t rank = ctx.In("x").shape().NumAxes();
          const AxisFactors x = axisFactors(rank, {JUST(resolveAxis(ctx.Attr<int64_t>("dim"), rank, "dim"))});
          return linear ? shardingRule({x}, {x}, Linear({0})) : shardingRule({x}, {x});
        })
        .Cases({Case("rows").In("x", {3, 7}, 0.5, 1.5).Attr<int64_t>("dim", 1),
                Case("many_rows").In("x", {19, 5}, 0.5, 1.5).Attr<int64_t>("dim", 1),
                Case("columns").In("x", {6, 5}, 0.5, 1.5).Attr<int64_t>("dim", 0),
                Case("middle").In("x", {2, 5, 3}, 0.5, 1.5).Attr<int64_t>("dim", -2)});
  };
}
const KernelOptions kInplace = KernelOptions().Inplace("y", "x");

REGISTER_USER_OP("cumsum")
    .With(scanDefinition(true))
    .Doc("y[i] = x[0] + ... + x[i] along axis `dim`. f32 runs in f64, f16 and bf16 in f32; integers wrap around.")
    .Kernel<CumSumKernel, types::Numbers>("x", kInplace);

REGISTER_USER_OP("cumprod")
    .With(scanDefinition(false))
    .Doc("y[i] = x[0] * ... * x[i] along axis `dim`. f32 runs in f64, f16 and bf16 in f32; integers wrap around.")
    .Kernel<CumProdKernel, types::Numbers>("x", kInplace);

} // namespace
} // namespace opc::ops::reduce
