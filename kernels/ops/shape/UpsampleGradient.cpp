// upsample_nearest_2d_grad, upsample_bilinear_2d_grad, upsample_bicubic_2d_grad, and the gradient rules.
// SPDX-License-Identifier: Apache-2.0
#include "shape/Upsample.h"
#include "support/LinearGradient.h"

namespace opc::ops {
namespace {

using List = std::vector<int64_t>;

Maybe<void> infer(InferContext *ctx) {
  const TensorDesc x = ctx->In("x");
  JUST(expectIn(ctx, "dy", JUST(upsampledDesc(ctx)), ", what the upsampling makes of x, " + x.toString()));
  return setOut(ctx, "dx", x);
}

/// The transposed sampling: each output's gradient is spread over the pixels it was read from. A thread does a plane.
template <Upsampling mode> struct UpsampleGrad {
  template <class T> class Kernel final : public StagedKernel<T> {
    std::unique_ptr<BoundKernel> BindStaged(KernelBindContext *ctx, StagedTensors<T> &staged) const override {
      const UpsampledPlanes<T, mode> p(*ctx, ctx->Desc("x").shape(), ctx->Desc("dy").shape());
      const T *dy = staged.in("dy");
      T *dx = staged.out("dx");
      return bindTask([=](DeviceCtx *dev) {
        dev->parallelFor(p.planes, std::max<int64_t>(1, 8192 / p.outH / p.outW), [&](int64_t b, int64_t e) {
          for (int64_t n = b; n < e; ++n) plane(p, dy + n * p.outH * p.outW, dx + n * p.inH * p.inW);
        });
      });
    }
    static void plane(const UpsampledPlanes<T, mode> &p, const T *from, T *to) {
      std::fill_n(to, p.inH * p.inW, T(0));
      for (size_t oy = 0; oy < p.rows.at.size(); ++oy, from += p.outW)
        for (size_t i = 0; i < p.kTaps; ++i) {
          T *row = to + p.rows.at[oy][i] * p.inW;
          const T weight = p.rows.weight[oy][i];
          for (size_t c = 0; c < p.columns.at.size(); ++c)
            for (size_t k = 0; k < p.kTaps; ++k) row[p.columns.at[c][k]] += weight * p.columns.weight[c][k] * from[c];
        }
    }
  };
};

/// The definition of the gradient of `forward`.
template <Upsampling mode> std::function<void(OpRegistry &)> upsampleGrad(const char *forward) {
  return [forward](OpRegistry &op) {
    op.GradientOf(forward)
        .With(TensorArgs{{"dy", "x"}, {"dx"}})
        .With(upsampleAttrs<mode>)
        .With(rules(infer, "n c . ., n c . . -> n c . .", Linear({0})))
        .Doc(std::string("The gradient of ") + forward +
             ", whose attributes it has: each element of dy is spread over the pixels of dx, which has the shape of x, "
             "that the output pixel was read from. The values of x are not read.")
        .template Kernel<UpsampleGrad<mode>::template Kernel, types::Floating>("dy");
  };
}
Case sample(const char *name, int64_t h, int64_t w) { return Case(name).In("dy", {2, 3, h, w}).In("x", {2, 3, 4, 5}); }
/// Samples of the interpolating ones.
std::vector<Case> interpolated() {
  return {sample("scale", 8, 7).Attr("height_scale", 2.0).Attr("width_scale", 1.5),
          sample("aligned", 7, 3).Attr("output_size", List{7, 3}).Attr("align_corners", true)};
}

// Both are linear: each is the other's gradient.
using Names = std::vector<const char *>;
const Names kAttrs = {"height_scale", "width_scale", "output_size", "data_format"},
            kAligned = {"height_scale", "width_scale", "output_size", "data_format", "align_corners"};
auto forwardRule(const char *grad, const Names &attrs) {
  return linearGradient({"x", "y"}, grad, {"dy", "dx"}, attrs, {{"x", "x"}});
}
auto gradRule(const char *forward, const Names &attrs) {
  return linearGradient({"dy", "dx"}, forward, {"x", "y"}, attrs);
}

REGISTER_USER_OP("upsample_nearest_2d_grad")
    .With(upsampleGrad<Upsampling::kNearest>("upsample_nearest_2d"))
    .Cases({sample("scale", 8, 10).Attr("height_scale", 2.0).Attr("width_scale", 2.0),
            sample("size", 7, 3).Attr("output_size", List{7, 3})});
REGISTER_USER_OP_GRAD("upsample_nearest_2d").SetBackwardOpConfGenFn(forwardRule("upsample_nearest_2d_grad", kAttrs));
REGISTER_USER_OP_GRAD("upsample_nearest_2d_grad").SetBackwardOpConfGenFn(gradRule("upsample_nearest_2d", kAttrs));

REGISTER_USER_OP("upsample_bilinear_2d_grad")
    .With(upsampleGrad<Upsampling::kLinear>("upsample_bilinear_2d"))
    .Cases(interpolated());
REGISTER_USER_OP_GRAD("upsample_bilinear_2d")
    .SetBackwardOpConfGenFn(forwardRule("upsample_bilinear_2d_grad", kAligned));
REGISTER_USER_OP_GRAD("upsample_bilinear_2d_grad").SetBackwardOpConfGenFn(gradRule("upsample_bilinear_2d", kAligned));

REGISTER_USER_OP("upsample_bicubic_2d_grad")
    .With(upsampleGrad<Upsampling::kCubic>("upsample_bicubic_2d"))
    .Cases(interpolated());
REGISTER_USER_OP_GRAD("upsample_bicubic_2d").SetBackwardOpConfGenFn(forwardRule("upsample_bicubic_2d_grad", kAligned));
REGISTER_USER_OP_GRAD("upsample_bicubic_2d_grad").SetBackwardOpConfGenFn(gradRule("upsample_bicubic_2d", kAligned));

} // namespace
} // namespace opc::ops
