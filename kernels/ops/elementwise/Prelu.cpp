// prelu: negative elements scaled by one number, or by one for each channel.
// SPDX-License-Identifier: Apache-2.0
#include "support/CudaTask.h"
#include "support/Operator.h"
#include "support/SbpRules.h"

namespace opc::ops {
namespace {

Maybe<void> infer(InferContext *ctx) {
  const TensorDesc x = ctx->In("x"), alpha = ctx->In("alpha");
  if (x.data_type() != alpha.data_type())
    return (Error::TypeError() << "x is " << dataTypeName(x.data_type()) << ", alpha is "
                               << dataTypeName(alpha.data_type()))
        .help("cast one of them");
  const int64_t rank = x.shape().NumAxes(), n = alpha.shape().elem_cnt();
  const bool isOfChannels = alpha.shape().NumAxes() == 1 && rank >= 2 && n == x.shape().At(1);
  if (!isOfChannels && (n != 1 || alpha.shape().NumAxes() > 1))
    return (Error::ShapeMismatch() << "alpha is " << alpha.toString() << ", x is " << x.toString())
        .help("alpha has one element, or as many as x has channels (axis 1)");
  return setOut(ctx, "y", x);
}

/// x[i] goes with alpha[(i / inner) % channels].
struct Channels {
  int64_t count = 1, inner = 1;
  explicit Channels(KernelBindContext *ctx) {
    const Shape &x = ctx->In("x").shape();
    if (ctx->In("alpha").shape().elem_cnt() == 1) return;
    count = x.At(1);
    inner = x.Count(2);
  }
};

template <class T> class PreluKernel final : public StagedKernel<T> {
public:
  std::unique_ptr<BoundKernel> BindStaged(KernelBindContext *ctx, StagedTensors<T> &staged) const override {
    const T *x = staged.in("x"), *alpha = staged.in("alpha");
    T *y = staged.out("y");
    const int64_t n = ctx->In("x").shape().elem_cnt();
    const Channels channels(ctx);
    return bindTask([=](DeviceCtx *dev) {
      const int64_t lines = channels.inner == 0 ? 0 : n / channels.inner;
      dev->parallelFor(lines, std::max<int64_t>(1, 16384 / std::max<int64_t>(channels.inner, 1)),
                       [&](int64_t begin, int64_t end) {
                         for (int64_t line = begin; line < end; ++line) {
                           const T a = alpha[line % channels.count];
                           for (int64_t i = line * channels.inner; i < (line + 1) * channels.inner; ++i)
                             y[i] = x[i] > 0 ? x[i] : x[i] * a;
                         }
                       });
    });
  }
};

template <class T> class PreluCuda final : public BindingKernel {
public:
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    const int64_t n = ctx->In("x").shape().elem_cnt();
    const Channels channels(ctx);
    return bindLaunch(ctx, kernelOf("prelu", GetDataType<T>::value), n, ctx->In("x").raw_dptr(),
                      ctx->In("alpha").raw_dptr(), ctx->Out("y").mut_raw_dptr(), n, channels.count, channels.inner);
  }
};

Maybe<ShardingRule> sharding(const SbpContext &ctx) {
  const AxisFactors axes = axisFactors(ctx.In("x").shape().NumAxes());
  const Shape &alpha = ctx.In("alpha").shape();
  AxisFactors own;
  if (alpha.NumAxes() == 1) own = {alpha.At(0) == 1 ? std::string(".") : axes[1]};
  return shardingRule({axes, own}, {axes});
}

REGISTER_USER_OP("prelu")
    .With(TensorArgs{{"x", "alpha"}, {"y"}})
    .With(rules(infer, sharding))
    .Doc("y is x where x is above 0, else alpha x. alpha has one element, or one for each channel of x (axis 1).")
    .Cases({Case("channels").In("x", {2, 3, 4}, -5, 5).In("alpha", {3}, -1, 1),
            Case("one").In("x", {3, 5}, -5, 5).In("alpha", {1}, -1, 1),
            Case("columns").In("x", {7, 130}, -5, 5).In("alpha", {130}, -1, 1),
            Case("scalar").In("x", {}, -5, 5).In("alpha", {}, -1, 1),
            Case("empty").In("x", {0, 4}).In("alpha", {4}, -1, 1)})
    .Kernel<PreluKernel, types::Floating>("x", KernelOptions().Inplace("y", "x"))
    .Kernel<PreluCuda, types::Floating>("x", onGpu().Inplace("y", "x"));

} // namespace
} // namespace opc::ops
