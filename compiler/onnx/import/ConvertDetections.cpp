// ONNX's ops of object detection, and others whose results are as many as the values say.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxConverters.h"

#include <algorithm>
#include <numeric>

namespace opc::onnx {
namespace {

// NonMaxSuppression ---------------------------------------------------------------------------------------------------

void convertNonMaxSuppression(Conversion &c) {
  const Shape &boxes = c.in(0)->shape(), &scores = c.in(1)->shape();
  if (boxes.NumAxes() != 3 || boxes.At(2) != 4 || scores.NumAxes() != 3 || scores.At(0) != boxes.At(0) ||
      scores.At(2) != boxes.At(1))
    c.invalid("boxes [batch, n, 4] and scores [batch, classes, n] are wanted, not " + boxes.ToString() + " and " +
              scores.ToString());
  const int64_t most = c.has(2) ? c.knownInt(2) : 0;
  const double limit = c.has(3) ? c.knownFloat(3) : 0;
  if (!(limit >= 0 && limit <= 1))
    c.invalid(c.inputText(3) + " is " + std::to_string(limit) + ", and must be from 0 to 1");
  Attrs attrs{{"max_output_boxes_per_class", std::max<int64_t>(most, 0)},
              {"iou_threshold", limit},
              {"center_point_box", c.flag("center_point_box", false)}};
  if (c.has(4)) attrs.insert({{"has_score_threshold", true}, {"score_threshold", c.knownFloat(4)}});
  const auto made = c.ops("non_max_suppression", {c.in(0), c.in(1)}, attrs);
  c.out(c.cut(made[0], 0, made[1]));
}

// Unique --------------------------------------------------------------------------------------------------------------

void convertUnique(Conversion &c) {
  const bool isFlat = !c.hasAttr("axis");
  const Term x = isFlat ? c.reshape(c.in(0), {c.in(0)->shape().elem_cnt()}) : c.in(0);
  const int64_t axis = isFlat ? 0 : c.axisOf(c.i("axis", 0), x->rank());
  std::vector<int64_t> perm{axis};
  for (int64_t k = 0; k < x->rank(); ++k)
    if (k != axis) perm.push_back(k);
  const auto made = c.ops("unique_rows", {c.transpose(x, perm)}, {{"sorted", c.flag("sorted", true)}});
  const Term count = made[3], known = count->value ? c.cut(made[0], 0, count) : made[0];
  const Term taken = c.op("gather", {x, known}, {{"axis", axis}});
  c.out(0, count->value ? taken : c.cut(taken, axis, count));
  c.out(1, c.cut(made[0], 0, count));
  c.out(2, made[1]);
  c.out(3, c.cut(made[2], 0, count));
}

// RoiAlign ------------------------------------------------------------------------------------------------------------

/// What each of `bins` windows along one axis of `size` takes of its elements, [rois, bins, size]: the mean over the
/// samples of a window, each of which is between two elements.
Term shares(Conversion &c, const Term &begin, const Term &length, int64_t bins, int64_t samples, int64_t size) {
  std::vector<double> steps, places;
  for (int64_t k = 0; k < bins * samples; ++k)
    steps.push_back((static_cast<double>(k) + 0.5) / static_cast<double>(bins * samples));
  for (int64_t k = 0; k < size; ++k) places.push_back(static_cast<double>(k));
  const DataType type = begin->type();
  const int64_t rois = begin->dim(0);
  const Term at = c.op("broadcast_add",
                       {begin, c.op("broadcast_mul", {length, c.constant(type, Shape({1, bins * samples}), steps)})});
  const Term isInside =
      c.op("broadcast_logical_and", {c.op("broadcast_greater_equal", {at, like(c, at, -1)}),
                                     c.op("broadcast_less_equal", {at, like(c, at, static_cast<double>(size))})});
  const Term held =
      c.op("clip_by_scalar", {at}, {{"floating_min", 0.0}, {"floating_max", static_cast<double>(size - 1)}});
  const Term distance = c.op("abs", {c.op("broadcast_sub", {c.reshape(held, {rois, bins * samples, 1}),
                                                            c.constant(type, Shape({1, 1, size}), places)})});
  const Term share = c.op("relu", {c.op("broadcast_sub", {like(c, at, 1), distance})});
  const Term all = c.op("broadcast_mul", {share, c.reshape(c.cast(isInside, type), {rois, bins * samples, 1})});
  return reduced(c, "reduce_mean", c.reshape(all, {rois, bins, samples, size}), {2}, false);
}

void convertRoiAlign(Conversion &c) {
  const Term x = c.in(0), rois = c.in(1);
  if (x->rank() != 4 || rois->rank() != 2 || rois->dim(1) != 4)
    c.invalid("images [n, c, h, w] and rois [k, 4] are wanted");
  if (c.s("mode", "avg") != "avg") c.unsupported("the largest of the samples (mode max)");
  const int64_t samples = c.i("sampling_ratio", 0), high = c.i("output_height", 1), wide = c.i("output_width", 1);
  if (samples < 1) c.unsupported("as many samples as a region is large (sampling_ratio 0)", "give a sampling_ratio");
  if (high < 1 || wide < 1 || samples > 64) c.invalid("output_height, output_width or sampling_ratio is out of range");
  const bool isHalf =
      c.s("coordinate_transformation_mode", c.version < 16 ? "output_half_pixel" : "half_pixel") == "half_pixel";
  Term scaled = c.scaled(rois, c.f("spatial_scale", 1));
  if (isHalf) scaled = c.plus(scaled, -0.5);
  const auto side = [&](int64_t k) {
    const Term begin = c.slice(scaled, 1, k, k + 1), end = c.slice(scaled, 1, k + 2, k + 3);
    Term length = c.op("broadcast_sub", {end, begin});
    if (!isHalf) length = c.op("broadcast_maximum", {length, like(c, length, 1)});
    return shares(c, begin, length, k ? high : wide, samples, x->dim(k ? 2 : 3));
  };
  const int64_t count = rois->dim(0), channels = x->dim(1);
  const Term images = c.op("gather", {x, c.in(2)}, {{"axis", int64_t{0}}});
  const auto ofChannels = [&](const Term &t) {
    return c.expand(c.reshape(t, {count, 1, t->dim(1), t->dim(2)}), Shape({count, channels, t->dim(1), t->dim(2)}));
  };
  const Term rows = c.op("batch_matmul", {ofChannels(side(1)), images});
  c.out(c.op("batch_matmul", {rows, ofChannels(c.transpose(side(0), {0, 2, 1}))}));
}

} // namespace

void addDetections(ConverterTable *t) {
  t->add("NonMaxSuppression", convertNonMaxSuppression, "non_max_suppression",
         "thresholds and numbers of boxes of the run");
  t->add("Unique", convertUnique, "unique_rows, gather");
  t->add("RoiAlign", convertRoiAlign, "gather, batch_matmul", "mode max, sampling_ratio 0");
}

} // namespace opc::onnx
