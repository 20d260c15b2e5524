// dropout: an element is dropped or kept by its place in the whole, on every device alike.
// SPDX-License-Identifier: Apache-2.0
#include "source/RandomElements.h"

namespace opc::ops {
namespace {

Maybe<void> infer(InferContext *ctx) {
  const TensorDesc in = ctx->In("in");
  if (ctx->Has("_add_to_output") && ctx->In("_add_to_output") != in)
    return Error::ShapeMismatch() << "_add_to_output is " << ctx->In("_add_to_output").toString() << ", in is "
                                  << in.toString();
  ctx->Out("out") = in;
  ctx->Out("mask") = TensorDesc(in.shape(), kBool);
  return Maybe<void>::Ok();
}

template <class T> class DropoutKernel final : public RandomKernel {
public:
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    using F = ComputeType<T>;
    const T *from = ctx->In("in").dptr<T>();
    const T *add = ctx->Has("_add_to_output") ? ctx->In("_add_to_output").dptr<T>() : nullptr;
    T *to = ctx->Out("out").mut_dptr<T>();
    bool *mask = ctx->Out("mask").mut_dptr<bool>();
    const PieceRuns runs(ctx, "out");
    const float rate = ctx->Attr<float>("rate");
    const F scale = rate < 1 ? F(1) / (F(1) - static_cast<F>(rate)) : F(0);
    if (isOnGpu(ctx)) {
      RandomArguments a{};
      a.in = from;
      a.add = add;
      a.out = to;
      a.mask = mask;
      a.a = static_cast<double>(scale);
      a.rate = rate;
      return bindOnGpu(ctx, kernelOf("dropout", GetDataType<T>::value), "out", a);
    }
    return bindTask([=, random = draws(ctx)](DeviceCtx *dev) {
      forEachBlock<float>(dev, runs, random(dev), [&](int64_t at, int64_t count, const float *u) {
        for (int64_t k = 0; k < count; ++k) {
          const int64_t i = at + k;
          mask[i] = u[k] >= rate;
          F v = mask[i] ? static_cast<F>(from[i]) * scale : F(0);
          if (add) v += static_cast<F>(add[i]);
          to[i] = T(v);
        }
      });
    });
  }
};

/// Listed: the mask of partial sums is whole.
Maybe<void> listSignatures(SbpContext *ctx) {
  JUST(GetSbpFnUtil::SplitForEachAxis(ctx));
  ctx->NewBuilder().PartialSum(ctx->inputs()).PartialSum(OpArg("out", 0)).Build();
  return Maybe<void>::Ok();
}

REGISTER_USER_OP("dropout")
    .Input("in")
    .OptionalInput("_add_to_output")
    .Output("out")
    .Output("mask")
    .Attr<float>("rate", 0.0f)
    .Attr<int64_t>("seed", 0)
    .SetCheckAttrFn(checkRate)
    .SetTensorDescInferFn(infer)
    .SetGetSbpFn(listSignatures)
    .Pure(false)
    .Doc("Each element of in is dropped (made 0) with probability rate, the others are scaled by 1 / (1 - rate); "
         "mask (bool) says which were kept. _add_to_output is added to the result. rate 1 drops everything.")
    .Cases({Case("half").In("in", {4, 5}).Attr("rate", 0.5f), Case("none").In("in", {7}).Attr("rate", 0.0f)})
    .Kernel<DropoutKernel, types::Floating>("in", KernelOptions().Inplace("out", "in"))
    .Kernel<DropoutKernel, types::Floating>("in", onGpu().Inplace("out", "in"));

} // namespace
} // namespace opc::ops
