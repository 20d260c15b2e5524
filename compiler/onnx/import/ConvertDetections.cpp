// ONNX's ops of object detection, and others whose results are as many as the values say: those at import alone.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxConverters.h"

#include <algorithm>
#include <numeric>

namespace opc::onnx {
namespace {

// NonMaxSuppression ---------------------------------------------------------------------------------------------------

struct Box {
  float y1, x1, y2, x2;
  float area() const { return (y2 - y1) * (x2 - x1); }
};

Box boxOf(const double *v, bool isCentre) {
  const auto f = [&](int k) { return static_cast<float>(v[k]); };
  if (isCentre) return {f(1) - f(3) / 2, f(0) - f(2) / 2, f(1) + f(3) / 2, f(0) + f(2) / 2};
  return {std::min(f(0), f(2)), std::min(f(1), f(3)), std::max(f(0), f(2)), std::max(f(1), f(3))};
}

/// The share that two boxes have of what they cover together.
float overlap(const Box &a, const Box &b) {
  const float height = std::min(a.y2, b.y2) - std::max(a.y1, b.y1), width = std::min(a.x2, b.x2) - std::max(a.x1, b.x1);
  if (height <= 0 || width <= 0 || a.area() <= 0 || b.area() <= 0) return 0;
  return height * width / (a.area() + b.area() - height * width);
}

void convertNonMaxSuppression(Conversion &c) {
  const Shape &boxes = c.in(0)->shape(), &scores = c.in(1)->shape();
  if (boxes.NumAxes() != 3 || boxes.At(2) != 4 || scores.NumAxes() != 3 || scores.At(0) != boxes.At(0) ||
      scores.At(2) != boxes.At(1))
    c.invalid("boxes [batch, n, 4] and scores [batch, classes, n] are wanted, not " + boxes.ToString() + " and " +
              scores.ToString());
  const auto places = c.knownFloats(0), values = c.knownFloats(1);
  const int64_t most = c.has(2) ? c.knownInt(2) : 0, count = boxes.At(1), classes = scores.At(1);
  const auto limit = static_cast<float>(c.has(3) ? c.knownFloat(3) : 0);
  if (!(limit >= 0 && limit <= 1))
    c.invalid(c.inputText(3) + " is " + std::to_string(limit) + ", and must be from 0 to 1");
  const bool isCentre = c.flag("center_point_box", false);
  std::vector<int64_t> kept;
  for (int64_t row = 0; row < boxes.At(0) * classes; ++row) {
    const double *score = values.data() + row * count, *place = places.data() + row / classes * count * 4;
    std::vector<int64_t> order;
    for (int64_t k = 0; k < count; ++k)
      if (!c.has(4) || score[k] > c.knownFloat(4)) order.push_back(k);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return score[a] > score[b]; });
    std::vector<Box> chosen;
    for (int64_t k : order) {
      if (static_cast<int64_t>(chosen.size()) >= most) break;
      const Box box = boxOf(place + k * 4, isCentre);
      if (std::any_of(chosen.begin(), chosen.end(), [&](const Box &b) { return overlap(b, box) > limit; })) continue;
      chosen.push_back(box);
      kept.insert(kept.end(), {row / classes, row % classes, k});
    }
  }
  c.out(c.constant(kept, Shape({static_cast<int64_t>(kept.size() / 3), 3})));
}

// Unique --------------------------------------------------------------------------------------------------------------

void convertUnique(Conversion &c) {
  const bool isFlat = !c.hasAttr("axis");
  const Term x = isFlat ? c.reshape(c.in(0), {c.in(0)->shape().elem_cnt()}) : c.in(0);
  const int64_t axis = isFlat ? 0 : c.axisOf(c.i("axis", 0), x->rank());
  // 64-bit integers are whole in what a row is compared by.
  std::vector<long double> values;
  if (x->isFloating())
    for (double v : c.knownFloats(0)) values.push_back(v);
  else
    for (int64_t v : c.knownInts(0)) values.push_back(static_cast<long double>(v));
  const int64_t size = x->dim(axis), outer = x->shape().Count(0, axis), inner = x->shape().Count(axis + 1);
  std::vector<std::vector<long double>> rows(static_cast<size_t>(size));
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t k = 0; k < size; ++k)
      for (int64_t i = 0; i < inner; ++i)
        rows[static_cast<size_t>(k)].push_back(values[static_cast<size_t>((o * size + k) * inner + i)]);
  std::map<std::vector<long double>, int64_t> places; // of each row its place among the results
  std::vector<int64_t> first, inverse, counts;
  for (int64_t k = 0; k < size; ++k)
    if (places.emplace(rows[static_cast<size_t>(k)], static_cast<int64_t>(first.size())).second) first.push_back(k);
  if (c.flag("sorted", true)) {
    std::vector<int64_t> sorted;
    for (auto &[row, place] : places) {
      sorted.push_back(first[static_cast<size_t>(place)]);
      place = static_cast<int64_t>(sorted.size()) - 1;
    }
    first = sorted;
  }
  counts.assign(first.size(), 0);
  for (const auto &row : rows) {
    inverse.push_back(places.at(row));
    ++counts[static_cast<size_t>(inverse.back())];
  }
  const auto list = [&](const std::vector<int64_t> &v) {
    return c.constant(v, Shape({static_cast<int64_t>(v.size())}));
  };
  c.out(0, c.op("gather", {x, list(first)}, {{"axis", axis}}));
  c.out(1, list(first));
  c.out(2, list(inverse));
  c.out(3, list(counts));
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
  t->add("NonMaxSuppression", convertNonMaxSuppression, "a constant", "boxes and scores of the run");
  t->add("Unique", convertUnique, "gather", "values of the run");
  t->add("RoiAlign", convertRoiAlign, "gather, batch_matmul", "mode max, sampling_ratio 0");
}

} // namespace opc::onnx
