// What the upsamplings and their gradients share: attributes, the output's shape, and the weights along each axis.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shape/SampleWeights.h"
#include "shape/UpsampleArguments.h"

#include <array>

namespace opc::ops {

enum class Upsampling { kNearest, kLinear, kCubic };

/// The attributes of an upsampling; align_corners where there is something to align.
template <Upsampling mode> void upsampleAttrs(OpRegistry &op) {
  op.Attr<double>("height_scale", 0.0)
      .Attr<double>("width_scale", 0.0)
      .Attr<std::vector<int64_t>>("output_size", {})
      .Attr<std::string>("data_format", "channels_first");
  if (mode != Upsampling::kNearest) op.Attr<bool>("align_corners", false);
}
/// Of the upsampled x.
Maybe<TensorDesc> upsampledDesc(const InferContext *ctx);

/// Along one axis: for each output position, the input positions that it reads and their weights.
template <class T, Upsampling mode> struct UpsampledAxis {
  static constexpr int kTaps = mode == Upsampling::kNearest ? 1 : mode == Upsampling::kLinear ? 2 : 4;
  std::vector<std::array<int64_t, kTaps>> at;
  std::vector<std::array<T, kTaps>> weight;

  /// A scale of 0 is that of the sizes.
  UpsampledAxis(int64_t in, int64_t out, bool align, double scale) {
    // The distance of neighbouring outputs in input pixels. A given scale counts as it is: the size was rounded.
    const double step = align       ? (out > 1 ? static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0.0)
                        : scale > 0 ? 1 / scale
                                    : static_cast<double>(in) / static_cast<double>(out);
    for (int64_t o = 0; o < out; ++o) {
      at.emplace_back();
      weight.emplace_back();
      if constexpr (mode == Upsampling::kNearest) {
        at.back()[0] = nearestPixel({in, out, step, scale}, o);
        weight.back()[0] = 1;
        continue;
      }
      double center = align ? static_cast<double>(o) * step : (static_cast<double>(o) + 0.5) * step - 0.5;
      if (mode == Upsampling::kLinear) center = std::max(0.0, center);
      const double base = std::floor(center), t = center - base;
      double weights[4] = {1 - t, t};
      if (mode == Upsampling::kCubic) cubicWeights(t, weights);
      for (size_t k = 0; k < kTaps; ++k) {
        const int64_t pixel = static_cast<int64_t>(base) + static_cast<int64_t>(k) - (mode == Upsampling::kCubic);
        at.back()[k] = std::clamp<int64_t>(pixel, 0, in - 1);
        weight.back()[k] = static_cast<T>(weights[k]);
      }
    }
  }
};

/// An instance: planes of inH x inW pixels become planes of outH x outW.
template <class T, Upsampling mode> struct UpsampledPlanes {
  using Axis = UpsampledAxis<T, mode>;
  static constexpr size_t kTaps = Axis::kTaps;
  int64_t planes, inH, inW, outH, outW;
  Axis rows, columns;

  UpsampledPlanes(const OpContext &ctx, const Shape &in, const Shape &out)
      : planes(in.Count(0, 2)), inH(in.At(2)), inW(in.At(3)), outH(out.At(2)), outW(out.At(3)),
        // Without planes the axes are of no use, and may be of any length.
        rows(axis(ctx, inH, planes == 0 ? 0 : outH, "height_scale")),
        columns(axis(ctx, inW, planes == 0 ? 0 : outW, "width_scale")) {}

private:
  static Axis axis(const OpContext &ctx, int64_t in, int64_t out, const char *scale) {
    bool align = false;
    if constexpr (mode != Upsampling::kNearest) align = ctx.Attr<bool>("align_corners");
    const bool sized = !ctx.Attr<std::vector<int64_t>>("output_size").empty();
    return Axis(in, out, align, sized ? 0 : ctx.Attr<double>(scale));
  }
};

} // namespace opc::ops
