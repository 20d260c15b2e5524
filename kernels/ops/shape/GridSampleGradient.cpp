// grid_sample_grad, by the image and by the grid; the gradient of that; and the gradient rules.
// SPDX-License-Identifier: Apache-2.0
#include "shape/GridSample.h"
#include "support/GradientSteps.h"
#include "support/SbpRules.h"

namespace opc::ops {
namespace {

Maybe<void> infer(InferContext *ctx) {
  JUST(expectIn(ctx, "doutput", JUST(gridSampleOutput(ctx))));
  const TensorDesc input = ctx->In("input"), grid = ctx->In("grid");
  ctx->Out("dinput") = input;
  return setOut(ctx, "dgrid", grid);
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
            const auto taps = s.template taps<1>(grid, point);
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
    .With(TensorArgs{{"doutput", "input", "grid"}, {"dinput", "dgrid"}})
    .With(gridSampleAttrs)
    .SetTensorDescInferFn(infer)
    // channels add up in dgrid, and the pixels of the output in dinput
    .Sharding("n c h w, n c . ., n h w . -> n c . ., n h w .", Sum("c"), Sum("h"), Sum("w"), Linear({0}))
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

// --- grid_sample_grad_grad -------------------------------------------------------------------------------------------

Maybe<void> inferSecond(InferContext *ctx) {
  const TensorDesc output = JUST(gridSampleOutput(ctx)), input = ctx->In("input"), grid = ctx->In("grid");
  JUST(expectIn(ctx, "doutput", output));
  JUST(expectIn(ctx, "ddinput", input));
  JUST(expectIn(ctx, "ddgrid", grid));
  ctx->Out("ddoutput") = output;
  ctx->Out("dinput") = input;
  return setOut(ctx, "dgrid", grid);
}

/// A point's part of sum(ddinput * dinput) + sum(ddgrid * dgrid) is, over channels and taps, d (w A + (bx wx + by wy)
/// I) with w and wx, wy the weights and their slopes, I and A the pixels of input and ddinput, (bx, by) = ddgrid.
template <class T> class GridSampleGradGradKernel final : public StagedKernel<T> {
public:
  std::unique_ptr<BoundKernel> BindStaged(KernelBindContext *ctx, StagedTensors<T> &staged) const override {
    const T *input = staged.in("input"), *grid = staged.in("grid"), *doutput = staged.in("doutput"),
            *ddinput = staged.in("ddinput"), *ddgrid = staged.in("ddgrid");
    T *ddoutput = staged.out("ddoutput"), *dinput = staged.out("dinput"), *dgrid = staged.out("dgrid");
    const GridSampling<T> s(*ctx, ctx->In("input").shape(), ctx->In("grid").shape());
    return bindTask([=](DeviceCtx *dev) {
      dev->parallelFor(s.batch, 1, [&](int64_t b, int64_t e) {
        for (int64_t n = b; n < e; ++n) {
          const int64_t image = n * s.channels * s.plane;
          std::fill_n(dinput + image, s.channels * s.plane, T(0));
          for (int64_t i = 0; i < s.pixels; ++i) {
            const int64_t point = n * s.pixels + i;
            const auto taps = s.template taps<2>(grid, point);
            const T bx = ddgrid[2 * point], by = ddgrid[2 * point + 1];
            T dx = 0, dy = 0;
            for (int64_t c = 0; c < s.channels; ++c) {
              const int64_t at = image + c * s.plane, to = (n * s.channels + c) * s.pixels + i;
              const T d = doutput[to];
              T sum = 0;
              for (int k = 0; k < taps.count; ++k) {
                if (taps.at[k] < 0) continue;
                const T pixel = input[at + taps.at[k]], other = ddinput[at + taps.at[k]];
                const T slope = bx * taps.byX[k] + by * taps.byY[k];
                sum += taps.weight[k] * other + slope * pixel;
                dinput[at + taps.at[k]] += d * slope;
                dx += d * (taps.byX[k] * other + (bx * taps.byXX[k] + by * taps.byXY[k]) * pixel);
                dy += d * (taps.byY[k] * other + (bx * taps.byXY[k] + by * taps.byYY[k]) * pixel);
              }
              ddoutput[to] = sum;
            }
            dgrid[2 * point] = dx;
            dgrid[2 * point + 1] = dy;
          }
        }
      });
    });
  }
};

Case second(const char *name, const char *mode, const char *padding, bool align) {
  return sample(name, mode, padding, align).In("ddinput", {2, 3, 4, 5}).In("ddgrid", {2, 3, 2, 2});
}

REGISTER_USER_OP("grid_sample_grad_grad")
    .GradientOf("grid_sample_grad")
    .With(TensorArgs{{"doutput", "input", "grid", "ddinput", "ddgrid"}, {"ddoutput", "dinput", "dgrid"}})
    .With(gridSampleAttrs)
    .With(rules(inferSecond, "n . . ., n . . ., n . . ., n . . ., n . . . -> n . . ., n . . ., n . . ."))
    .Doc("The gradients of sum(ddinput * dinput) + sum(ddgrid * dgrid), dinput and dgrid those of grid_sample_grad, by "
         "doutput, input and grid.")
    .Cases({second("bilinear", "bilinear", "zeros", false), second("border", "bilinear", "border", true),
            second("reflection", "bilinear", "reflection", false), second("nearest", "nearest", "reflection", false),
            second("bicubic", "bicubic", "reflection", true)})
    .Kernel<GridSampleGradGradKernel, types::Floating>("input");

void gridSampleGradGradient(GradientRule &g) {
  if (!g.needs("doutput") && !g.needs("input") && !g.needs("grid")) return;
  auto grad = g.add("grid_sample_grad_grad", "doutput");
  grad.in("doutput", g.x("doutput")).in("input", g.x("input")).in("grid", g.x("grid"));
  grad.in("ddinput", g.dy("dinput")).in("ddgrid", g.dy("dgrid"));
  grad.same({"interpolation_mode", "padding_mode", "align_corners"});
  g.bind("doutput", grad.out("ddoutput"));
  g.bind("input", grad.out("dinput"));
  g.bind("grid", grad.out("dgrid"));
}
REGISTER_USER_OP_GRAD("grid_sample_grad").SetBackwardOpConfGenFn(gradientRule(gridSampleGradGradient));

/// An error, and not NoGrad: a gradient that silently left this path out would be wrong.
void gridSampleThirdGradient(GradientRule &) {
  throw ContractError("third derivatives of grid_sample are not provided");
}
REGISTER_USER_OP_GRAD("grid_sample_grad_grad").SetBackwardOpConfGenFn(gradientRule(gridSampleThirdGradient));

} // namespace
} // namespace opc::ops
