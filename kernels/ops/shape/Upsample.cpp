// upsample_nearest_2d, upsample_bilinear_2d, upsample_bicubic_2d: images resampled on a regular grid.
// SPDX-License-Identifier: Apache-2.0
#include "StagedTensors.h"
#include "support/CpuKernels.h"
#include "support/RegisterFloating.h"

#include <array>
#include <cmath>

namespace opc::ops {
namespace {

using cpu::StagedTensors;
using List = std::vector<int64_t>;

/// The output size of one axis: given, or scaled and rounded down.
Maybe<int64_t> sizeOf(const List &given, size_t axis, int64_t in, double scale, const char *name) {
  if (!given.empty()) {
    if (given[axis] <= 0)
      return Error("OPC0205") << "output_size has the entry " << given[axis] << ", it should be 1 or more";
    return given[axis];
  }
  const double n = std::floor(static_cast<double>(in) * scale);
  if (!(n >= 1) || n > 1e15)
    return (Error("OPC0205") << name << " is " << scale << ", which makes " << n << " of " << in << " entries")
        .help("give output_size, or scales that leave at least one entry");
  return static_cast<int64_t>(n);
}

Maybe<TensorDesc> outputDesc(InferContext *ctx) {
  const TensorDesc x = *ctx->TensorDesc4ArgNameAndIndex("x", 0);
  if (x.shape().NumAxes() != 4)
    return (Error::ShapeMismatch() << "x is " << x.shape().ToString()
                                   << ", it should be (batch, channels, height, width)")
        .help("reshape x to four axes");
  if (ctx->Attr<std::string>("data_format") != "channels_first")
    return (Error("OPC0205") << "data_format is \"" << ctx->Attr<std::string>("data_format") << "\"")
        .help("use \"channels_first\", and transpose before and after");
  const List given = ctx->Attr<List>("output_size");
  if (!given.empty() && given.size() != 2)
    return (Error("OPC0205") << "output_size has " << given.size() << " entries")
        .help("output_size is (height, width)");
  if (x.shape().At(2) == 0 || x.shape().At(3) == 0)
    return Error::ShapeMismatch() << "x " << x.shape().ToString() << " has no pixels to sample";
  const int64_t h = JUST(sizeOf(given, 0, x.shape().At(2), ctx->Attr<double>("height_scale"), "height_scale"));
  const int64_t w = JUST(sizeOf(given, 1, x.shape().At(3), ctx->Attr<double>("width_scale"), "width_scale"));
  return TensorDesc(Shape({x.shape().At(0), x.shape().At(1), h, w}), x.data_type());
}
Maybe<void> infer(InferContext *ctx) {
  *ctx->TensorDesc4ArgNameAndIndex("y", 0) = JUST(outputDesc(ctx));
  return Maybe<void>::Ok();
}
Maybe<void> inferGrad(InferContext *ctx) {
  const TensorDesc want = JUST(outputDesc(ctx)), dy = ctx->InputTensorDesc("dy", 0), x = ctx->InputTensorDesc("x", 0);
  if (dy != want)
    return Error::ShapeMismatch() << "dy is " << dy.toString() << ", expected " << want.toString()
                                  << ", what the upsampling makes of x, " << x.toString();
  *ctx->MutOutputTensorDesc("dx", 0) = x;
  return Maybe<void>::Ok();
}

enum class Mode { kNearest, kLinear, kCubic };

/// For each output position, the input positions it reads and their weights.
template <class T, int kTaps> struct Axis {
  std::vector<std::array<int64_t, kTaps>> at;
  std::vector<std::array<T, kTaps>> weight;
};

/// Keys' cubic convolution with a = -0.75, as PyTorch has it.
double cubic(double d) {
  constexpr double a = -0.75;
  d = std::abs(d);
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  if (d < 2) return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
  return 0;
}

template <class T, Mode kMode, int kTaps> Axis<T, kTaps> makeAxis(int64_t in, int64_t out, bool align, double scale) {
  Axis<T, kTaps> axis;
  // The distance of neighbouring outputs in input pixels. A given scale counts as it is: the size was rounded.
  const double step = align       ? (out > 1 ? static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0.0)
                      : scale > 0 ? 1 / scale
                                  : static_cast<double>(in) / static_cast<double>(out);
  for (int64_t o = 0; o < out; ++o) {
    std::array<int64_t, kTaps> at;
    std::array<T, kTaps> weight;
    if constexpr (kMode == Mode::kNearest) {
      at[0] = std::min(in - 1, static_cast<int64_t>(std::floor(static_cast<double>(o) * step)));
      weight[0] = 1;
    } else {
      double center = align ? static_cast<double>(o) * step : (static_cast<double>(o) + 0.5) * step - 0.5;
      if (kMode == Mode::kLinear) center = std::max(0.0, center);
      const double base = std::floor(center), t = center - base;
      const int64_t first = static_cast<int64_t>(base) - (kMode == Mode::kCubic ? 1 : 0);
      for (int k = 0; k < kTaps; ++k) {
        at[static_cast<size_t>(k)] = std::clamp<int64_t>(first + k, 0, in - 1);
        weight[static_cast<size_t>(k)] = static_cast<T>(kMode == Mode::kCubic ? cubic(t - (k - 1))
                                                        : k == 0              ? 1 - t
                                                                              : t);
      }
    }
    axis.at.push_back(at);
    axis.weight.push_back(weight);
  }
  return axis;
}

template <class T, Mode kMode, int kTaps> class UpsampleKernel : public BindingKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    StagedTensors<T> staged(ctx);
    const T *x = staged.in("x");
    T *y = staged.out("y");
    const Shape in = ctx->Tensor4ArgNameAndIndex("x", 0)->shape(), out = ctx->Tensor4ArgNameAndIndex("y", 0)->shape();
    const bool sized = !ctx->Attr<List>("output_size").empty();
    const bool align = kMode != Mode::kNearest && ctx->Attr<bool>("align_corners");
    const int64_t inH = in.At(2), inW = in.At(3), outH = out.At(2), outW = out.At(3), planes = in.Count(0, 2);
    auto rows = makeAxis<T, kMode, kTaps>(inH, outH, align, sized ? 0 : ctx->Attr<double>("height_scale"));
    auto cols = makeAxis<T, kMode, kTaps>(inW, outW, align, sized ? 0 : ctx->Attr<double>("width_scale"));
    return user_op::bindTask(
        [=, staged = std::move(staged), rows = std::move(rows), cols = std::move(cols)](DeviceCtx *dev) {
          staged.load(dev);
          dev->parallelFor(planes * outH, std::max<int64_t>(1, 8192 / outW), [&](int64_t b, int64_t e) {
            for (int64_t r = b; r < e; ++r) {
              const T *plane = x + r / outH * inH * inW;
              const size_t oy = static_cast<size_t>(r % outH);
              T *to = y + r * outW;
              for (int64_t c = 0; c < outW; ++c) {
                const auto &at = cols.at[static_cast<size_t>(c)];
                const auto &weight = cols.weight[static_cast<size_t>(c)];
                if constexpr (kTaps == 1) {
                  to[c] = plane[rows.at[oy][0] * inW + at[0]];
                } else {
                  T sum = 0;
                  for (size_t i = 0; i < kTaps; ++i) {
                    const T *row = plane + rows.at[oy][i] * inW;
                    T line = 0;
                    for (size_t k = 0; k < kTaps; ++k) line += weight[k] * row[at[k]];
                    sum += rows.weight[oy][i] * line;
                  }
                  to[c] = sum;
                }
              }
            }
          });
          staged.store(dev);
        });
  }
};
/// The transposed sampling: each output's gradient is spread over the pixels it was read from. A thread does a plane.
template <class T, Mode kMode, int kTaps> class UpsampleGradKernel : public BindingKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    StagedTensors<T> staged(ctx);
    const T *dy = staged.in("dy");
    T *dx = staged.out("dx");
    const Shape in = ctx->TensorDesc4ArgNameAndIndex("x", 0)->shape(),
                out = ctx->TensorDesc4ArgNameAndIndex("dy", 0)->shape();
    const bool sized = !ctx->Attr<List>("output_size").empty();
    const bool align = kMode != Mode::kNearest && ctx->Attr<bool>("align_corners");
    const int64_t inH = in.At(2), inW = in.At(3), outH = out.At(2), outW = out.At(3), planes = in.Count(0, 2);
    auto rows = makeAxis<T, kMode, kTaps>(inH, outH, align, sized ? 0 : ctx->Attr<double>("height_scale"));
    auto cols = makeAxis<T, kMode, kTaps>(inW, outW, align, sized ? 0 : ctx->Attr<double>("width_scale"));
    return user_op::bindTask([=, staged = std::move(staged), rows = std::move(rows),
                              cols = std::move(cols)](DeviceCtx *dev) {
      staged.load(dev);
      dev->parallelFor(planes, std::max<int64_t>(1, 8192 / (outH * outW)), [&](int64_t b, int64_t e) {
        for (int64_t p = b; p < e; ++p) {
          T *plane = dx + p * inH * inW;
          std::fill_n(plane, inH * inW, T(0));
          for (int64_t oy = 0; oy < outH; ++oy) {
            const T *from = dy + (p * outH + oy) * outW;
            for (size_t i = 0; i < kTaps; ++i) {
              T *row = plane + rows.at[static_cast<size_t>(oy)][i] * inW;
              const T weight = rows.weight[static_cast<size_t>(oy)][i];
              for (int64_t c = 0; c < outW; ++c)
                for (size_t k = 0; k < kTaps; ++k)
                  row[cols.at[static_cast<size_t>(c)][k]] += weight * cols.weight[static_cast<size_t>(c)][k] * from[c];
            }
          }
        }
      });
      staged.store(dev);
    });
  }
};
template <class T> using NearestGradKernel = UpsampleGradKernel<T, Mode::kNearest, 1>;
template <class T> using BilinearGradKernel = UpsampleGradKernel<T, Mode::kLinear, 2>;
template <class T> using BicubicGradKernel = UpsampleGradKernel<T, Mode::kCubic, 4>;

template <class T> using NearestKernel = UpsampleKernel<T, Mode::kNearest, 1>;
template <class T> using BilinearKernel = UpsampleKernel<T, Mode::kLinear, 2>;
template <class T> using BicubicKernel = UpsampleKernel<T, Mode::kCubic, 4>;

const char *const kSizes = "x is (batch, channels, height, width); the output size is output_size (height, width) "
                           "when given, else the input's times the scales, rounded down. ";
const char *const kAlign =
    "With align_corners the centres of the corner pixels are mapped to each other, else the image's edges. ";
user_op::Case sample(const char *name) { return user_op::Case(name).In("x", {2, 3, 4, 5}); }

#define OPC_UPSAMPLE(name)                                                                                             \
  REGISTER_USER_OP(name)                                                                                               \
      .Input("x")                                                                                                      \
      .Output("y")                                                                                                     \
      .Attr<double>("height_scale", 0.0)                                                                               \
      .Attr<double>("width_scale", 0.0)                                                                                \
      .Attr<List>("output_size", {})                                                                                   \
      .Attr<std::string>("data_format", "channels_first")                                                              \
      .SetTensorDescInferFn(infer)                                                                                     \
      .Sharding("n c . . -> n c . .", user_op::Linear({0}))

OPC_UPSAMPLE("upsample_nearest_2d")
    .Doc(std::string(kSizes) + "Each output pixel is the input pixel at floor(position * input / output).")
    .Cases({sample("scale").Attr("height_scale", 2.0).Attr("width_scale", 2.0),
            sample("size").Attr("output_size", List{7, 3})});
OPC_UPSAMPLE("upsample_bilinear_2d")
    .Attr<bool>("align_corners", false)
    .Doc(std::string(kSizes) + kAlign + "Linear interpolation in both directions.")
    .Cases({sample("scale").Attr("height_scale", 2.0).Attr("width_scale", 1.5),
            sample("aligned").Attr("output_size", List{7, 3}).Attr("align_corners", true)});
OPC_UPSAMPLE("upsample_bicubic_2d")
    .Attr<bool>("align_corners", false)
    .Doc(std::string(kSizes) + kAlign + "Keys' cubic convolution with a = -0.75; pixels beyond the edge repeat it.")
    .Cases({sample("scale").Attr("height_scale", 2.0).Attr("width_scale", 1.5),
            sample("aligned").Attr("output_size", List{7, 3}).Attr("align_corners", true)});

#define OPC_UPSAMPLE_GRAD(name)                                                                                        \
  REGISTER_USER_OP(name "_grad")                                                                                       \
      .GradientOf(name)                                                                                                \
      .Input("dy")                                                                                                     \
      .Input("x")                                                                                                      \
      .Output("dx")                                                                                                    \
      .Attr<double>("height_scale", 0.0)                                                                               \
      .Attr<double>("width_scale", 0.0)                                                                                \
      .Attr<List>("output_size", {})                                                                                   \
      .Attr<std::string>("data_format", "channels_first")                                                              \
      .SetTensorDescInferFn(inferGrad)                                                                                 \
      .Sharding("n c . ., n c . . -> n c . .", user_op::Linear({0}))                                                   \
      .Doc("The gradient of " name ", whose attributes it has: each element of dy is spread over the pixels of dx, "   \
           "which has the shape of x, that the output pixel was read from. The values of x are not read.")

user_op::Case gradSample(const char *name, int64_t h, int64_t w) {
  return user_op::Case(name).In("dy", {2, 3, h, w}).In("x", {2, 3, 4, 5});
}
OPC_UPSAMPLE_GRAD("upsample_nearest_2d")
    .Cases({gradSample("scale", 8, 10).Attr("height_scale", 2.0).Attr("width_scale", 2.0),
            gradSample("size", 7, 3).Attr("output_size", List{7, 3})});
OPC_UPSAMPLE_GRAD("upsample_bilinear_2d")
    .Attr<bool>("align_corners", false)
    .Cases({gradSample("scale", 8, 7).Attr("height_scale", 2.0).Attr("width_scale", 1.5),
            gradSample("aligned", 7, 3).Attr("output_size", List{7, 3}).Attr("align_corners", true)});
OPC_UPSAMPLE_GRAD("upsample_bicubic_2d")
    .Attr<bool>("align_corners", false)
    .Cases({gradSample("scale", 8, 7).Attr("height_scale", 2.0).Attr("width_scale", 1.5),
            gradSample("aligned", 7, 3).Attr("output_size", List{7, 3}).Attr("align_corners", true)});
OPC_REGISTER_FLOATING_CPU_KERNELS("upsample_nearest_2d_grad", NearestGradKernel, "dy");
OPC_REGISTER_FLOATING_CPU_KERNELS("upsample_bilinear_2d_grad", BilinearGradKernel, "dy");
OPC_REGISTER_FLOATING_CPU_KERNELS("upsample_bicubic_2d_grad", BicubicGradKernel, "dy");

OPC_REGISTER_FLOATING_CPU_KERNELS("upsample_nearest_2d", NearestKernel, "x");
OPC_REGISTER_FLOATING_CPU_KERNELS("upsample_bilinear_2d", BilinearKernel, "x");
OPC_REGISTER_FLOATING_CPU_KERNELS("upsample_bicubic_2d", BicubicKernel, "x");

} // namespace
} // namespace opc::ops
