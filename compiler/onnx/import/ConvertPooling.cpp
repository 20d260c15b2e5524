// ONNX's poolings.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxConverters.h"
#include "OnnxWindows.h"

#include <algorithm>
#include <numeric>

namespace opc::onnx {
namespace {

Attrs poolAttrs(const Windows &w) {
  Attrs attrs = dataFormat();
  attrs.insert({{"padding", w.before},
                {"padding_after", w.after},
                {"kernel_size", w.kernel},
                {"stride", w.strides},
                {"ceil_mode", w.ceils}});
  return attrs;
}

std::string pool(const char *kind, const Conversion &c, const Windows &w) {
  if (w.dims() > 3) c.unsupported(std::to_string(w.dims()) + " spatial dimensions: opc pools up to 3");
  return std::string(kind) + "_pool_" + std::to_string(w.dims()) + "d";
}

/// opc pads windows by half their size at most: what is beyond is padded before.
Term spread(Conversion &c, const Term &x, Windows *w, double filling) {
  std::vector<int64_t> first(static_cast<size_t>(x->rank()), 0), last = first;
  bool isWide = false;
  for (size_t k = 0; k < w->dims(); ++k) isWide |= std::max(w->before[k], w->after[k]) > w->kernel[k] / 2;
  if (!isWide) return x;
  for (size_t k = 0; k < w->dims(); ++k) {
    first[k + 2] = w->before[k], last[k + 2] = w->after[k];
    const int64_t size = x->dim(static_cast<int64_t>(k) + 2), count = windowCount(*w, k, size);
    const int64_t covered = (count - 1) * w->strides[k] + (w->kernel[k] - 1) * w->dilations[k] + 1;
    last[k + 2] = std::max(last[k + 2], covered - size - first[k + 2]);
    w->before[k] = w->after[k] = 0;
  }
  w->ceils = false;
  return padded(c, x, first, last, "constant", c.scalar(x->type(), filling));
}

/// Indices of a plane of `from` that has `before` elements more in front, as those of the images' own plane, with the
/// first or the last dimension counted fastest.
Term inPlane(Conversion &c, const Term &indices, const Term &from, const std::vector<int64_t> &before,
             const Term &images, bool isColumnsFirst) {
  const auto number = [&](int64_t n) {
    return c.constant({n}, Shape(DimVector(static_cast<size_t>(images->rank()), 1)));
  };
  Term rest = indices, made;
  int64_t columns = images->shape().Count(2), rows = 1;
  for (int64_t k = images->rank() - 1; k >= 2; --k) {
    const int64_t size = images->dim(k), shift = before[static_cast<size_t>(k - 2)];
    columns /= size;
    const Term whole = c.op("broadcast_div", {rest, number(from->dim(k))});
    Term at = c.op("broadcast_sub", {rest, c.op("broadcast_mul", {whole, number(from->dim(k))})});
    if (shift) at = c.op("broadcast_sub", {at, number(shift)});
    const Term step = c.op("broadcast_mul", {at, number(isColumnsFirst ? columns : rows)});
    made = made ? c.op("broadcast_add", {made, step}) : step;
    rest = whole;
    rows *= size;
  }
  return made;
}

/// The indices of a max pooling of `pooled`, the images with `before` elements more in front: within an image by opc,
/// within the whole tensor by ONNX.
Term wholeIndices(Conversion &c, const Term &indices, const Term &pooled, const std::vector<int64_t> &before,
                  const Term &images) {
  const int64_t plane = images->shape().Count(2), count = images->dim(0) * images->dim(1);
  if (plane == 0 && indices->shape().elem_cnt() > 0)
    c.invalid("windows of pads alone, whose largest elements have no places: images of " + images->shape().ToString());
  DimVector dims(static_cast<size_t>(images->rank()), 1);
  dims[0] = images->dim(0), dims[1] = images->dim(1);
  std::vector<int64_t> begins;
  for (int64_t k = 0; k < count; ++k) begins.push_back(k * plane);
  Term own = c.cast(indices, kInt64);
  const bool isColumnsFirst = c.flag("storage_order", false), isShifted = pooled->shape() != images->shape();
  if ((isColumnsFirst || isShifted) && own->shape().elem_cnt() > 0)
    own = inPlane(c, own, pooled, before, images, isColumnsFirst);
  return c.op("broadcast_add", {own, c.constant(begins, Shape(dims))});
}

void convertMaxPool(Conversion &c) {
  const Term x = c.in(0);
  Windows w = windowsOf(c, x, {});
  const std::string op = pool("max", c, w);
  const bool isNarrow = !x->isFloating() && x->type() != kInt32;
  Term y = isNarrow ? c.cast(x, kInt32) : x;
  std::vector<int64_t> before = w.before;
  y = spread(c, y, &w, y->isFloating() ? elementType(y->type()).lowest : -2147483648.0);
  for (size_t k = 0; k < w.dims(); ++k) before[k] -= w.before[k]; // what was padded
  Attrs attrs = poolAttrs(w);
  attrs.insert({{"dilation", w.dilations}, {"return_indices", c.wants(1)}});
  const auto made = c.ops(
      op, {y}, attrs, c.wants(1) ? std::map<std::string, int32_t>{{"indice", 1}} : std::map<std::string, int32_t>{});
  c.out(0, isNarrow ? c.cast(made[0], x->type()) : made[0]);
  if (c.wants(1)) c.out(1, wholeIndices(c, made.back(), y, before, x));
}

/// The sums over dilated windows: a convolution with ones. `filling`: what the pads hold.
Term dilatedSums(Conversion &c, const Term &x, const Windows &w, double filling) {
  std::vector<int64_t> pads(2, 0), ends(2, 0), more(2, 0);
  for (size_t k = 0; k < w.dims(); ++k) {
    const int64_t size = x->dim(static_cast<int64_t>(k) + 2), count = windowCount(w, k, size);
    if (count < 1) c.invalid("a window is larger than its images");
    const int64_t covered = (count - 1) * w.strides[k] + (w.kernel[k] - 1) * w.dilations[k] + 1;
    pads.push_back(w.before[k]), ends.push_back(w.after[k]);
    // Behind the pads a last window may have more, which counts as nothing; or less is needed.
    more.push_back(covered - size - w.before[k] - w.after[k]);
  }
  const std::vector<int64_t> none(pads.size(), 0);
  Term y = padded(c, x, pads, ends, "constant", c.scalar(x->type(), filling));
  y = padded(c, y, none, more, "constant", c.scalar(x->type(), 0));
  DimVector images = y->shape().dim_vec(), ones(images.size(), 1);
  images[0] *= images[1], images[1] = 1;
  std::copy(w.kernel.begin(), w.kernel.end(), ones.begin() + 2);
  Attrs attrs = dataFormat();
  attrs.insert({{"filters", int64_t{1}},
                {"padding_before", std::vector<int64_t>(w.dims(), 0)},
                {"kernel_size", w.kernel},
                {"strides", w.strides},
                {"dilation_rate", w.dilations},
                {"groups", int64_t{1}}});
  const Term weight = c.expand(c.scalar(x->type(), 1), Shape(ones));
  y = c.op("conv" + std::to_string(w.dims()) + "d", {c.reshape(y, images), weight}, attrs);
  DimVector made = y->shape().dim_vec();
  made[0] = x->dim(0), made[1] = x->dim(1);
  return c.reshape(y, made);
}

Term averaged(Conversion &c, const Term &x, Windows w, bool countsPads, int64_t divisor) {
  if (std::any_of(w.dilations.begin(), w.dilations.end(), [](int64_t d) { return d != 1; })) {
    pool("avg", c, w);
    Term sums = dilatedSums(c, x, w, 0);
    if (divisor == 1) return sums;
    DimVector dims = x->shape().dim_vec();
    dims[0] = dims[1] = 1;
    const Term ones = c.expand(c.scalar(x->type(), 1), Shape(dims));
    return c.op("broadcast_div", {sums, dilatedSums(c, ones, w, countsPads ? 1 : 0)});
  }
  bool isWide = false;
  for (size_t k = 0; k < w.dims(); ++k) isWide |= std::max(w.before[k], w.after[k]) > w.kernel[k] / 2;
  const std::string op = pool("avg", c, w);
  if (isWide && divisor == 0 && (!countsPads || w.ceils)) { // each sum by the number of elements in its window
    const Term sum = averaged(c, x, w, true, 1);
    DimVector dims = x->shape().dim_vec();
    dims[0] = dims[1] = 1;
    const Term ones = c.expand(c.scalar(x->type(), 1), Shape(dims));
    // A last window ends with the pads: what it has beyond them does not count.
    return c.op("broadcast_div", {sum, countsPads ? dilatedSums(c, ones, w, 1) : averaged(c, ones, w, true, 1)});
  }
  const Term y = isWide ? spread(c, x, &w, 0) : x;
  Attrs attrs = poolAttrs(w);
  attrs.insert({{"count_include_pad", countsPads}, {"divisor_override", divisor}});
  return c.op(op, {y}, attrs);
}

void convertAveragePool(Conversion &c) {
  c.out(averaged(c, c.in(0), windowsOf(c, c.in(0), {}), c.flag("count_include_pad", false), 0));
}

double powerOf(const Conversion &c) {
  const double p = c.version < 2 ? c.f("p", 2) : static_cast<double>(c.i("p", 2));
  if (!(p >= 1)) c.invalid("attribute 'p' is " + std::to_string(p) + ", and must be at least 1");
  return p;
}

void convertLpPool(Conversion &c) {
  const Term x = c.in(0);
  const double p = powerOf(c);
  const Term powers = power(c, c.op("abs", {x}), like(c, x, p));
  c.out(power(c, averaged(c, powers, windowsOf(c, x, {}), true, 1), like(c, x, 1 / p)));
}

std::vector<int64_t> spatial(const Term &x) {
  std::vector<int64_t> axes(static_cast<size_t>(std::max<int64_t>(x->rank() - 2, 0)));
  std::iota(axes.begin(), axes.end(), 2);
  return axes;
}

void convertGlobalLp(Conversion &c) {
  const Term x = c.in(0);
  const double p = powerOf(c);
  const Term sum = reduced(c, "reduce_sum", power(c, c.op("abs", {x}), like(c, x, p)), spatial(x), true);
  c.out(power(c, sum, like(c, x, 1 / p)));
}

/// The values go where the indices, over the whole tensor that the pooling had, say.
void convertMaxUnpool(Conversion &c) {
  const Term x = c.in(0), indices = c.in(1);
  c.checkShape(1, x->shape(), "the values");
  const Windows w = windowsOf(c, x, {});
  DimVector from = x->shape().dim_vec();
  for (size_t k = 0; k < w.dims(); ++k)
    from[k + 2] = (from[k + 2] - 1) * w.strides[k] + w.kernel[k] - w.before[k] - w.after[k];
  for (int64_t d : from)
    if (d < 0) c.invalid("a result of " + Shape(from).ToString());
  // Windows that overlap have one element twice: it is put, and not added.
  const int64_t count = x->shape().elem_cnt();
  const Term none = c.expand(c.scalar(x->type(), 0), Shape({Shape(from).elem_cnt()}));
  const Term flat = c.op("tensor_scatter_nd_update", {none, c.reshape(x, {count}), c.reshape(indices, {count, 1})});
  const Term y = c.reshape(flat, from);
  if (!c.has(2)) return c.out(y);
  // Indices are within the size that follows from the windows; a larger result has zeros behind.
  const auto to = c.knownInts(2);
  if (to.size() != from.size()) c.invalid("a result of " + std::to_string(to.size()) + " dimensions");
  std::vector<int64_t> after;
  for (size_t k = 0; k < to.size(); ++k) {
    if (to[k] < from[k])
      c.invalid("a result of " + Shape(to).ToString() + ", and the windows cover " + Shape(from).ToString());
    after.push_back(to[k] - from[k]);
  }
  c.out(padded(c, y, std::vector<int64_t>(to.size(), 0), after, "constant", nullptr));
}

} // namespace

void addPooling(ConverterTable *t) {
  t->add("MaxPool", convertMaxPool, "max_pool_1d, max_pool_2d, max_pool_3d, pad", "more than 3 spatial dimensions");
  t->add("AveragePool", convertAveragePool,
         "avg_pool_1d, avg_pool_2d, avg_pool_3d, pad; conv1d, conv2d, conv3d of dilated windows, or to count wide pads",
         "more than 3 spatial dimensions");
  t->add("LpPool", convertLpPool, "abs, square, broadcast_mul, broadcast_pow, avg_pool_1d, avg_pool_2d, avg_pool_3d",
         "as AveragePool");
  t->add(
      "GlobalAveragePool", [](Conversion &c) { c.out(reduced(c, "reduce_mean", c.in(0), spatial(c.in(0)), true)); },
      "reduce_mean");
  t->add(
      "GlobalMaxPool", [](Conversion &c) { c.out(reduced(c, "reduce_max", c.in(0), spatial(c.in(0)), true)); },
      "reduce_max");
  t->add("GlobalLpPool", convertGlobalLp, "abs, square, broadcast_mul, broadcast_pow, reduce_sum");
  t->add("MaxUnpool", convertMaxUnpool, "tensor_scatter_nd_update");
}

} // namespace opc::onnx
