// affine_grid: where an affine transformation takes the pixels of an image.
// SPDX-License-Identifier: Apache-2.0
#include "shape/AffineGrid.h"

namespace opc::ops {

namespace {
Maybe<GridShapes> gridShapes(const Shape &size) {
  const int64_t d = size.NumAxes() - 2;
  if (d != 2 && d != 3)
    return (Error("OPC0205") << "size is " << size.ToString())
        .help("size is (batch, channels, height, width), or with a depth before the height");
  for (int64_t n : size)
    if (n <= 0) return Error("OPC0205") << "size is " << size.ToString() << ", its entries should be 1 or more";
  DimVector dims{size.At(0)};
  dims.insert(dims.end(), size.begin() + 2, size.end());
  dims.push_back(d);
  return GridShapes{Shape({size.At(0), d, d + 1}), Shape(dims)};
}
} // namespace

std::function<void(OpRegistry &)> affineGrid(const char *in, Shape GridShapes::*inShape, const char *out,
                                             Shape GridShapes::*outShape) {
  const auto infer = [=](InferContext *ctx) -> Maybe<void> {
    const TensorDesc given = ctx->In(in);
    const Shape size = ctx->Attr<Shape>("size");
    const GridShapes shapes = JUST(gridShapes(size));
    if (given.shape() != shapes.*inShape)
      return Error::ShapeMismatch() << in << " is " << given.shape().ToString() << ", for size " << size.ToString()
                                    << " it should be " << (shapes.*inShape).ToString();
    return setOut(ctx, out, TensorDesc(shapes.*outShape, given.data_type()));
  };
  return [=](OpRegistry &op) {
    op.Input(in).Output(out).RequiredAttr<Shape>("size").Attr<bool>("align_corners", false).SetTensorDescInferFn(infer);
  };
}

namespace {

template <class T> class AffineGridKernel final : public StagedKernel<T> {
public:
  std::unique_ptr<BoundKernel> BindStaged(KernelBindContext *ctx, StagedTensors<T> &staged) const override {
    const T *theta = staged.in("theta");
    T *grid = staged.out("grid");
    const Shape &piece = ctx->Desc("grid").shape();
    const int64_t d = piece.NumAxes() - 2, batch = piece.At(0), pixels = piece.Count(1, d + 1);
    const PixelCoordinates<T> coordinates(ctx, "grid");
    return bindTask([=](DeviceCtx *dev) {
      dev->parallelFor(batch * pixels, 4096, [&](int64_t b, int64_t e) {
        for (int64_t i = b; i < e; ++i) {
          const T *m = theta + i / pixels * d * (d + 1);
          T at[3];
          coordinates.of(i % pixels, at);
          for (int64_t r = 0; r < d; ++r) {
            T v = m[r * (d + 1) + d];
            for (int64_t k = 0; k < d; ++k) v += m[r * (d + 1) + k] * at[k];
            grid[i * d + r] = v;
          }
        }
      });
    });
  }
};

/// Each device makes the pixels of its piece.
Maybe<ShardingRule> sharding(const SbpContext &ctx) {
  const int64_t rank = ctx.Out("grid").shape().NumAxes();
  return shardingRule({axisFactors(3, {1, 2})}, {axisFactors(rank, {rank - 1})}, Linear({0}));
}

REGISTER_USER_OP("affine_grid")
    .With(affineGrid("theta", &GridShapes::theta, "grid", &GridShapes::grid))
    .Sharding(sharding)
    .Doc("For each pixel of an output of `size` (batch, channels, height, width) the point theta * (x, y, 1), with x "
         "and y from -1 to 1; theta is (batch, 2, 3). In three dimensions theta is (batch, 3, 4). With align_corners "
         "-1 and 1 are the centres of the corner pixels, else the image's edges.")
    .Cases({Case("image").In("theta", {2, 2, 3}).Attr("size", Shape({2, 3, 4, 5})).Attr("align_corners", false),
            Case("volume").In("theta", {1, 3, 4}).Attr("size", Shape({1, 2, 3, 4, 2})).Attr("align_corners", true)})
    .Kernel<AffineGridKernel, types::Floating>("theta");

} // namespace
} // namespace opc::ops
