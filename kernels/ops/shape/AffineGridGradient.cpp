// affine_grid_grad, and the gradient rules of both ops: each is linear.
// SPDX-License-Identifier: Apache-2.0
#include "shape/AffineGrid.h"
#include "support/LinearGradient.h"

namespace opc::ops {
namespace {

/// dtheta[n, r, k] = sum over pixels of dgrid[n, pixel, r] times the pixel's coordinate k (1 for the last). A thread
/// does a sample; sums run in f64.
template <class T> class AffineGridGradKernel final : public StagedKernel<T> {
public:
  std::unique_ptr<BoundKernel> BindStaged(KernelBindContext *ctx, StagedTensors<T> &staged) const override {
    const T *dgrid = staged.in("dgrid");
    T *dtheta = staged.out("dtheta");
    const Shape &piece = ctx->Desc("dgrid").shape();
    const int64_t d = piece.NumAxes() - 2, batch = piece.At(0), pixels = piece.Count(1, d + 1);
    const PixelCoordinates<T> coordinates(ctx, "dgrid");
    return bindTask([=](DeviceCtx *dev) {
      dev->parallelFor(batch, 1, [&](int64_t b, int64_t e) {
        for (int64_t n = b; n < e; ++n) {
          double sums[3][4] = {};
          for (int64_t i = 0; i < pixels; ++i) {
            double at[4];
            coordinates.of(i, at);
            at[d] = 1;
            for (int64_t r = 0; r < d; ++r)
              for (int64_t k = 0; k <= d; ++k)
                sums[r][k] += static_cast<double>(dgrid[(n * pixels + i) * d + r]) * at[k];
          }
          for (int64_t r = 0; r < d; ++r)
            for (int64_t k = 0; k <= d; ++k) dtheta[(n * d + r) * (d + 1) + k] = static_cast<T>(sums[r][k]);
        }
      });
    });
  }
};

/// Sums over the pixels of a piece are addends.
Maybe<ShardingRule> sharding(const SbpContext &ctx) {
  const int64_t rank = ctx.In("dgrid").shape().NumAxes();
  const AxisFactors grid = axisFactors(rank, {rank - 1});
  ShardingRule rule = shardingRule({grid}, {axisFactors(3, {1, 2})}, Linear({0}));
  for (int64_t a = 1; a < rank - 1; ++a) rule.add(Sum(grid[static_cast<size_t>(a)]));
  return rule;
}

REGISTER_USER_OP("affine_grid_grad")
    .GradientOf("affine_grid")
    .With(affineGrid("dgrid", &GridShapes::grid, "dtheta", &GridShapes::theta))
    .Sharding(sharding)
    .Doc("The gradient of affine_grid: dtheta[n, r, k] is the sum over pixels of dgrid[n, pixel, r] times coordinate "
         "k of the pixel (x, y, 1).")
    .Cases(
        {Case("image").In("dgrid", {2, 4, 5, 2}).Attr("size", Shape({2, 3, 4, 5})),
         Case("volume").In("dgrid", {1, 3, 4, 2, 3}).Attr("size", Shape({1, 2, 3, 4, 2})).Attr("align_corners", true)})
    .Kernel<AffineGridGradKernel, types::Floating>("dgrid");

REGISTER_USER_OP_GRAD("affine_grid")
    .SetBackwardOpConfGenFn(linearGradient({"theta", "grid"}, "affine_grid_grad", {"dgrid", "dtheta"},
                                           {"size", "align_corners"}));
REGISTER_USER_OP_GRAD("affine_grid_grad")
    .SetBackwardOpConfGenFn(linearGradient({"dgrid", "dtheta"}, "affine_grid", {"theta", "grid"},
                                           {"size", "align_corners"}));

} // namespace
} // namespace opc::ops
