// roi_align_grad, by the images; the gradient of that; and the gradient rules.
// SPDX-License-Identifier: Apache-2.0
#include "pooling/RoiAlign.h"
#include "support/GradientSteps.h"
#include "support/IndexCheck.h"

namespace opc::ops {
namespace {

Maybe<void> infer(InferContext *ctx) {
  const TensorDesc y = JUST(roiAlignOutput(ctx));
  if (ctx->In("dy") != y)
    return (Error::ShapeMismatch() << "dy is " << ctx->In("dy").toString() << ", expected " << y.toString())
        .help("give the gradient of roi_align's y");
  return setOut(ctx, "dx", ctx->In("x"));
}

/// dy of each bin goes to its pixels by their shares.
template <class T> void addMeans(RoiWindow<T> &w, const RoiAlignment &g, const T *, const T *dy, T *dimage) {
  const RoiTaps<T> &rows = w.rows, &columns = w.columns;
  for (size_t i = 0; i < static_cast<size_t>(g.rows.bins); ++i, dy += g.columns.bins) {
    std::fill(w.line.begin(), w.line.end(), T(0));
    for (size_t j = 0; j < static_cast<size_t>(g.columns.bins); ++j)
      for (auto t = static_cast<size_t>(columns.first[j]); t < static_cast<size_t>(columns.first[j + 1]); ++t)
        w.line[static_cast<size_t>(columns.at[t])] += columns.weight[t] * dy[j];
    for (auto t = static_cast<size_t>(rows.first[i]); t < static_cast<size_t>(rows.first[i + 1]); ++t) {
      T *row = dimage + rows.place[t] * g.columns.size;
      const T *line = w.line.data(), weight = rows.weight[t];
      if (columns.isDense)
        for (int64_t k = 0; k < columns.span; ++k) row[columns.begin + k] += weight * line[k];
      else
        for (int64_t k = 0; k < columns.span; ++k) row[columns.place[static_cast<size_t>(k)]] += weight * line[k];
    }
  }
}

/// dy of each bin goes to the first pixel that gave its value; nowhere where a sample outside did.
template <class T> void addLargest(RoiWindow<T> &w, const RoiAlignment &g, const T *image, const T *dy, T *dimage) {
  const RoiTaps<T> &rows = w.rows, &columns = w.columns;
  for (size_t i = 0; i < static_cast<size_t>(g.rows.bins); ++i)
    for (size_t j = 0; j < static_cast<size_t>(g.columns.bins); ++j) {
      T best = 0, share = 0;
      int64_t where = -1;
      for (auto t = static_cast<size_t>(rows.first[i]); t < static_cast<size_t>(rows.first[i + 1]); ++t)
        for (auto u = static_cast<size_t>(columns.first[j]); u < static_cast<size_t>(columns.first[j + 1]); ++u) {
          const int64_t at = rows.place[t] * g.columns.size + columns.place[u];
          const T value = columns.weight[u] * (rows.weight[t] * image[at]);
          if (where >= 0 && !(value > best) && (value == value || best != best)) continue;
          best = value, where = at, share = columns.weight[u] * rows.weight[t];
        }
      const T d = *dy++;
      const bool isOutside = (rows.leavesImage[i] || columns.leavesImage[j]) && best <= 0;
      if (where >= 0 && !isOutside) dimage[where] += share * d;
    }
}

/// A thread takes some channels, of all images: regions overlap.
template <class T> class RoiAlignGradKernel final : public StagedKernel<T> {
  std::unique_ptr<BoundKernel> BindStaged(KernelBindContext *ctx, StagedTensors<T> &staged) const override {
    const T *dy = staged.in("dy"), *x = staged.in("x"), *rois = staged.in("rois");
    T *dx = staged.out("dx");
    const RoiAlignment g = roiAlignment(*ctx, ctx->In("x").shape(), ctx->In("rois").shape());
    const Shape shape = ctx->In("batch_indices").shape();
    return withIndices(ctx->In("batch_indices"), [&](const auto *indices) {
      return bindTask([=](DeviceCtx *dev) {
        checkIndices(dev, indices, shape, g.images, "batch_indices", "the images of x");
        dev->parallelFor(g.channels, 4, [&](int64_t begin, int64_t end) {
          const int64_t plane = g.plane();
          for (int64_t n = 0; n < g.images; ++n)
            std::fill_n(dx + (n * g.channels + begin) * plane, (end - begin) * plane, T(0));
          RoiWindow<T> window;
          for (int64_t r = 0; r < g.regions; ++r) {
            window.fill(g, rois + 4 * r);
            for (int64_t c = begin; c < end; ++c) {
              const int64_t image = (static_cast<int64_t>(indices[r]) * g.channels + c) * plane;
              (g.isMax ? addLargest<T> : addMeans<T>)(window, g, x + image, dy + (r * g.channels + c) * g.bins(),
                                                      dx + image);
            }
          }
        });
      });
    });
  }
};

REGISTER_USER_OP("roi_align_grad")
    .GradientOf("roi_align")
    .With(TensorArgs{{"dy", "x", "rois", "batch_indices"}, {"dx"}})
    .With(roiAlignAttrs)
    .SetTensorDescInferFn(infer)
    .SetInputArgModifyFn([](const GetInputArgModifier &modifier, const UserOpConfWrapper &) {
      if (auto *rois = modifier("rois", 0)) rois->set_requires_grad(false);
    })
    .Sharding("r c . ., . c . ., r ., r -> . c . .", Sum("r"), Linear({0}))
    .SetComputeComplexityFn(roiAlignWork)
    .Doc("The gradient of roi_align by x: of a mean to each pixel by its share, of the largest to the first pixel that "
         "gave it. Values of x matter to mode \"max\" only.")
    .Cases(roiAlignCases(true))
    .Kernel<RoiAlignGradKernel, types::Floating>("x");

GradientOp &withSameAttributes(GradientOp &grad) {
  return grad.same(
      {"mode", "output_height", "output_width", "sampling_ratio", "spatial_scale", "coordinate_transformation_mode"});
}

void gradient(GradientRule &g) {
  if (!g.needs("x")) return;
  auto grad = g.add("roi_align_grad", "x");
  grad.in("dy", g.dy("y")).in("x", g.x("x")).in("rois", g.x("rois")).in("batch_indices", g.x("batch_indices"));
  g.bind("x", withSameAttributes(grad).out("dx"));
}
REGISTER_USER_OP_GRAD("roi_align").SetBackwardOpConfGenFn(gradientRule(gradient));

/// A mean is linear in x, and its gradient does not depend on it.
void secondGradient(GradientRule &g) {
  if (!g.needs("dy")) return;
  if (g.attr<std::string>("mode") == "max")
    throw ContractError("second derivatives of roi_align with mode \"max\" are not provided");
  auto grad = g.add("roi_align", "dy");
  grad.in("x", g.dy("dx")).in("rois", g.x("rois")).in("batch_indices", g.x("batch_indices"));
  g.bind("dy", withSameAttributes(grad).out("y"));
}
REGISTER_USER_OP_GRAD("roi_align_grad").SetBackwardOpConfGenFn(gradientRule(secondGradient));

} // namespace
} // namespace opc::ops
