// ONNX's Resize and Upsample: along one axis after another, by index or as a product with a matrix of weights.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxConverters.h"

#include <algorithm>
#include <cmath>

namespace opc::onnx {
namespace {

constexpr int64_t kMostWeights = 1 << 26;

struct Resampling {
  std::string mode = "nearest", coordinates = "half_pixel", nearest = "round_prefer_floor";
  double cubic = -0.75, extrapolated = 0;
  bool excludesOutside = false, isAntialiased = false;
};

struct Axis {
  int64_t from, to;          // sizes
  double scale;              // length / from
  double length;             // what `to` is before it is rounded
  double begin = 0, end = 1; // of the region, tf_crop_and_resize
};

/// Where element k of the result lies. What is nearest to it follows from its place in f32: a scale that is written as
/// 1/3 is a little more than that, and the quotient with it is 3 again.
template <class Real> Real coordinate(const Resampling &r, const Axis &a, int64_t k) {
  constexpr Real half = 0.5;
  const auto x = static_cast<Real>(k), from = static_cast<Real>(a.from), scale = static_cast<Real>(a.scale),
             to = static_cast<Real>(a.length), begin = static_cast<Real>(a.begin), end = static_cast<Real>(a.end);
  if (r.coordinates == "asymmetric") return x / scale;
  if (r.coordinates == "tf_half_pixel_for_nn") return (x + half) / scale;
  if (r.coordinates == "align_corners") return to == 1 ? 0 : x * (from - 1) / (to - 1);
  if (r.coordinates == "pytorch_half_pixel" && to <= 1) return 0;
  if (r.coordinates == "tf_crop_and_resize")
    return a.to > 1 ? begin * (from - 1) + x * (end - begin) * (from - 1) / (to - 1)
                    : half * (begin + end) * (from - 1);
  const Real plain = (x + half) / scale - half;
  if (r.coordinates != "half_pixel_symmetric") return plain;
  return from / 2 * (1 - static_cast<Real>(a.to) / to) + plain;
}

double cubicWeight(double x, double a) {
  x = std::fabs(x);
  if (x <= 1) return (a + 2) * x * x * x - (a + 3) * x * x + 1;
  return x < 2 ? a * x * x * x - 5 * a * x * x + 8 * a * x - 4 * a : 0;
}

int64_t nearestTo(float x, const std::string &mode) {
  constexpr float tolerance = 1e-6f; // within which a place is half-way, as ONNX Runtime has it
  const float below = std::floor(x), beyond = x - below;
  if (mode == "floor") return static_cast<int64_t>(below);
  if (mode == "ceil") return static_cast<int64_t>(std::ceil(x));
  const bool isHalf = std::fabs(beyond - 0.5f) < tolerance;
  return static_cast<int64_t>(below) + (isHalf ? mode == "round_prefer_ceil" : beyond > 0.5f);
}

/// What one element of a result takes of the elements along an axis: (place, weight), neighbours, as many for each.
using Taps = std::vector<std::pair<int64_t, double>>;

Taps tapsOf(const Resampling &r, const Axis &a, int64_t k) {
  const double x = coordinate<double>(r, a, k), low = std::floor(x), ratio = x - low;
  const bool isCubic = r.mode == "cubic";
  const double width = r.isAntialiased ? std::min(a.scale, 1.0) : 1, reach = isCubic ? 2 : 1;
  const auto first = static_cast<int64_t>(std::floor(-reach / width)) + 1, last = 1 - first;
  Taps taps;
  double sum = 0;
  for (int64_t j = first; j <= last; ++j) {
    const double distance = (static_cast<double>(j) - ratio) * width;
    const int64_t at = static_cast<int64_t>(low) + j;
    double w = isCubic ? cubicWeight(distance, r.cubic) : std::max(0.0, 1 - std::fabs(distance));
    if (r.excludesOutside && (at < 0 || at >= a.from)) w = 0;
    taps.emplace_back(std::clamp<int64_t>(at, 0, a.from - 1), w);
    sum += w;
  }
  if (r.isAntialiased || r.excludesOutside)
    for (auto &tap : taps) tap.second /= sum;
  return taps;
}

/// The elements of x at `places` along an axis.
Term elementsAt(Conversion &c, const Term &x, int64_t axis, const std::vector<int64_t> &places) {
  const auto count = static_cast<int64_t>(places.size());
  const int64_t step = count > 1 ? places[1] - places[0] : 1;
  bool isEven = step > 0;
  for (size_t k = 1; k < places.size(); ++k) isEven = isEven && places[k] - places[k - 1] == step;
  if (isEven) return c.slice(x, axis, places[0], places.back() + 1, step);
  return c.op("gather", {x, c.constant(places, Shape({count}))}, {{"axis", axis}});
}

/// A sum of weighed elements, one for each of the taps.
Term weighed(Conversion &c, const std::vector<Taps> &taps, const Term &x, int64_t axis) {
  DimVector dims(static_cast<size_t>(x->rank()), 1);
  dims[static_cast<size_t>(axis)] = static_cast<int64_t>(taps.size());
  Term sum;
  for (size_t t = 0; t < taps[0].size(); ++t) {
    std::vector<int64_t> places;
    std::vector<double> weights;
    for (const Taps &of : taps) places.push_back(of[t].first), weights.push_back(of[t].second);
    const auto areAll = [&](double w) { return std::count(weights.begin(), weights.end(), w) == std::ssize(weights); };
    if (areAll(0)) continue;
    Term part = elementsAt(c, x, axis, places);
    if (areAll(weights[0]))
      part = c.scaled(part, weights[0]);
    else
      part = c.op("broadcast_mul", {part, c.constant(x->type(), Shape(dims), weights)});
    sum = sum ? c.op("broadcast_add", {sum, part}) : part;
  }
  return sum;
}

/// Whether weighing some elements is cheaper than a product with all: of each result 32 multiplications and additions
/// of a product take as long as moving an element, which transposing the axis to the last place and back does, too.
bool isWeighed(const Resampling &r, const Term &x, int64_t axis, const Axis &a) {
  if (r.isAntialiased) return false;
  const double product = static_cast<double>(a.from) / 32;
  const double moved = axis + 1 == x->rank() ? 0 : static_cast<double>(a.from) / static_cast<double>(a.to) + 1;
  return 2 * (r.mode == "cubic" ? 4 : 2) < product + moved;
}

Term resampled(Conversion &c, const Resampling &r, Term x, int64_t axis, const Axis &a) {
  if (a.from < 1) c.invalid("axis " + std::to_string(axis) + " is empty");
  if (a.to < 1) return c.slice(x, axis, 0, 0, 1);
  if (r.mode == "nearest") {
    if (a.to > kMostWeights) c.unsupported("an axis of " + std::to_string(a.to) + " elements");
    std::vector<int64_t> places;
    for (int64_t k = 0; k < a.to; ++k)
      places.push_back(std::clamp<int64_t>(nearestTo(coordinate<float>(r, a, k), r.nearest), 0, a.from - 1));
    return elementsAt(c, x, axis, places);
  }
  const bool sums = isWeighed(r, x, axis, a);
  if ((sums ? 4 : a.from) * a.to > kMostWeights)
    c.unsupported("a matrix of " + std::to_string(sums ? 4 : a.from) + " x " + std::to_string(a.to) + " weights");
  std::vector<Taps> taps;
  for (int64_t k = 0; k < a.to; ++k) taps.push_back(tapsOf(r, a, k));
  if (sums) return weighed(c, taps, x, axis);
  std::vector<double> weights(static_cast<size_t>(a.from * a.to), 0);
  for (int64_t k = 0; k < a.to; ++k)
    for (const auto &[at, w] : taps[static_cast<size_t>(k)]) weights[static_cast<size_t>(at * a.to + k)] += w;
  const Term y = c.toLast(x, axis);
  const Term product =
      c.op(y->rank() == 2 ? "matmul" : "broadcast_matmul", {y, c.constant(x->type(), Shape({a.from, a.to}), weights)});
  return c.fromLast(product, axis);
}

Term resized(Conversion &c, const Resampling &r, const std::vector<int64_t> &axes, const std::vector<Axis> &sizes) {
  const Term given = c.in(0);
  if (r.mode != "nearest" && r.mode != "linear" && r.mode != "cubic") c.invalid("attribute 'mode' is '" + r.mode + "'");
  const bool isReal = given->isFloating() || r.mode == "nearest";
  Term x = isReal ? given : c.cast(given, kFloat);
  if (x->rank() == 1 && r.mode != "nearest") x = c.reshape(x, {1, x->dim(0)});
  const int64_t shift = x->rank() - given->rank();
  std::vector<size_t> order;
  // An axis may have the length that it had, and a scale; an image with all its lengths is the same.
  const bool isSame = std::all_of(sizes.begin(), sizes.end(), [](const Axis &a) { return a.from == a.to; });
  for (size_t k = 0; k < axes.size(); ++k)
    if ((!isSame && sizes[k].scale != 1) || r.coordinates == "tf_crop_and_resize") order.push_back(k);
  // What shortens most comes first: the others have less to do. Along the last axis elements move one by one.
  const auto cost = [&](size_t k) {
    const bool isLast = axes[k] + 1 == given->rank();
    return static_cast<double>(sizes[k].to) / static_cast<double>(sizes[k].from) * (isLast ? 4 : 1);
  };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return cost(a) < cost(b); });
  for (size_t k : order) x = resampled(c, r, x, axes[k] + shift, sizes[k]);
  if (r.coordinates == "tf_crop_and_resize")
    for (size_t k = 0; k < axes.size(); ++k) {
      std::vector<double> outside;
      for (int64_t j = 0; j < sizes[k].to; ++j) {
        const double at = coordinate<double>(r, sizes[k], j);
        outside.push_back(at < 0 || at > static_cast<double>(sizes[k].from - 1) ? 1 : 0);
      }
      if (std::count(outside.begin(), outside.end(), 1.0) == 0) continue;
      DimVector dims(static_cast<size_t>(x->rank()), 1);
      dims[static_cast<size_t>(axes[k] + shift)] = sizes[k].to;
      x = c.op("where", {c.constant(kBool, Shape(dims), outside), like(c, x, r.extrapolated), x});
    }
  if (shift) x = c.reshape(x, {x->dim(1)});
  if (!isReal) x = c.cast(c.op("rint", {x}), given->type());
  return x == given ? c.op("identity", {x}) : x;
}

/// Scales are numbers of f32, and so is the product that is rounded down: 10 elements times 0.7 are 7.
Axis scaledBy(const Conversion &c, int64_t from, double scale) {
  const double to = std::floor(static_cast<float>(from) * static_cast<float>(scale));
  if (!(scale > 0) || to > 1e9) c.invalid("a scale of " + std::to_string(scale));
  return {from, static_cast<int64_t>(to), scale, scale * static_cast<double>(from)};
}

void convertResize(Conversion &c) {
  const Term x = c.in(0);
  Resampling r;
  r.mode = c.s("mode", "nearest");
  std::vector<int64_t> axes = c.version >= 18 ? c.ints("axes", {}) : std::vector<int64_t>();
  if (axes.empty())
    for (int64_t k = 0; k < x->rank(); ++k) axes.push_back(k);
  c.checkAxes(axes, x->rank());
  for (int64_t &a : axes) a = c.axisOf(a, x->rank());
  if (c.version < 11) {
    r.coordinates = "asymmetric", r.nearest = "floor";
  } else {
    r.coordinates = c.s("coordinate_transformation_mode", "half_pixel");
    r.nearest = c.s("nearest_mode", "round_prefer_floor");
    r.cubic = c.f("cubic_coeff_a", -0.75), r.extrapolated = c.f("extrapolation_value", 0);
    r.excludesOutside = c.flag("exclude_outside", false), r.isAntialiased = c.flag("antialias", false);
  }
  const size_t scalesAt = c.version < 11 ? 1 : 2;
  const bool hasScales = c.has(scalesAt) && c.in(scalesAt)->shape().elem_cnt() > 0;
  if (hasScales && c.has(3) && c.in(3)->shape().elem_cnt() > 0)
    c.invalid(c.inputText(2) + " has scales and " + c.inputText(3) + " has sizes: one of them is wanted");
  std::vector<Axis> sizes;
  if (hasScales) {
    const auto scales = c.knownFloats(scalesAt);
    if (scales.size() != axes.size())
      c.invalid(std::to_string(scales.size()) + " scales for " + std::to_string(axes.size()) + " axes");
    for (size_t k = 0; k < axes.size(); ++k) sizes.push_back(scaledBy(c, x->dim(axes[k]), scales[k]));
  } else {
    if (!c.has(3)) c.invalid("neither scales nor sizes are given");
    auto to = c.knownInts(3);
    if (to.size() != axes.size())
      c.invalid(std::to_string(to.size()) + " sizes for " + std::to_string(axes.size()) + " axes");
    const std::string policy = c.s("keep_aspect_ratio_policy", "stretch");
    double common = 0;
    for (size_t k = 0; k < axes.size(); ++k) {
      if (to[k] < 1 || x->dim(axes[k]) < 1)
        c.invalid("a size of " + std::to_string(to[k]) + " from " + std::to_string(x->dim(axes[k])));
      const double scale = static_cast<double>(to[k]) / static_cast<double>(x->dim(axes[k]));
      common = k == 0 ? scale : policy == "not_larger" ? std::min(common, scale) : std::max(common, scale);
    }
    for (size_t k = 0; k < axes.size(); ++k) {
      const int64_t from = x->dim(axes[k]);
      const bool isStretched = policy == "stretch";
      const auto length = isStretched ? static_cast<double>(to[k]) : common * static_cast<double>(from);
      if (!isStretched) to[k] = static_cast<int64_t>(std::floor(length + 0.5));
      sizes.push_back({from, to[k], isStretched ? length / static_cast<double>(from) : common, length});
    }
  }
  if (r.coordinates == "tf_crop_and_resize") {
    const auto region = c.knownFloats(1);
    if (region.size() != 2 * axes.size())
      c.invalid("a region of " + std::to_string(region.size()) + " numbers for " + std::to_string(axes.size()) +
                " axes");
    for (size_t k = 0; k < axes.size(); ++k) sizes[k].begin = region[k], sizes[k].end = region[k + axes.size()];
  }
  c.out(resized(c, r, axes, sizes));
}

void convertUpsample(Conversion &c) {
  const Term x = c.in(0);
  Resampling r;
  r.mode = c.s("mode", "nearest"), r.coordinates = "asymmetric", r.nearest = "floor";
  std::vector<double> scales;
  if (c.version < 7) { // of images alone
    for (const char *name : {"height_scale", "width_scale"})
      if (!c.hasAttr(name)) c.invalid(std::string("attribute '") + name + "' is missing");
    scales = {1, 1, c.f("height_scale", 1), c.f("width_scale", 1)};
    if (r.mode == "bilinear") r.mode = "linear";
  } else {
    scales = c.version < 9 ? c.floats("scales") : c.knownFloats(1);
  }
  if (scales.size() != static_cast<size_t>(x->rank()))
    c.invalid(std::to_string(scales.size()) + " scales for " + std::to_string(x->rank()) + " axes");
  std::vector<int64_t> axes;
  std::vector<Axis> sizes;
  for (int64_t k = 0; k < x->rank(); ++k)
    axes.push_back(k), sizes.push_back(scaledBy(c, x->dim(k), scales[static_cast<size_t>(k)]));
  c.out(resized(c, r, axes, sizes));
}

/// Coordinates that lead out of an image mirrored at its borders, which are `low` and `high`.
Term reflected(Conversion &c, const Term &at, double low, double high) {
  if (high <= low) return c.op("broadcast_mul", {at, like(c, at, 0)});
  const Term beyond = c.op("abs", {c.plus(at, -low)});
  const Term turn = c.op("broadcast_floor_mod", {beyond, like(c, beyond, 2 * (high - low))});
  const Term back = c.plus(c.scaled(turn, -1), 2 * (high - low));
  return c.plus(c.op("broadcast_minimum", {turn, back}), low);
}

/// Samples of volumes [n, channels, depth, height, width]: of each of the points around, its value by how near it is.
Term sampledVolumes(Conversion &c, const Term &x, const Term &grid, const std::string &mode, const std::string &padding,
                    bool isAligned) {
  if (mode == "bicubic") c.unsupported("cubic samples of volumes");
  if (grid->rank() != 5 || grid->dim(0) != x->dim(0) || grid->dim(4) != 3)
    c.invalid("a grid [" + std::to_string(x->dim(0)) + ", depth, height, width, 3] is wanted, not " +
              grid->shape().ToString());
  const int64_t n = x->dim(0), channels = x->dim(1), points = grid->shape().Count(1, 4);
  const Term flat = c.reshape(x, {n, channels, x->shape().Count(2)});
  std::vector<Term> first, share; // by axis of the volume: the point below, and how far beyond it the sample lies
  for (int64_t axis = 0; axis < 3; ++axis) {
    const auto size = static_cast<double>(x->dim(axis + 2));
    Term at = c.reshape(c.slice(grid, 4, 2 - axis, 3 - axis), {n, 1, points});
    at = isAligned ? c.scaled(c.plus(at, 1), (size - 1) / 2) : c.plus(c.scaled(c.plus(at, 1), size / 2), -0.5);
    if (padding == "reflection") at = isAligned ? reflected(c, at, 0, size - 1) : reflected(c, at, -0.5, size - 0.5);
    if (padding != "zeros")
      at = c.op("broadcast_minimum", {c.op("broadcast_maximum", {at, like(c, at, 0)}), like(c, at, size - 1)});
    first.push_back(c.op(mode == "nearest" ? "rint" : "floor", {at}));
    share.push_back(c.op("broadcast_sub", {at, first.back()}));
  }
  Term sum;
  for (int corner = 0; corner < (mode == "nearest" ? 1 : 8); ++corner) {
    Term weight, place;
    for (int64_t axis = 0; axis < 3; ++axis) {
      const auto k = static_cast<size_t>(axis);
      const bool isBehind = corner >> axis & 1;
      const double last = static_cast<double>(x->dim(axis + 2)) - 1;
      const Term at = c.plus(first[k], isBehind ? 1 : 0);
      const Term isInside = c.op("broadcast_logical_and", {c.op("broadcast_greater_equal", {at, like(c, at, 0)}),
                                                           c.op("broadcast_less_equal", {at, like(c, at, last)})});
      Term part = c.cast(isInside, x->type());
      if (mode != "nearest")
        part = c.op("broadcast_mul", {part, isBehind ? share[k] : c.plus(c.scaled(share[k], -1), 1)});
      weight = weight ? c.op("broadcast_mul", {weight, part}) : part;
      const Term whole = c.cast(c.op("where", {isInside, at, like(c, at, 0)}), kInt64);
      place = place ? c.op("broadcast_add", {c.op("broadcast_mul", {place, like(c, whole, last + 1)}), whole}) : whole;
    }
    const Term value = c.op("dim_gather", {flat, c.expand(place, Shape({n, channels, points}))}, {{"dim", int64_t{2}}});
    const Term own = c.op("broadcast_mul", {value, weight});
    sum = sum ? c.op("broadcast_add", {sum, own}) : own;
  }
  return c.reshape(sum, {n, channels, grid->dim(1), grid->dim(2), grid->dim(3)});
}

void convertGridSample(Conversion &c) {
  const std::string mode = c.s("mode", c.version < 20 ? "bilinear" : "linear");
  const std::string of = mode == "linear" ? "bilinear" : mode == "cubic" ? "bicubic" : mode;
  const std::string padding = c.s("padding_mode", "zeros");
  const bool isAligned = c.flag("align_corners", false);
  const DataType type = c.in(0)->type(), ofGrid = c.in(1)->type();
  if (c.in(0)->rank() != 4 && c.in(0)->rank() != 5)
    c.unsupported("images of " + std::to_string(c.in(0)->rank() - 2) + " dimensions: opc samples 2 and 3");
  // The grid may have another type: the samples are computed in one that has both.
  const bool areTwo = type != ofGrid && c.in(0)->isFloating() && c.in(1)->isFloating();
  const DataType in = !areTwo ? type : type == kDouble || ofGrid == kDouble ? kDouble : kFloat;
  const Term x = c.cast(c.in(0), in), grid = areTwo ? c.cast(c.in(1), in) : c.in(1);
  const Term y = x->rank() == 5
                     ? sampledVolumes(c, x, grid, of, padding, isAligned)
                     : c.op("grid_sample", {x, grid},
                            {{"interpolation_mode", of}, {"padding_mode", padding}, {"align_corners", isAligned}});
  c.out(c.cast(y, type));
}

} // namespace

void addResizing(ConverterTable *t) {
  t->add("Resize", convertResize,
         "gather, slice, broadcast_mul; matmul with a constant for linear and cubic of few elements or with antialias",
         "scales and sizes of the run");
  t->add("Upsample", convertUpsample, "as Resize", "scales of the run");
  t->add("GridSample", convertGridSample, "grid_sample; of volumes floor, dim_gather, broadcast_mul",
         "other than 2 and 3 dimensions, cubic samples of volumes");
  t->add(
      "AffineGrid",
      [](Conversion &c) {
        c.out(c.op("affine_grid", {c.in(0)},
                   {{"size", Shape(c.knownInts(1))}, {"align_corners", c.flag("align_corners", false)}}));
      },
      "affine_grid", "a size of the run");
}

} // namespace opc::onnx
