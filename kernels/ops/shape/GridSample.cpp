// affine_grid and grid_sample: images resampled where a grid says.
// SPDX-License-Identifier: Apache-2.0
#include "StagedTensors.h"
#include "shape/GridSampling.h"
#include "support/CpuKernels.h"
#include "support/RegisterFloating.h"

#include <cmath>

namespace opc::ops {
namespace {

using cpu::StagedTensors;

// --- affine_grid
// ---------------------------------------------------------------------------------------------------------

Maybe<void> inferAffine(InferContext *ctx) {
  const TensorDesc theta = *ctx->TensorDesc4ArgNameAndIndex("theta", 0);
  const Shape size = ctx->Attr<Shape>("size");
  const int64_t d = size.NumAxes() - 2;
  if (d != 2 && d != 3)
    return (Error("OPC0205") << "size is " << size.ToString())
        .help("size is (batch, channels, height, width), or with a depth before the height");
  for (int64_t n : size)
    if (n <= 0) return Error("OPC0205") << "size is " << size.ToString() << ", its entries should be 1 or more";
  if (theta.shape() != Shape({size.At(0), d, d + 1}))
    return Error::ShapeMismatch() << "theta is " << theta.shape().ToString() << ", for size " << size.ToString()
                                  << " it should be " << Shape({size.At(0), d, d + 1}).ToString();
  DimVector dims{size.At(0)};
  dims.insert(dims.end(), size.begin() + 2, size.end());
  dims.push_back(d);
  *ctx->TensorDesc4ArgNameAndIndex("grid", 0) = TensorDesc(Shape(dims), theta.data_type());
  return Maybe<void>::Ok();
}

/// The coordinates of the output's pixels in [-1, 1].
template <class T> std::vector<T> baseCoordinates(int64_t n, bool align) {
  std::vector<T> c;
  for (int64_t i = 0; i < n; ++i) {
    double v = n > 1 ? -1 + 2 * static_cast<double>(i) / static_cast<double>(n - 1) : 0;
    if (!align) v *= static_cast<double>(n - 1) / static_cast<double>(n);
    c.push_back(static_cast<T>(v));
  }
  return c;
}

template <class T> class AffineGridKernel final : public BindingKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    StagedTensors<T> staged(ctx);
    const T *theta = staged.in("theta");
    T *grid = staged.out("grid");
    const Shape size = ctx->Attr<Shape>("size");
    const int64_t d = size.NumAxes() - 2, batch = size.At(0), pixels = size.Count(2);
    std::vector<std::vector<T>> base; // x first: the innermost axis
    for (int64_t a = size.NumAxes() - 1; a >= 2; --a)
      base.push_back(baseCoordinates<T>(size.At(a), ctx->Attr<bool>("align_corners")));
    return user_op::bindTask([=, staged = std::move(staged), base = std::move(base)](DeviceCtx *dev) {
      staged.load(dev);
      dev->parallelFor(batch * pixels, 4096, [&](int64_t b, int64_t e) {
        for (int64_t i = b; i < e; ++i) {
          const T *m = theta + i / pixels * d * (d + 1);
          T at[3];
          int64_t rest = i % pixels;
          for (int64_t k = 0; k < d; ++k) {
            const auto &axis = base[static_cast<size_t>(k)];
            const int64_t n = static_cast<int64_t>(axis.size());
            at[k] = axis[static_cast<size_t>(rest % n)];
            rest /= n;
          }
          for (int64_t r = 0; r < d; ++r) {
            T v = m[r * (d + 1) + d];
            for (int64_t k = 0; k < d; ++k) v += m[r * (d + 1) + k] * at[k];
            grid[i * d + r] = v;
          }
        }
      });
      staged.store(dev);
    });
  }
};

REGISTER_USER_OP("affine_grid")
    .Input("theta")
    .Output("grid")
    .RequiredAttr<Shape>("size")
    .Attr<bool>("align_corners", false)
    .SetTensorDescInferFn(inferAffine)
    .Doc("For each pixel of an output of `size` (batch, channels, height, width) the point theta * (x, y, 1), with x "
         "and y from -1 to 1; theta is (batch, 2, 3). In three dimensions theta is (batch, 3, 4). With align_corners "
         "-1 and 1 are the centres of the corner pixels, else the image's edges.")
    .Cases(
        {user_op::Case("image").In("theta", {2, 2, 3}).Attr("size", Shape({2, 3, 4, 5})).Attr("align_corners", false),
         user_op::Case("volume")
             .In("theta", {1, 3, 4})
             .Attr("size", Shape({1, 2, 3, 4, 2}))
             .Attr("align_corners", true)});
OPC_REGISTER_FLOATING_CPU_KERNELS("affine_grid", AffineGridKernel, "theta");

// --- affine_grid_grad
// ----------------------------------------------------------------------------------------------------

Maybe<void> inferAffineGrad(InferContext *ctx) {
  const TensorDesc dgrid = *ctx->TensorDesc4ArgNameAndIndex("dgrid", 0);
  const Shape size = ctx->Attr<Shape>("size");
  const int64_t d = size.NumAxes() - 2;
  if (d != 2 && d != 3)
    return (Error("OPC0205") << "size is " << size.ToString())
        .help("size is (batch, channels, height, width), or with a depth before the height");
  DimVector dims{size.At(0)};
  dims.insert(dims.end(), size.begin() + 2, size.end());
  dims.push_back(d);
  for (int64_t n : size)
    if (n <= 0) return Error("OPC0205") << "size is " << size.ToString() << ", its entries should be 1 or more";
  if (dgrid.shape() != Shape(dims))
    return Error::ShapeMismatch() << "dgrid is " << dgrid.shape().ToString() << ", for size " << size.ToString()
                                  << " it should be " << Shape(dims).ToString();
  *ctx->TensorDesc4ArgNameAndIndex("dtheta", 0) = TensorDesc(Shape({size.At(0), d, d + 1}), dgrid.data_type());
  return Maybe<void>::Ok();
}

/// dtheta[n, r, k] = sum over pixels of dgrid[n, pixel, r] times the pixel's coordinate k (1 for the last). A thread
/// does a sample; sums run in f64.
template <class T> class AffineGridGradKernel final : public BindingKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    StagedTensors<T> staged(ctx);
    const T *dgrid = staged.in("dgrid");
    T *dtheta = staged.out("dtheta");
    const Shape size = ctx->Attr<Shape>("size");
    const int64_t d = size.NumAxes() - 2, batch = size.At(0), pixels = size.Count(2);
    std::vector<std::vector<T>> base; // x first: the innermost axis
    for (int64_t a = size.NumAxes() - 1; a >= 2; --a)
      base.push_back(baseCoordinates<T>(size.At(a), ctx->Attr<bool>("align_corners")));
    return user_op::bindTask([=, staged = std::move(staged), base = std::move(base)](DeviceCtx *dev) {
      staged.load(dev);
      dev->parallelFor(batch, 1, [&](int64_t b, int64_t e) {
        for (int64_t n = b; n < e; ++n) {
          double sums[3][4] = {};
          for (int64_t i = 0; i < pixels; ++i) {
            double at[4];
            int64_t rest = i;
            for (int64_t k = 0; k < d; ++k) {
              const auto &axis = base[static_cast<size_t>(k)];
              const int64_t length = static_cast<int64_t>(axis.size());
              at[k] = static_cast<double>(axis[static_cast<size_t>(rest % length)]);
              rest /= length;
            }
            at[d] = 1;
            for (int64_t r = 0; r < d; ++r)
              for (int64_t k = 0; k <= d; ++k)
                sums[r][k] += static_cast<double>(dgrid[(n * pixels + i) * d + r]) * at[k];
          }
          for (int64_t r = 0; r < d; ++r)
            for (int64_t k = 0; k <= d; ++k) dtheta[(n * d + r) * (d + 1) + k] = static_cast<T>(sums[r][k]);
        }
      });
      staged.store(dev);
    });
  }
};

REGISTER_USER_OP("affine_grid_grad")
    .GradientOf("affine_grid")
    .Input("dgrid")
    .Output("dtheta")
    .RequiredAttr<Shape>("size")
    .Attr<bool>("align_corners", false)
    .SetTensorDescInferFn(inferAffineGrad)
    .Doc("The gradient of affine_grid: dtheta[n, r, k] is the sum over pixels of dgrid[n, pixel, r] times coordinate "
         "k of the pixel (x, y, 1).")
    .Cases({user_op::Case("image").In("dgrid", {2, 4, 5, 2}).Attr("size", Shape({2, 3, 4, 5})),
            user_op::Case("volume")
                .In("dgrid", {1, 3, 4, 2, 3})
                .Attr("size", Shape({1, 2, 3, 4, 2}))
                .Attr("align_corners", true)});
OPC_REGISTER_FLOATING_CPU_KERNELS("affine_grid_grad", AffineGridGradKernel, "dgrid");

// --- grid_sample
// -----------------------------------------------------------------------------------------------------------

Maybe<void> inferSample(InferContext *ctx) {
  const TensorDesc input = *ctx->TensorDesc4ArgNameAndIndex("input", 0),
                   grid = *ctx->TensorDesc4ArgNameAndIndex("grid", 0);
  const Shape &i = input.shape(), &g = grid.shape();
  if (i.NumAxes() != 4 || g.NumAxes() != 4 || g.At(3) != 2 || g.At(0) != i.At(0))
    return (Error::ShapeMismatch() << "input is " << i.ToString() << ", grid is " << g.ToString())
        .help("input is (batch, channels, height, width), grid (batch, output height, output width, 2)");
  if (i.At(2) == 0 || i.At(3) == 0)
    return Error::ShapeMismatch() << "input " << i.ToString() << " has no pixels to sample";
  if (grid.data_type() != input.data_type())
    return (Error::TypeError() << "grid is " << dataTypeName(grid.data_type()) << ", input is "
                               << dataTypeName(input.data_type()))
        .help("cast grid");
  JUST(interpolationOf(ctx));
  JUST(paddingOf(ctx));
  *ctx->TensorDesc4ArgNameAndIndex("output", 0) =
      TensorDesc(Shape({i.At(0), i.At(1), g.At(1), g.At(2)}), input.data_type());
  return Maybe<void>::Ok();
}

template <class T> class GridSampleKernel final : public BindingKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    StagedTensors<T> staged(ctx);
    const T *input = staged.in("input"), *grid = staged.in("grid");
    T *output = staged.out("output");
    const Shape in = ctx->Tensor4ArgNameAndIndex("input", 0)->shape(),
                out = ctx->Tensor4ArgNameAndIndex("output", 0)->shape();
    const bool align = ctx->Attr<bool>("align_corners");
    const Padding padding = paddingOf(ctx).value();
    const Interpolation mode = interpolationOf(ctx).value();
    const int64_t channels = in.At(1), h = in.At(2), w = in.At(3), pixels = out.Count(2), batch = in.At(0);
    const Placement<T> px{w, align, padding}, py{h, align, padding};
    return user_op::bindTask([=, staged = std::move(staged)](DeviceCtx *dev) {
      staged.load(dev);
      dev->parallelFor(batch * pixels, std::max<int64_t>(1, 1024 / std::max<int64_t>(1, channels)),
                       [&](int64_t b, int64_t e) {
                         for (int64_t i = b; i < e; ++i) {
                           const T *image = input + i / pixels * channels * h * w;
                           T *to = output + i / pixels * channels * pixels + i % pixels;
                           int64_t at[16];
                           T weight[16];
                           const int taps = tapsOf(mode, px, py, grid[2 * i], grid[2 * i + 1], at, weight);
                           for (int64_t c = 0; c < channels; ++c) {
                             T sum = 0;
                             for (int k = 0; k < taps; ++k)
                               if (at[k] >= 0) sum += weight[k] * image[c * h * w + at[k]];
                             to[c * pixels] = sum;
                           }
                         }
                       });
      staged.store(dev);
    });
  }

private:
  /// The pixels that one output reads (-1: outside) and their weights.
  static int tapsOf(Interpolation mode, const Placement<T> &px, const Placement<T> &py, T gx, T gy, int64_t *at,
                    T *weight) {
    auto pixel = [&](int64_t x, int64_t y) {
      return x >= 0 && x < px.size && y >= 0 && y < py.size ? y * px.size + x : int64_t{-1};
    };
    if (mode == Interpolation::kNearest) {
      at[0] = pixel(toPixel(std::nearbyint(px.place(gx))), toPixel(std::nearbyint(py.place(gy))));
      weight[0] = 1;
      return 1;
    }
    if (mode == Interpolation::kBilinear) {
      const T x = px.place(gx), y = py.place(gy), x0 = std::floor(x), y0 = std::floor(y), tx = x - x0, ty = y - y0;
      const int64_t ix = toPixel(x0), iy = toPixel(y0);
      for (int k = 0; k < 4; ++k) {
        at[k] = pixel(ix + k % 2, iy + k / 2);
        weight[k] = (k % 2 ? tx : 1 - tx) * (k / 2 ? ty : 1 - ty);
      }
      return 4;
    }
    // Bicubic: each neighbour is padded by itself.
    const T x = px.unnormalized(gx), y = py.unnormalized(gy), x0 = std::floor(x), y0 = std::floor(y);
    T wx[4], wy[4];
    cubicWeights(x - x0, wx);
    cubicWeights(y - y0, wy);
    for (int k = 0; k < 16; ++k) {
      at[k] =
          pixel(toPixel(px.padded(x0 + static_cast<T>(k % 4 - 1))), toPixel(py.padded(y0 + static_cast<T>(k / 4 - 1))));
      weight[k] = wx[k % 4] * wy[k / 4];
    }
    return 16;
  }
};

user_op::Case sample(const char *name, const char *mode, const char *padding, bool align) {
  return user_op::Case(name)
      .In("input", {2, 3, 4, 5})
      .In("grid", {2, 3, 2, 2}, -1.4, 1.4)
      .Attr<std::string>("interpolation_mode", mode)
      .Attr<std::string>("padding_mode", padding)
      .Attr("align_corners", align)
      .Types({kFloat, kDouble});
}

REGISTER_USER_OP("grid_sample")
    .Input("input")
    .Input("grid")
    .Output("output")
    .Attr<std::string>("interpolation_mode", "bilinear")
    .Attr<std::string>("padding_mode", "zeros")
    .Attr<bool>("align_corners", false)
    .SetTensorDescInferFn(inferSample)
    .Sharding("n c . ., n h w . -> n c h w", user_op::Linear({0}))
    .Doc("output[n, :, i, j] is input (batch, channels, height, width) at the point (x, y) = grid[n, i, j], from -1 "
         "to 1 as in affine_grid. interpolation_mode is \"bilinear\", \"nearest\" or \"bicubic\"; padding_mode says "
         "what lies outside: \"zeros\", \"border\" or \"reflection\".")
    .Cases({sample("bilinear", "bilinear", "zeros", false), sample("border", "bilinear", "border", true),
            sample("nearest", "nearest", "reflection", false), sample("bicubic", "bicubic", "reflection", true)});
OPC_REGISTER_FLOATING_CPU_KERNELS("grid_sample", GridSampleKernel, "input");

} // namespace
} // namespace opc::ops
