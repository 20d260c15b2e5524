// grid_sample: images resampled where a grid says.
// SPDX-License-Identifier: Apache-2.0
#include "shape/GridSample.h"

namespace opc::ops {

void gridSampleAttrs(OpRegistry &op) {
  op.Attr<std::string>("interpolation_mode", "bilinear")
      .Attr<std::string>("padding_mode", "zeros")
      .Attr<bool>("align_corners", false);
}
Case withGrid(Case c, const char *mode, const char *padding, bool align) {
  return c.In("input", {2, 3, 4, 5})
      .In("grid", {2, 3, 2, 2}, -1.4, 1.4)
      .Attr<std::string>("interpolation_mode", mode)
      .Attr<std::string>("padding_mode", padding)
      .Attr("align_corners", align)
      .Types({kFloat, kDouble});
}

Maybe<TensorDesc> gridSampleOutput(const InferContext *ctx) {
  const TensorDesc input = ctx->In("input"), grid = ctx->In("grid");
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
  JUST(interpolationOf(*ctx));
  JUST(paddingOf(*ctx));
  return TensorDesc(Shape({i.At(0), i.At(1), g.At(1), g.At(2)}), input.data_type());
}

namespace {

Maybe<void> infer(InferContext *ctx) { return setOut(ctx, "output", JUST(gridSampleOutput(ctx))); }

template <class T> class GridSampleKernel final : public StagedKernel<T> {
public:
  std::unique_ptr<BoundKernel> BindStaged(KernelBindContext *ctx, StagedTensors<T> &staged) const override {
    const T *input = staged.in("input"), *grid = staged.in("grid");
    T *output = staged.out("output");
    const GridSampling<T> s(*ctx, ctx->In("input").shape(), ctx->In("grid").shape());
    return bindTask([=](DeviceCtx *dev) {
      dev->parallelFor(s.batch * s.pixels, std::max<int64_t>(1, 1024 / std::max<int64_t>(1, s.channels)),
                       [&](int64_t b, int64_t e) {
                         for (int64_t i = b; i < e; ++i) {
                           const T *image = input + i / s.pixels * s.channels * s.plane;
                           T *to = output + i / s.pixels * s.channels * s.pixels + i % s.pixels;
                           const auto taps = s.template taps<0>(grid, i);
                           for (int64_t c = 0; c < s.channels; ++c) {
                             T sum = 0;
                             for (int k = 0; k < taps.count; ++k)
                               if (taps.at[k] >= 0) sum += taps.weight[k] * image[c * s.plane + taps.at[k]];
                             to[c * s.pixels] = sum;
                           }
                         }
                       });
    });
  }
};

Case sample(const char *name, const char *mode, const char *padding, bool align) {
  return withGrid(Case(name), mode, padding, align);
}

REGISTER_USER_OP("grid_sample")
    .With(TensorArgs{{"input", "grid"}, {"output"}})
    .With(gridSampleAttrs)
    .With(rules(infer, "n c . ., n h w . -> n c h w", Linear({0})))
    .Doc("output[n, :, i, j] is input (batch, channels, height, width) at the point (x, y) = grid[n, i, j], from -1 "
         "to 1 as in affine_grid. interpolation_mode is \"bilinear\", \"nearest\" or \"bicubic\"; padding_mode says "
         "what lies outside: \"zeros\", \"border\" or \"reflection\".")
    .Cases({sample("bilinear", "bilinear", "zeros", false), sample("border", "bilinear", "border", true),
            sample("nearest", "nearest", "reflection", false), sample("bicubic", "bicubic", "reflection", true)})
    .Kernel<GridSampleKernel, types::Floating>("input");

} // namespace
} // namespace opc::ops
