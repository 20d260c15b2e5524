// grid_sample_grad, by the image and by the grid, and the gradient rules.
// SPDX-License-Identifier: Apache-2.0
#include "shape/GridSample.h"
#include "support/GradientSteps.h"

namespace opc::ops {
namespace {

Maybe<void> infer(InferContext *ctx) {
  const TensorDesc input = ctx->In("input"), grid = ctx->In("grid"), doutput = ctx->In("doutput");
  const Shape &i = input.shape(), &g = grid.shape();
  JUST(interpolationOf(*ctx));
  JUST(paddingOf(*ctx));
  if (i.NumAxes() != 4 || g.NumAxes() != 4 || g.At(3) != 2 || g.At(0) != i.At(0) || i.At(2) == 0 || i.At(3) == 0 ||
      grid.data_type() != input.data_type())
    return (Error::ShapeMismatch() << "input is " << input.toString() << ", grid is " << grid.toString())
        .help("input is (batch, channels, height, width), grid (batch, output height, output width, 2) of the same "
              "element type");
  const TensorDesc want(Shape({i.At(0), i.At(1), g.At(1), g.At(2)}), input.data_type());
  if (doutput != want)
    return Error::ShapeMismatch() << "doutput is " << doutput.toString() << ", expected " << want.toString();
  ctx->Out("dinput") = input;
  ctx->Out("dgrid") = grid;
  return Maybe<void>::Ok();
}

/// A thread does a sample: its pixels add to any part of the image's gradient.
template <class T> class GridSampleGradKernel final : public StagedKernel<T> {
public:
  std::unique_ptr<BoundKernel> BindStaged(KernelBindContext *ctx, StagedTensors<T> &staged) const override {
    const T *input = staged.in("input"), *grid = staged.in("grid"), *doutput = staged.in("doutput");
    T *dinput = staged.out("dinput"), *dgrid = staged.out("dgrid");
    const GridSampling<T> s(*ctx, ctx->In("input").shape(), ctx->In("grid").shape());
    return bindTask([=](DeviceCtx *dev) {
      dev->parallelFor(s.batch, 1, [&](int64_t b, int64_t e) {
        for (int64_t n = b; n < e; ++n) {
          const T *image = input + n * s.channels * s.plane;
          T *dimage = dinput + n * s.channels * s.plane;
          std::fill_n(dimage, s.channels * s.plane, T(0));
          for (int64_t i = 0; i < s.pixels; ++i) {
            const int64_t point = n * s.pixels + i;
            const auto taps = s.template taps<true>(grid, point);
            T dx = 0, dy = 0;
            for (int64_t c = 0; c < s.channels; ++c) {
              const T d = doutput[(n * s.channels + c) * s.pixels + i];
              for (int k = 0; k < taps.count; ++k) {
                if (taps.at[k] < 0) continue;
                const int64_t at = c * s.plane + taps.at[k];
                dimage[at] += taps.weight[k] * d;
                dx += taps.byX[k] * image[at] * d;
                dy += taps.byY[k] * image[at] * d;
              }
            }
            dgrid[2 * point] = dx;
            dgrid[2 * point + 1] = dy;
          }
        }
      });
    });
  }
};

Case sample(const char *name, const char *mode, const char *padding, bool align) {
  return withGrid(Case(name).In("doutput", {2, 3, 3, 2}), mode, padding, align);
}

REGISTER_USER_OP("grid_sample_grad")
    .GradientOf("grid_sample")
    .Input("doutput")
    .Input("input")
    .Input("grid")
    .Output("dinput")
    .Output("dgrid")
    .With(gridSampleAttrs)
    .SetTensorDescInferFn(infer)
    .Sharding("n . . ., n . . ., n . . . -> n . . ., n . . .")
    .Doc("The gradients of grid_sample: dinput by the image, dgrid by the grid (zeros for \"nearest\"). Where the "
         "edge holds a point fast (padding_mode \"border\" or \"reflection\"), dgrid is 0 there.")
    .Cases({sample("bilinear", "bilinear", "zeros", false), sample("border", "bilinear", "border", true),
            sample("reflection", "bilinear", "reflection", false), sample("nearest", "nearest", "reflection", false),
            sample("bicubic", "bicubic", "reflection", true)})
    .Kernel<GridSampleGradKernel, types::Floating>("input");

void gridSampleGradient(GradientRule &g) {
  if (!g.needs("input") && !g.needs("grid")) return;
  auto grad = g.add("grid_sample_grad", "input");
  grad.in("doutput", g.dy("output")).in("input", g.x("input")).in("grid", g.x("grid"));
  grad.same({"interpolation_mode", "padding_mode", "align_corners"});
  if (g.needs("input")) g.bind("input", grad.out("dinput"));
  if (g.needs("grid")) g.bind("grid", grad.out("dgrid"));
}
REGISTER_USER_OP_GRAD("grid_sample").SetBackwardOpConfGenFn(gradientRule(gridSampleGradient));

/// An error, and not NoGrad: a gradient that silently left this path out would be wrong.
void gridSampleGradGradient(GradientRule &) {
  throw ContractError("second derivatives of grid_sample are not provided");
}
REGISTER_USER_OP_GRAD("grid_sample_grad").SetBackwardOpConfGenFn(gradientRule(gridSampleGradGradient));

} // namespace
} // namespace opc::ops
