// Gradient rule of dropout; dropout_grad and its rule.
// SPDX-License-Identifier: Apache-2.0
#include "opc/Elementwise.h"
#include "opc/JoinableKernel.h"
#include "support/CudaTask.h"
#include "support/GradientSteps.h"
#include "support/Operator.h"

namespace opc::ops {
namespace {

void dropoutGradient(GradientRule &g) {
  if (g.needs("_add_to_output")) g.bind("_add_to_output", g.dy("out"));
  if (!g.needs("in")) return;
  const float rate = g.attr<float>("rate");
  g.bind("in", g.add("dropout_grad", "in")
                   .in("dy", g.dy("out"))
                   .in("mask", g.y("mask"))
                   .attr("scale", rate < 1 ? 1 / (1 - rate) : 0.0f)
                   .out("dx"));
}
REGISTER_USER_OP_GRAD("dropout").SetBackwardOpConfGenFn(gradientRule(dropoutGradient));

Maybe<void> infer(InferContext *ctx) {
  const TensorDesc dy = ctx->In("dy"), &mask = ctx->In("mask");
  if (mask != TensorDesc(dy.shape(), kBool))
    return Error::ShapeMismatch() << "mask is " << mask.toString() << ", it should be bool in the shape of dy "
                                  << dy.shape().ToString();
  return setOut(ctx, "dx", dy);
}

/// dx = dy * scale where the mask holds, else 0.
template <class T>
void keepRow(const void *const *in, uint32_t contiguous, const void *parameters, void *out, int64_t n) {
  using F = ComputeType<T>;
  const T *from = static_cast<const T *>(in[0]);
  const bool *mask = static_cast<const bool *>(in[1]);
  T *to = static_cast<T *>(out);
  const F scale = *static_cast<const F *>(parameters);
  const int64_t step = contiguous & 1u, maskStep = contiguous >> 1 & 1u;
  for (int64_t i = 0; i < n; ++i) to[i] = T(mask[i * maskStep] ? static_cast<F>(from[i * step]) * scale : F(0));
}

template <class T> class DropoutGradKernel final : public BindingKernel, public JoinableKernel {
public:
  Status MakeLoop(const KernelContext &ctx, std::unique_ptr<RowLoop> *loop) const override {
    const auto scale = static_cast<ComputeType<T>>(ctx.Attr<float>("scale"));
    *loop = elementwise::makeLoop(2, sizeof(T), keepRow<T>, &scale, sizeof scale);
    return Status::ok();
  }
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    using F = ComputeType<T>;
    const F scale = static_cast<F>(ctx->Attr<float>("scale"));
    if (!isOnGpu(ctx))
      return elementwise::bind(ctx, {{"dy", sizeof(T)}, {"mask", 1}}, {"dx", sizeof(T)}, keepRow<T>, &scale,
                               sizeof scale);
    const int64_t n = ctx->In("dy").shape().elem_cnt();
    return bindLaunch(ctx, kernelOf("dropout_grad", GetDataType<T>::value), n, ctx->In("dy").dptr<T>(),
                      ctx->In("mask").dptr<bool>(), ctx->Out("dx").mut_dptr<T>(), static_cast<double>(scale), n);
  }
};

REGISTER_USER_OP("dropout_grad")
    .GradientOf("dropout")
    .With(TensorArgs{{"dy", "mask"}, {"dx"}})
    .RequiredAttr<float>("scale")
    .With(rules(infer, "..., ... -> ...", Linear({0})))
    .Doc("dx = dy * scale where mask holds, else 0: the gradient of dropout, with scale = 1 / (1 - rate).")
    .Cases({Case("plain").In("dy", {4, 5}).In("mask", kBool, {4, 5}, 0, 2).Attr("scale", 2.0f)})
    .With(onCpuAndGpu<DropoutGradKernel, types::Floating>("dy", KernelOptions().Inplace("dx", "dy")));

void dropoutGradGradient(GradientRule &g) {
  if (g.needs("dy"))
    g.bind("dy", g.add("dropout_grad", "dy").in("dy", g.dy("dx")).in("mask", g.x("mask")).same({"scale"}).out("dx"));
}
REGISTER_USER_OP_GRAD("dropout_grad").SetBackwardOpConfGenFn(gradientRule(dropoutGradGradient));

} // namespace
} // namespace opc::ops
