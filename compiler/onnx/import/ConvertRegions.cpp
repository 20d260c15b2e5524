// ONNX's poolings of regions of images.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxConverters.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace opc::onnx {
namespace {

/// Of each region along one axis of the images: where it begins and how long it is, [rois, 1], and into how many
/// windows it is cut.
struct Side {
  Term begin, length;
  int64_t bins, size; // size: of the images
};

/// Where the samples of the windows lie, [rois, bins * most]. Of a window `number` [rois, 1] count, those that
/// `counts` names; both are null where all do.
struct Samples {
  Term at, counts, number;
  int64_t bins, most, size;
};

template <class F> Term filled(const Conversion &c, DataType type, const Shape &shape, F f) {
  std::vector<double> values;
  for (int64_t k = 0; k < shape.elem_cnt(); ++k) values.push_back(f(k));
  return c.constant(type, shape, values);
}

Term sum(Conversion &c, const Term &a, const Term &b) { return c.op("broadcast_add", {a, b}); }
Term times(Conversion &c, const Term &a, const Term &b) { return c.op("broadcast_mul", {a, b}); }

constexpr int64_t kMostSamples = 1 << 22; // of a region along an axis

Samples fixedSamples(Conversion &c, const Side &s, int64_t ratio) {
  const int64_t all = s.bins * ratio;
  if (all > kMostSamples) c.unsupported(std::to_string(all) + " samples along an axis");
  const Term steps = filled(c, s.begin->type(), Shape({1, all}),
                            [&](int64_t k) { return (static_cast<double>(k) + 0.5) / static_cast<double>(all); });
  return {sum(c, s.begin, times(c, s.length, steps)), nullptr, nullptr, s.bins, ratio, s.size};
}

/// As many as a window is long, at most those of a region that is twice as large as the image.
Samples adaptedSamples(Conversion &c, const Side &s) {
  const int64_t most = std::max<int64_t>((2 * s.size + s.bins - 1) / s.bins, 1);
  if (s.bins > kMostSamples / most)
    c.unsupported("regions of " + std::to_string(s.size) + " elements with samples for each (sampling_ratio 0)");
  const DataType type = s.begin->type();
  const Shape all({1, s.bins * most});
  const Term window = c.op("broadcast_div", {s.length, like(c, s.length, static_cast<double>(s.bins))});
  const Term wanted = c.op("relu", {c.op("ceil", {window})});
  const Term whole = c.cast(wanted, kInt64);
  if (whole->value)
    for (int64_t n : c.knownInts(whole, c.inputText(1)))
      if (n > most)
        c.unsupported("a window of " + std::to_string(n) + " elements: with sampling_ratio 0 it has at most " +
                          std::to_string(most) +
                          " samples along an axis, those of a region twice as large as the image",
                      "give a sampling_ratio");
  const Term number = c.cast(c.within(whole, most + 1, 1), type);
  const Term step = c.op("broadcast_div", {window, c.op("broadcast_maximum", {number, like(c, number, 1)})});
  const auto sample = [&](double shift) {
    return filled(c, type, all, [&](int64_t k) { return static_cast<double>(k % most) + shift; });
  };
  const Term bin = filled(c, type, all, [&](int64_t k) {
    const int64_t whole = k / most;
    return static_cast<double>(whole);
  });
  const Term at = sum(c, sum(c, s.begin, times(c, window, bin)), times(c, step, sample(0.5)));
  return {at, c.op("broadcast_less", {sample(0), number}), number, s.bins, most, s.size};
}

Term isInside(Conversion &c, const Samples &s) {
  return c.op("broadcast_logical_and",
              {c.op("broadcast_greater_equal", {s.at, like(c, s.at, -1)}),
               c.op("broadcast_less_equal", {s.at, like(c, s.at, static_cast<double>(s.size))})});
}

Term held(Conversion &c, const Samples &s) {
  return c.op("clip_by_scalar", {s.at}, {{"floating_min", 0.0}, {"floating_max", static_cast<double>(s.size - 1)}});
}

/// What each window takes of the elements along the axis, [rois, bins, size]: the mean over its samples, each of which
/// is between two elements.
Term shares(Conversion &c, const Samples &s) {
  const DataType type = s.at->type();
  const int64_t rois = s.at->dim(0), all = s.bins * s.most;
  const Term places = filled(c, type, Shape({1, 1, s.size}), [](int64_t k) { return static_cast<double>(k); });
  const Term distance = c.op("abs", {c.op("broadcast_sub", {c.reshape(held(c, s), {rois, all, 1}), places})});
  const Term share = c.op("relu", {c.op("broadcast_sub", {like(c, s.at, 1), distance})});
  Term counts = isInside(c, s);
  if (s.counts) counts = c.op("broadcast_logical_and", {counts, s.counts});
  const Term each =
      c.reshape(times(c, share, c.reshape(c.cast(counts, type), {rois, all, 1})), {rois, s.bins, s.most, s.size});
  if (!s.number) return reduced(c, "reduce_mean", each, {2}, false);
  const Term number = c.op("broadcast_maximum", {s.number, like(c, s.number, 1)});
  return c.op("broadcast_div", {reduced(c, "reduce_sum", each, {2}, false), c.reshape(number, {rois, 1, 1})});
}

/// The largest of what the samples of each window take of the two elements beside them: images [rois, channels, other,
/// size] -> [rois, channels, other, bins]. Shares are not negative, so that one axis goes after the other.
Term largestShares(Conversion &c, const Term &images, const Samples &s) {
  const DataType type = images->type();
  const int64_t rois = images->dim(0), channels = images->dim(1), other = images->dim(2), all = s.bins * s.most * 2;
  const Term place = held(c, s), low = c.op("floor", {place}), part = c.op("broadcast_sub", {place, low});
  const Term high = c.op("broadcast_minimum", {c.plus(low, 1), like(c, low, static_cast<double>(s.size - 1))});
  const auto pairs = [&](const Term &first, const Term &second) {
    return c.reshape(c.op("stack", {first, second}, {{"axis", int64_t{2}}}), {rois, 1, 1, all});
  };
  const Term inside = c.cast(isInside(c, s), type);
  const Term weight = pairs(times(c, c.op("broadcast_sub", {like(c, part, 1), part}), inside), times(c, part, inside));
  const Term index = c.expand(pairs(c.cast(low, kInt64), c.cast(high, kInt64)), Shape({rois, channels, other, all}));
  Term each = times(c, c.op("dim_gather", {images, index}, {{"dim", int64_t{3}}}), weight);
  if (s.counts) each = c.op("where", {pairs(s.counts, s.counts), each, c.scalar(type, elementType(type).lowest)});
  Term largest = reduced(c, "reduce_max", c.reshape(each, {rois, channels, other, s.bins, s.most * 2}), {4}, false);
  if (!s.number) return largest;
  const Term isAny = c.op("broadcast_greater", {c.reshape(s.number, {rois, 1, 1, 1}), c.scalar(type, 0)});
  return c.op("where", {isAny, largest, c.scalar(type, 0)});
}

double spatialScale(const Conversion &c) {
  const double scale = c.f("spatial_scale", 1);
  if (!(scale > 0) || std::isinf(scale))
    c.invalid("attribute 'spatial_scale' is " + std::to_string(scale) + ", and must be positive and finite");
  return scale;
}

/// Images of no or of very many elements have no places.
void checkImages(const Conversion &c, const Term &x) {
  if (x->dim(2) < 1 || x->dim(3) < 1) c.invalid(c.inputText(0) + " is " + x->desc.toString() + ", without elements");
  if (std::max(x->dim(2), x->dim(3)) > kMostSamples) c.unsupported("images of " + x->desc.toString());
}

Term swapped(Conversion &c, const Term &images) { return c.transpose(images, {0, 1, 3, 2}); }

void convertRoiAlign(Conversion &c) {
  const Term x = c.in(0), rois = c.in(1);
  if (x->rank() != 4 || rois->rank() != 2 || rois->dim(1) != 4)
    c.invalid("images [n, c, h, w] and rois [k, 4] are wanted");
  checkImages(c, x);
  const bool isMax = c.s("mode", "avg") == "max";
  const int64_t ratio = c.i("sampling_ratio", 0), high = c.i("output_height", 1), wide = c.i("output_width", 1);
  for (const auto &[name, value, least, most] : {std::tuple{"output_height", high, int64_t{1}, kMostSamples},
                                                 std::tuple{"output_width", wide, int64_t{1}, kMostSamples},
                                                 std::tuple{"sampling_ratio", ratio, int64_t{0}, int64_t{64}}})
    if (value < least || value > most)
      c.invalid("attribute '" + std::string(name) + "' is " + std::to_string(value) + ", and must be from " +
                std::to_string(least) + " to " + std::to_string(most));
  const bool isHalf =
      c.s("coordinate_transformation_mode", c.version < 16 ? "output_half_pixel" : "half_pixel") == "half_pixel";
  Term scaled = c.scaled(rois, spatialScale(c));
  if (isHalf) scaled = c.plus(scaled, -0.5);
  const auto samples = [&](int64_t k) {
    const Term begin = c.slice(scaled, 1, k, k + 1), end = c.slice(scaled, 1, k + 2, k + 3);
    Term length = c.op("broadcast_sub", {end, begin});
    if (!isHalf) length = c.op("broadcast_maximum", {length, like(c, length, 1)});
    const Side side{begin, length, k ? high : wide, x->dim(k ? 2 : 3)};
    return ratio ? fixedSamples(c, side, ratio) : adaptedSamples(c, side);
  };
  const int64_t count = rois->dim(0), channels = x->dim(1);
  c.checkShape(2, Shape({count}), "the rois");
  const Term images = c.rows(x, c.in(2), 2);
  if (isMax) {
    const Term columns = largestShares(c, images, samples(0));
    return c.out(swapped(c, largestShares(c, swapped(c, columns), samples(1))));
  }
  const auto ofChannels = [&](const Term &t) {
    return c.expand(c.reshape(t, {count, 1, t->dim(1), t->dim(2)}), Shape({count, channels, t->dim(1), t->dim(2)}));
  };
  const Term rows = c.op("batch_matmul", {ofChannels(shares(c, samples(1))), images});
  c.out(c.op("batch_matmul", {rows, ofChannels(c.transpose(shares(c, samples(0)), {0, 2, 1}))}));
}

/// The elements of each window along one axis: whole ones from the one that it begins in to the one that it ends in.
struct Cells {
  Term isIn;  // [rois, bins, size]
  Term isAny; // [rois, bins]: whether there is one
};

Cells cellsOf(Conversion &c, const Side &s) {
  const DataType type = s.begin->type();
  const int64_t rois = s.begin->dim(0);
  const Term window = c.op("broadcast_div", {s.length, like(c, s.length, static_cast<double>(s.bins))});
  const auto edge = [&](int64_t first, const char *whole) {
    const Term bins = filled(c, type, Shape({1, s.bins}), [&](int64_t k) { return static_cast<double>(k + first); });
    const Term at = sum(c, c.op(whole, {times(c, window, bins)}), s.begin);
    return c.op("clip_by_scalar", {at}, {{"floating_min", 0.0}, {"floating_max", static_cast<double>(s.size)}});
  };
  const Term begin = edge(0, "floor"), end = edge(1, "ceil");
  const Term place = filled(c, type, Shape({1, 1, s.size}), [](int64_t k) { return static_cast<double>(k); });
  const Term isIn =
      c.op("broadcast_logical_and", {c.op("broadcast_greater_equal", {place, c.reshape(begin, {rois, s.bins, 1})}),
                                     c.op("broadcast_less", {place, c.reshape(end, {rois, s.bins, 1})})});
  return {isIn, c.op("broadcast_greater", {end, begin})};
}

/// images [rois, channels, other, size] -> [rois, channels, other, bins], the largest element of each window.
Term largestCells(Conversion &c, const Term &images, const Cells &cells) {
  const int64_t rois = images->dim(0), size = images->dim(3), bins = cells.isIn->dim(1);
  const Term each = c.reshape(images, {rois, images->dim(1), images->dim(2), 1, size});
  const Term lowest = c.scalar(images->type(), elementType(images->type()).lowest);
  return reduced(c, "reduce_max", c.op("where", {c.reshape(cells.isIn, {rois, 1, 1, bins, size}), each, lowest}), {4},
                 false);
}

/// To the nearest whole number, halves away from zero; opc's round takes them to the even one.
Term rounded(Conversion &c, const Term &x) {
  const Term whole = c.op("trunc", {x}), part = c.op("broadcast_sub", {x, whole}); // both exact
  return sum(c, whole, c.op("trunc", {sum(c, part, part)}));
}

/// rois [k, 5]: the image, and the first and the last column and row.
void convertMaxRoiPool(Conversion &c) {
  const Term x = c.in(0), rois = c.in(1);
  if (x->rank() != 4 || !x->isFloating() || rois->rank() != 2 || rois->dim(1) != 5 || rois->type() != x->type())
    c.invalid("images [n, c, h, w] and rois [k, 5] of their type are wanted");
  checkImages(c, x);
  const auto shape = c.ints("pooled_shape", {});
  if (shape.size() != 2 || shape[0] < 1 || shape[1] < 1 || std::max(shape[0], shape[1]) > kMostSamples)
    c.invalid("attribute 'pooled_shape' must have a height and a width, both positive");
  const Term places = rounded(c, c.scaled(c.slice(rois, 1, 1, 5), spatialScale(c)));
  const auto cells = [&](int64_t k) {
    const Term begin = c.slice(places, 1, k, k + 1), end = c.slice(places, 1, k + 2, k + 3);
    const Term length = c.op("broadcast_maximum", {c.plus(c.op("broadcast_sub", {end, begin}), 1), like(c, begin, 1)});
    return cellsOf(c, {begin, length, shape[k ? 0 : 1], x->dim(k ? 2 : 3)});
  };
  const int64_t count = rois->dim(0);
  const Term images = c.rows(x, c.cast(c.reshape(c.slice(rois, 1, 0, 1), {count}), kInt64), 1);
  const Cells columns = cells(0), rows = cells(1);
  const Term largest = swapped(c, largestCells(c, swapped(c, largestCells(c, images, columns)), rows));
  const Term isAny = c.op("broadcast_logical_and", {c.reshape(rows.isAny, {count, 1, shape[0], 1}),
                                                    c.reshape(columns.isAny, {count, 1, 1, shape[1]})});
  c.out(c.op("where", {isAny, largest, c.scalar(x->type(), 0)}));
}

} // namespace

void addRegions(ConverterTable *t) {
  t->add("RoiAlign", convertRoiAlign, "gather, batch_matmul; dim_gather, reduce_max for mode max",
         "with sampling_ratio 0, regions over twice the image's size");
  t->add("MaxRoiPool", convertMaxRoiPool, "gather, where, reduce_max");
}

} // namespace opc::onnx
