// grid_sample_grad: by the image and by the grid.
// SPDX-License-Identifier: Apache-2.0
#include "StagedTensors.h"
#include "shape/GridSampling.h"
#include "support/CpuKernels.h"
#include "support/RegisterFloating.h"

namespace opc::ops {
namespace {

using cpu::StagedTensors;

Maybe<void> infer(InferContext *ctx) {
  const TensorDesc input = ctx->InputTensorDesc("input", 0), grid = ctx->InputTensorDesc("grid", 0),
                   doutput = ctx->InputTensorDesc("doutput", 0);
  const Shape &i = input.shape(), &g = grid.shape();
  JUST(interpolationOf(ctx));
  JUST(paddingOf(ctx));
  if (i.NumAxes() != 4 || g.NumAxes() != 4 || g.At(3) != 2 || g.At(0) != i.At(0) || i.At(2) == 0 || i.At(3) == 0 ||
      grid.data_type() != input.data_type())
    return (Error::ShapeMismatch() << "input is " << input.toString() << ", grid is " << grid.toString())
        .help("input is (batch, channels, height, width), grid (batch, output height, output width, 2) of the same "
              "element type");
  const TensorDesc want(Shape({i.At(0), i.At(1), g.At(1), g.At(2)}), input.data_type());
  if (doutput != want)
    return Error::ShapeMismatch() << "doutput is " << doutput.toString() << ", expected " << want.toString();
  *ctx->MutOutputTensorDesc("dinput", 0) = input;
  *ctx->MutOutputTensorDesc("dgrid", 0) = grid;
  return Maybe<void>::Ok();
}

/// The pixels one output reads (-1: outside), their weights, and the weights' derivatives by the grid's coordinates.
template <class T> struct Taps {
  int count = 0;
  int64_t at[16];
  T weight[16], byX[16], byY[16];

  Taps(Interpolation mode, const Placement<T> &px, const Placement<T> &py, T gx, T gy) {
    const auto pixel = [&](int64_t x, int64_t y) {
      return x >= 0 && x < px.size && y >= 0 && y < py.size ? y * px.size + x : int64_t{-1};
    };
    if (mode == Interpolation::kNearest) {
      count = 1;
      at[0] = pixel(toPixel(std::nearbyint(px.place(gx))), toPixel(std::nearbyint(py.place(gy))));
      weight[0] = 1;
      byX[0] = byY[0] = 0;
      return;
    }
    const T ux = px.unnormalized(gx), uy = py.unnormalized(gy);
    if (mode == Interpolation::kBilinear) {
      count = 4;
      const T x = px.padded(ux), y = py.padded(uy), x0 = std::floor(x), y0 = std::floor(y), tx = x - x0, ty = y - y0;
      const T slopeX = px.scale() * px.paddedSlope(ux), slopeY = py.scale() * py.paddedSlope(uy);
      for (int k = 0; k < 4; ++k) {
        const T wx = k % 2 ? tx : 1 - tx, wy = k / 2 ? ty : 1 - ty;
        at[k] = pixel(toPixel(x0) + k % 2, toPixel(y0) + k / 2);
        weight[k] = wx * wy;
        byX[k] = (k % 2 ? slopeX : -slopeX) * wy;
        byY[k] = (k / 2 ? slopeY : -slopeY) * wx;
      }
      return;
    }
    count = 16;
    const T x0 = std::floor(ux), y0 = std::floor(uy);
    T wx[4], wy[4], sx[4], sy[4];
    cubicWeights(ux - x0, wx);
    cubicWeights(uy - y0, wy);
    cubicSlopes(ux - x0, sx);
    cubicSlopes(uy - y0, sy);
    for (int k = 0; k < 16; ++k) {
      at[k] =
          pixel(toPixel(px.padded(x0 + static_cast<T>(k % 4 - 1))), toPixel(py.padded(y0 + static_cast<T>(k / 4 - 1))));
      weight[k] = wx[k % 4] * wy[k / 4];
      byX[k] = px.scale() * sx[k % 4] * wy[k / 4];
      byY[k] = py.scale() * wx[k % 4] * sy[k / 4];
    }
  }
};

/// A thread does a sample: its pixels add to any part of the image's gradient.
template <class T> class GridSampleGradKernel final : public BindingKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    StagedTensors<T> staged(ctx);
    const T *input = staged.in("input"), *grid = staged.in("grid"), *doutput = staged.in("doutput");
    T *dinput = staged.out("dinput"), *dgrid = staged.out("dgrid");
    const Shape in = ctx->TensorDesc4ArgNameAndIndex("input", 0)->shape(),
                out = ctx->TensorDesc4ArgNameAndIndex("doutput", 0)->shape();
    const bool align = ctx->Attr<bool>("align_corners");
    const Padding padding = paddingOf(ctx).value();
    const Interpolation mode = interpolationOf(ctx).value();
    const int64_t channels = in.At(1), h = in.At(2), w = in.At(3), pixels = out.Count(2), batch = in.At(0);
    const Placement<T> px{w, align, padding}, py{h, align, padding};
    return user_op::bindTask([=, staged = std::move(staged)](DeviceCtx *dev) {
      staged.load(dev);
      dev->parallelFor(batch, 1, [&](int64_t b, int64_t e) {
        for (int64_t n = b; n < e; ++n) {
          const T *image = input + n * channels * h * w;
          T *dimage = dinput + n * channels * h * w;
          std::fill_n(dimage, channels * h * w, T(0));
          for (int64_t i = 0; i < pixels; ++i) {
            const T *g = grid + 2 * (n * pixels + i);
            const Taps<T> taps(mode, px, py, g[0], g[1]);
            T dx = 0, dy = 0;
            for (int64_t c = 0; c < channels; ++c) {
              const T d = doutput[(n * channels + c) * pixels + i];
              for (int k = 0; k < taps.count; ++k) {
                if (taps.at[k] < 0) continue;
                const int64_t at = c * h * w + taps.at[k];
                dimage[at] += taps.weight[k] * d;
                dx += taps.byX[k] * image[at] * d;
                dy += taps.byY[k] * image[at] * d;
              }
            }
            dgrid[2 * (n * pixels + i)] = dx;
            dgrid[2 * (n * pixels + i) + 1] = dy;
          }
        }
      });
      staged.store(dev);
    });
  }
};

user_op::Case sample(const char *name, const char *mode, const char *padding, bool align) {
  return user_op::Case(name)
      .In("doutput", {2, 3, 3, 2})
      .In("input", {2, 3, 4, 5})
      .In("grid", {2, 3, 2, 2}, -1.4, 1.4)
      .Attr<std::string>("interpolation_mode", mode)
      .Attr<std::string>("padding_mode", padding)
      .Attr("align_corners", align)
      .Types({kFloat, kDouble});
}

REGISTER_USER_OP("grid_sample_grad")
    .GradientOf("grid_sample")
    .Input("doutput")
    .Input("input")
    .Input("grid")
    .Output("dinput")
    .Output("dgrid")
    .Attr<std::string>("interpolation_mode", "bilinear")
    .Attr<std::string>("padding_mode", "zeros")
    .Attr<bool>("align_corners", false)
    .SetTensorDescInferFn(infer)
    .Sharding("n . . ., n . . ., n . . . -> n . . ., n . . .")
    .Doc("The gradients of grid_sample: dinput by the image, dgrid by the grid (zeros for \"nearest\"). Where the "
         "edge holds a point fast (padding_mode \"border\" or \"reflection\"), dgrid is 0 there.")
    .Cases({sample("bilinear", "bilinear", "zeros", false), sample("border", "bilinear", "border", true),
            sample("reflection", "bilinear", "reflection", false), sample("nearest", "nearest", "reflection", false),
            sample("bicubic", "bicubic", "reflection", true)});
OPC_REGISTER_FLOATING_CPU_KERNELS("grid_sample_grad", GridSampleGradKernel, "input");

} // namespace
} // namespace opc::ops
