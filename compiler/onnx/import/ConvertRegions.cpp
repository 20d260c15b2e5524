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

template <class F> Term filled(const Conversion &c, DataType type, const Shape &shape, F f) {
  std::vector<double> values;
  for (int64_t k = 0; k < shape.elem_cnt(); ++k) values.push_back(f(k));
  return c.constant(type, shape, values);
}

Term sum(Conversion &c, const Term &a, const Term &b) { return c.op("broadcast_add", {a, b}); }
Term times(Conversion &c, const Term &a, const Term &b) { return c.op("broadcast_mul", {a, b}); }

constexpr int64_t kMostSamples = 1 << 22; // of a region along an axis

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
  const int64_t ratio = c.i("sampling_ratio", 0), high = c.i("output_height", 1), wide = c.i("output_width", 1);
  for (const auto &[name, value, least, most] : {std::tuple{"output_height", high, int64_t{1}, kMostSamples},
                                                 std::tuple{"output_width", wide, int64_t{1}, kMostSamples},
                                                 std::tuple{"sampling_ratio", ratio, int64_t{0}, int64_t{64}}})
    if (value < least || value > most)
      c.invalid("attribute '" + std::string(name) + "' is " + std::to_string(value) + ", and must be from " +
                std::to_string(least) + " to " + std::to_string(most));
  c.checkShape(2, Shape({rois->dim(0)}), "the rois");
  c.checkPlaces(c.in(2), x->dim(0), 2);
  c.out(c.op("roi_align", {x, rois, c.in(2)},
             {{"mode", c.s("mode", "avg")},
              {"output_height", high},
              {"output_width", wide},
              {"sampling_ratio", ratio},
              {"spatial_scale", spatialScale(c)},
              {"coordinate_transformation_mode",
               c.s("coordinate_transformation_mode", c.version < 16 ? "output_half_pixel" : "half_pixel")}}));
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
  t->add("RoiAlign", convertRoiAlign, "roi_align");
  t->add("MaxRoiPool", convertMaxRoiPool, "gather, where, reduce_max");
}

} // namespace opc::onnx
