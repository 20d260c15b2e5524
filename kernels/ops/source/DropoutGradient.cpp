// Gradient rule of dropout; dropout_grad and its rule.
// SPDX-License-Identifier: Apache-2.0
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
  ctx->Out("dx") = dy;
  return Maybe<void>::Ok();
}

template <class T> class DropoutGradKernel final : public BindingKernel {
public:
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    using F = ComputeType<T>;
    const T *from = ctx->In("dy").dptr<T>();
    const bool *mask = ctx->In("mask").dptr<bool>();
    T *to = ctx->Out("dx").mut_dptr<T>();
    const F scale = static_cast<F>(ctx->Attr<float>("scale"));
    const int64_t n = ctx->In("dy").shape().elem_cnt();
    if (isOnGpu(ctx))
      return bindLaunch(ctx, kernelOf("dropout_grad", GetDataType<T>::value), n, from, mask, to,
                        static_cast<double>(scale), n);
    return bindTask([=](DeviceCtx *dev) {
      dev->parallelFor(n, 16384, [&](int64_t b, int64_t e) {
        for (int64_t i = b; i < e; ++i) to[i] = T(mask[i] ? static_cast<F>(from[i]) * scale : F(0));
      });
    });
  }
};

REGISTER_USER_OP("dropout_grad")
    .GradientOf("dropout")
    .Input("dy")
    .Input("mask")
    .Output("dx")
    .RequiredAttr<float>("scale")
    .SetTensorDescInferFn(infer)
    .Sharding("..., ... -> ...", Linear({0}))
    .Doc("dx = dy * scale where mask holds, else 0: the gradient of dropout, with scale = 1 / (1 - rate).")
    .Cases({Case("plain").In("dy", {4, 5}).In("mask", kBool, {4, 5}, 0, 2).Attr("scale", 2.0f)})
    .Kernel<DropoutGradKernel, types::Floating>("dy", KernelOptions().Inplace("dx", "dy"))
    .Kernel<DropoutGradKernel, types::Floating>("dy", onGpu().Inplace("dx", "dy"));

void dropoutGradGradient(GradientRule &g) {
  if (g.needs("dy"))
    g.bind("dy", g.add("dropout_grad", "dy").in("dy", g.dy("dx")).in("mask", g.x("mask")).same({"scale"}).out("dx"));
}
REGISTER_USER_OP_GRAD("dropout_grad").SetBackwardOpConfGenFn(gradientRule(dropoutGradGradient));

} // namespace
} // namespace opc::ops
