// upsample_nearest_2d, upsample_bilinear_2d, upsample_bicubic_2d: images resampled on a regular grid.
// SPDX-License-Identifier: Apache-2.0
#include "shape/Upsample.h"

namespace opc::ops {

using List = std::vector<int64_t>;

namespace {

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

} // namespace

Maybe<TensorDesc> upsampledDesc(const InferContext *ctx) {
  const TensorDesc x = ctx->In("x");
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
namespace {

Maybe<void> infer(InferContext *ctx) { return setOut(ctx, "y", JUST(upsampledDesc(ctx))); }

template <Upsampling mode> struct Upsample {
  template <class T> class Kernel final : public StagedKernel<T> {
    std::unique_ptr<BoundKernel> BindStaged(KernelBindContext *ctx, StagedTensors<T> &staged) const override {
      const UpsampledPlanes<T, mode> p(*ctx, ctx->Desc("x").shape(), ctx->Desc("y").shape());
      const T *x = staged.in("x");
      T *y = staged.out("y");
      return bindTask([=](DeviceCtx *dev) {
        dev->parallelFor(p.planes * p.outH, std::max<int64_t>(1, 8192 / p.outW), [&](int64_t b, int64_t e) {
          for (int64_t r = b; r < e; ++r)
            row(p, x + r / p.outH * p.inH * p.inW, static_cast<size_t>(r % p.outH), y + r * p.outW);
        });
      });
    }
    static void row(const UpsampledPlanes<T, mode> &p, const T *plane, size_t oy, T *to) {
      for (int64_t c = 0; c < p.outW; ++c) {
        const auto &at = p.columns.at[static_cast<size_t>(c)];
        const auto &weight = p.columns.weight[static_cast<size_t>(c)];
        if constexpr (mode == Upsampling::kNearest) {
          to[c] = plane[p.rows.at[oy][0] * p.inW + at[0]];
        } else {
          T sum = 0;
          for (size_t i = 0; i < p.kTaps; ++i) {
            const T *from = plane + p.rows.at[oy][i] * p.inW;
            T line = 0;
            for (size_t k = 0; k < p.kTaps; ++k) line += weight[k] * from[at[k]];
            sum += p.rows.weight[oy][i] * line;
          }
          to[c] = sum;
        }
      }
    }
  };
};

/// The definition of an upsampling.
template <Upsampling mode> void upsample(OpRegistry &op) {
  op.With(TensorArgs{{"x"}, {"y"}})
      .With(upsampleAttrs<mode>)
      .With(rules(infer, "n c . . -> n c . .", Linear({0})))
      .template Kernel<Upsample<mode>::template Kernel, types::Floating>("x");
}
const char *const kSizes = "x is (batch, channels, height, width); the output size is output_size (height, width) "
                           "when given, else the input's times the scales, rounded down. ";
const char *const kAlign =
    "With align_corners the centres of the corner pixels are mapped to each other, else the image's edges. ";
Case sample(const char *name) { return Case(name).In("x", {2, 3, 4, 5}); }
/// Samples of the interpolating ones.
std::vector<Case> interpolated() {
  return {sample("scale").Attr("height_scale", 2.0).Attr("width_scale", 1.5),
          sample("aligned").Attr("output_size", List{7, 3}).Attr("align_corners", true)};
}

REGISTER_USER_OP("upsample_nearest_2d")
    .With(upsample<Upsampling::kNearest>)
    .Doc(std::string(kSizes) + "Each output pixel is the input pixel at floor(position * input / output).")
    .Cases({sample("scale").Attr("height_scale", 2.0).Attr("width_scale", 2.0),
            sample("size").Attr("output_size", List{7, 3})});
REGISTER_USER_OP("upsample_bilinear_2d")
    .With(upsample<Upsampling::kLinear>)
    .Doc(std::string(kSizes) + kAlign + "Linear interpolation in both directions.")
    .Cases(interpolated());
REGISTER_USER_OP("upsample_bicubic_2d")
    .With(upsample<Upsampling::kCubic>)
    .Doc(std::string(kSizes) + kAlign + "Keys' cubic convolution with a = -0.75; pixels beyond the edge repeat it.")
    .Cases(interpolated());

} // namespace
} // namespace opc::ops
