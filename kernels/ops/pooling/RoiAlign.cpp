// roi_align: regions of images, each as bins of equal size.
// SPDX-License-Identifier: Apache-2.0
#include "pooling/RoiAlign.h"
#include "support/IndexCheck.h"

namespace opc::ops {

void roiAlignAttrs(OpRegistry &op) {
  op.Attr<std::string>("mode", "avg")
      .Attr<int64_t>("output_height", 1)
      .Attr<int64_t>("output_width", 1)
      .Attr<int64_t>("sampling_ratio", 0)
      .Attr<double>("spatial_scale", 1.0)
      .Attr<std::string>("coordinate_transformation_mode", "half_pixel");
}

namespace {

Maybe<bool> isEither(const OpContext &ctx, const char *attr, const std::string &one, const std::string &other) {
  const std::string &value = ctx.Attr<std::string>(attr);
  if (value != one && value != other)
    return (Error("OPC0205") << attr << " is \"" << value << "\"").help("use \"" + one + "\" or \"" + other + "\"");
  return value == one;
}

Maybe<void> checkAttributes(const OpContext &ctx) {
  constexpr int64_t most = 1 << 22;
  for (const auto &[name, least] :
       {std::pair{"output_height", 1}, std::pair{"output_width", 1}, std::pair{"sampling_ratio", 0}}) {
    const int64_t value = ctx.Attr<int64_t>(name);
    if (value < least || value > most)
      return (Error("OPC0205") << name << " is " << value)
          .help("give one from " + std::to_string(least) + " to " + std::to_string(most));
  }
  const double scale = ctx.Attr<double>("spatial_scale");
  if (!(scale > 0) || std::isinf(scale))
    return (Error("OPC0205") << "spatial_scale is " << scale).help("give a positive, finite one");
  JUST(isEither(ctx, "mode", "max", "avg"));
  JUST(isEither(ctx, "coordinate_transformation_mode", "half_pixel", "output_half_pixel"));
  return Maybe<void>::Ok();
}

} // namespace

Maybe<TensorDesc> roiAlignOutput(const InferContext *ctx) {
  const TensorDesc x = ctx->In("x"), rois = ctx->In("rois"), indices = ctx->In("batch_indices");
  const Shape &i = x.shape(), &r = rois.shape();
  if (i.NumAxes() != 4 || r.NumAxes() != 2 || r.At(1) != 4 || indices.shape() != Shape({r.At(0)}))
    return (Error::ShapeMismatch() << "x is " << i.ToString() << ", rois is " << r.ToString() << ", batch_indices is "
                                   << indices.shape().ToString())
        .help("x is (batch, channels, height, width), rois (regions, 4), batch_indices (regions)");
  if (i.At(2) == 0 || i.At(3) == 0)
    return (Error::ShapeMismatch() << "x is " << i.ToString() << ", without pixels").help("give images with pixels");
  if (rois.data_type() != x.data_type())
    return (Error::TypeError() << "rois is " << dataTypeName(rois.data_type()) << ", x is "
                               << dataTypeName(x.data_type()))
        .help("cast rois");
  JUST(checkIndexType(ctx, "batch_indices"));
  JUST(checkAttributes(*ctx));
  const Shape shape({r.At(0), i.At(1), ctx->Attr<int64_t>("output_height"), ctx->Attr<int64_t>("output_width")});
  return TensorDesc(shape, x.data_type());
}

RoiAlignment roiAlignment(const OpContext &ctx, const Shape &x, const Shape &rois) {
  const int64_t ratio = ctx.Attr<int64_t>("sampling_ratio");
  const double scale = ctx.Attr<double>("spatial_scale");
  const bool isHalf = ctx.Attr<std::string>("coordinate_transformation_mode") == "half_pixel";
  return {x.At(0),
          x.At(1),
          rois.At(0),
          {x.At(2), ctx.Attr<int64_t>("output_height"), ratio, scale, isHalf, 0},
          {x.At(3), ctx.Attr<int64_t>("output_width"), ratio, scale, isHalf, 0},
          ctx.Attr<std::string>("mode") == "max"};
}

/// With a ratio of 0 it depends on the regions: taken as a third of an image's height and width.
Maybe<double> roiAlignWork(InferContext *ctx) {
  const RoiAlignment g = roiAlignment(*ctx, ctx->In("x").shape(), ctx->In("rois").shape());
  const auto samples = [](const RoiAxis &a) {
    return static_cast<double>(a.ratio > 0 ? a.bins * a.ratio : std::max(a.bins, a.size / 3));
  };
  return 8.0 * static_cast<double>(g.regions * g.channels) * samples(g.rows) * samples(g.columns);
}

std::vector<Case> roiAlignCases(bool withGradient) {
  const auto made = [=](const char *name, const char *mode, int64_t ratio, const char *coordinates, double scale) {
    Case c(name);
    if (withGradient) c.In("dy", {6, 3, 3, 2});
    return c.In("x", {2, 3, 6, 7})
        .In("rois", {6, 4}, -3, 16)
        .In("batch_indices", kInt64, {6}, 0, 2)
        .Attr<std::string>("mode", mode)
        .Attr<int64_t>("output_height", 3)
        .Attr<int64_t>("output_width", 2)
        .Attr<int64_t>("sampling_ratio", ratio)
        .Attr<double>("spatial_scale", scale)
        .Attr<std::string>("coordinate_transformation_mode", coordinates);
  };
  std::vector<Case> cases = {
      made("mean", "avg", 2, "half_pixel", 0.5), made("adaptive", "avg", 0, "output_half_pixel", 0.5),
      made("largest", "max", 2, "half_pixel", 0.5), made("adaptive_largest", "max", 0, "output_half_pixel", 1)};
  Case none("no_regions");
  if (withGradient) none.In("dy", {0, 3, 1, 1});
  cases.push_back(none.In("x", {2, 3, 4, 5}).In("rois", {0, 4}).In("batch_indices", kInt32, {0}, 0, 2));
  return cases;
}

namespace {

Maybe<void> infer(InferContext *ctx) { return setOut(ctx, "y", JUST(roiAlignOutput(ctx))); }

/// line = the rows of an image that bin i takes, weighed and added up.
template <class T> void meanOfRows(RoiWindow<T> &w, const T *image, int64_t width, size_t i) {
  const RoiTaps<T> &rows = w.rows, &columns = w.columns;
  T *line = w.line.data();
  const int64_t span = columns.span, *places = columns.place.data();
  std::fill_n(line, span, T(0));
  for (int64_t t = rows.first[i]; t < rows.first[i + 1]; ++t) {
    const T weight = rows.weight[static_cast<size_t>(t)];
    const T *row = image + rows.place[static_cast<size_t>(t)] * width;
    if (columns.isDense)
      for (int64_t k = 0; k < span; ++k) line[k] += weight * row[columns.begin + k];
    else
      for (int64_t k = 0; k < span; ++k) line[k] += weight * row[places[k]];
  }
}
template <class T> void meanBins(RoiWindow<T> &w, const RoiAlignment &g, const T *image, T *y) {
  const RoiTaps<T> &columns = w.columns;
  for (int64_t i = 0; i < g.rows.bins; ++i) {
    meanOfRows(w, image, g.columns.size, static_cast<size_t>(i));
    for (int64_t j = 0; j < g.columns.bins; ++j) {
      T sum = 0;
      for (auto t = static_cast<size_t>(columns.first[static_cast<size_t>(j)]),
                end = static_cast<size_t>(columns.first[static_cast<size_t>(j) + 1]);
           t < end; ++t)
        sum += columns.weight[t] * w.line[static_cast<size_t>(columns.at[t])];
      *y++ = sum;
    }
  }
}

/// Without branches, so that lines of it are vectors; NaN stays.
template <class T> T largerOf(T a, T b) { return ((b > a) | (b != b)) ? b : a; }

/// Each sample is the largest of its four weighed pixels; 0 where it is outside. Without samples a bin is 0.
template <class T> void largestBins(RoiWindow<T> &w, const RoiAlignment &g, const T *image, T *y) {
  const RoiTaps<T> &rows = w.rows, &columns = w.columns;
  constexpr T lowest = std::numeric_limits<T>::lowest();
  for (size_t i = 0; i < static_cast<size_t>(g.rows.bins); ++i) {
    const bool hasRows = rows.first[i] < rows.first[i + 1] || rows.leavesImage[i];
    std::fill(w.line.begin(), w.line.end(), rows.leavesImage[i] ? T(0) : lowest);
    for (auto t = static_cast<size_t>(rows.first[i]), end = static_cast<size_t>(rows.first[i + 1]); t < end; ++t) {
      const T *row = image + rows.place[t] * g.columns.size, weight = rows.weight[t];
      T *line = w.line.data();
      if (columns.isDense)
        for (int64_t k = 0; k < columns.span; ++k) line[k] = largerOf(line[k], weight * row[columns.begin + k]);
      else
        for (int64_t k = 0; k < columns.span; ++k)
          line[k] = largerOf(line[k], weight * row[columns.place[static_cast<size_t>(k)]]);
    }
    for (size_t j = 0; j < static_cast<size_t>(g.columns.bins); ++j) {
      const bool isAny = hasRows && (columns.first[j] < columns.first[j + 1] || columns.leavesImage[j]);
      T largest = !isAny || columns.leavesImage[j] ? T(0) : lowest;
      for (auto t = static_cast<size_t>(columns.first[j]), end = static_cast<size_t>(columns.first[j + 1]);
           isAny && t < end; ++t)
        largest = largerOf(largest, columns.weight[t] * w.line[static_cast<size_t>(columns.at[t])]);
      *y++ = largest;
    }
  }
}

/// A thread takes some channels of a region, and then the same channels of the next one: they are in its cache.
template <class T> class RoiAlignKernel final : public StagedKernel<T> {
  std::unique_ptr<BoundKernel> BindStaged(KernelBindContext *ctx, StagedTensors<T> &staged) const override {
    const T *x = staged.in("x"), *rois = staged.in("rois");
    T *y = staged.out("y");
    const RoiAlignment g = roiAlignment(*ctx, ctx->In("x").shape(), ctx->In("rois").shape());
    const Shape shape = ctx->In("batch_indices").shape();
    return withIndices(ctx->In("batch_indices"), [&](const auto *indices) {
      return bindTask([=](DeviceCtx *dev) {
        checkIndices(dev, indices, shape, g.images, "batch_indices", "the images of x");
        constexpr int64_t most = 16;
        const int64_t parts = (g.channels + most - 1) / most;
        dev->parallelFor(g.regions * parts, 1, [&](int64_t begin, int64_t end) {
          RoiWindow<T> window;
          for (int64_t item = begin; item < end; ++item) {
            const int64_t r = item % g.regions, first = item / g.regions * most,
                          last = std::min(first + most, g.channels);
            window.fill(g, rois + 4 * r);
            const T *images = x + static_cast<int64_t>(indices[r]) * g.channels * g.plane();
            for (int64_t c = first; c < last; ++c)
              (g.isMax ? largestBins<T> : meanBins<T>)(window, g, images + c * g.plane(),
                                                       y + (r * g.channels + c) * g.bins());
          }
        });
      });
    });
  }
};

Maybe<ShardingRule> sharding(const SbpContext &ctx) {
  const std::string rule = ". c . ., r ., r -> r c . .";
  if (ctx.Attr<std::string>("mode") == "max") return ShardingRule(rule);
  return ShardingRule(rule, Linear({0}));
}

REGISTER_USER_OP("roi_align")
    .With(TensorArgs{{"x", "rois", "batch_indices"}, {"y"}})
    .With(roiAlignAttrs)
    .SetTensorDescInferFn(infer)
    .SetInputArgModifyFn([](const GetInputArgModifier &modifier, const UserOpConfWrapper &) {
      if (auto *rois = modifier("rois", 0)) rois->set_requires_grad(false);
    })
    .Sharding(sharding)
    .SetComputeComplexityFn(roiAlignWork)
    .Doc(
        "y[r] is region r of image batch_indices[r] of x (batch, channels, height, width), cut into output_height times "
        "output_width bins, as ONNX's RoiAlign has it. rois[r] is (x1, y1, x2, y2), which spatial_scale multiplies to "
        "pixels; half_pixel then shifts it by -0.5, and output_half_pixel makes it at least one pixel wide and high. "
        "In a bin are sampling_ratio samples along each axis, with 0 as many as it is long, each between four pixels; "
        "beyond a pixel outside the image it is 0. mode \"avg\" is their mean, \"max\" the largest of the samples' "
        "weighed pixels. Without samples a bin is 0. rois get no gradient. An index outside the batch is an error at "
        "run time.")
    .Cases(roiAlignCases(false))
    .Kernel<RoiAlignKernel, types::Floating>("x");

} // namespace
} // namespace opc::ops
