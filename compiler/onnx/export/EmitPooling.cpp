// Poolings and their gradients as ONNX.
// SPDX-License-Identifier: Apache-2.0
#include "EmitWindows.h"
#include "OnnxEmitters.h"

#include <algorithm>

namespace opc::onnx_export {

Wire mapped(Emission &e, const Wire &x, int64_t axis, const std::vector<double> &matrix, int64_t to) {
  std::vector<int64_t> perm, back(static_cast<size_t>(x.rank()));
  for (int64_t k = 0; k < x.rank(); ++k)
    if (k != axis) perm.push_back(k);
  perm.push_back(axis);
  for (size_t k = 0; k < perm.size(); ++k) back[static_cast<size_t>(perm[k])] = static_cast<int64_t>(k);
  const Wire weights = e.constant(x.type, Shape({x.dim(axis), to}), matrix);
  const Wire last = e.transpose(x, perm);
  return e.transpose(last.rank() == 1 ? e.reshape(e.matmul(e.reshape(last, {1, last.dim(0)}), weights), {to})
                                      : e.matmul(last, weights),
                     back);
}

namespace {

struct Pool {
  std::vector<int64_t> kernel, strides, before, after, dilations;
  bool ceils;
  Shape images, windows; // channels first
  size_t dims() const { return kernel.size(); }
  int64_t size(size_t k) const { return images.At(static_cast<int64_t>(k) + 2); }
  int64_t count(size_t k) const { return windows.At(static_cast<int64_t>(k) + 2); }
};

Pool poolOf(Emission &e, const Wire &images, const Wire &windows, bool dilates) {
  Pool p;
  p.kernel = e.ints("kernel_size");
  p.strides = e.ints("stride");
  if (p.strides.empty()) p.strides = p.kernel;
  p.before = listOf(e, "padding", p.dims(), 0);
  p.after = e.ints("padding_after");
  if (p.after.empty()) p.after = p.before;
  p.dilations = dilates ? listOf(e, "dilation", p.dims(), 1) : std::vector<int64_t>(p.dims(), 1);
  p.ceils = e.b("ceil_mode");
  p.images = images.shape;
  p.windows = windows.shape;
  return p;
}

NodeAttrs attrsOf(const Pool &p) {
  std::vector<int64_t> pads = p.before;
  pads.insert(pads.end(), p.after.begin(), p.after.end());
  return {{"kernel_shape", p.kernel}, {"strides", p.strides}, {"pads", pads}, {"ceil_mode", p.ceils}};
}

int64_t planeOf(const Shape &images) { return images.Count(2); }

/// The largest elements, and where they are within their image.
std::vector<Wire> maxPooled(Emission &e, const Wire &x, const Pool &p, bool wantsPlaces) {
  NodeAttrs attrs = attrsOf(p);
  attrs.insert({"dilations", p.dilations});
  auto made =
      e.nodes("MaxPool", {x}, attrs, {{x.type, p.windows}, {wantsPlaces ? kInt64 : kInvalidDataType, p.windows}});
  if (!wantsPlaces) return made;
  // ONNX counts through the whole tensor.
  made[1] = e.node("Mod", {made[1], e.integers({planeOf(p.images)}, Shape())}, {}, kInt64, p.windows);
  return made;
}

Wire shaped(const Shape &shape, bool isLast) { // its shape with channels first
  Wire w;
  w.shape = shape;
  if (!isLast) return w;
  w.shape.Set(1, shape.At(shape.NumAxes() - 1));
  for (int64_t k = 2; k < shape.NumAxes(); ++k) w.shape.Set(k, shape.At(k - 1));
  return w;
}

void convertMaxPool(Emission &e) {
  const bool isLast = isChannelsLast(e);
  Wire x = channelsFirst(e, e.in("x"), isLast);
  if (x.type == kInt32) x = e.cast(x, kDouble); // exact, and no runtime has whole numbers
  const Pool p = poolOf(e, x, shaped(e.madeFirst().shape(), isLast), true);
  const auto made = maxPooled(e, x, p, e.wants("indice"));
  if (e.wants("indice")) e.out("indice", channelsBack(e, made[1], isLast));
  e.out("y", channelsBack(e, made[0], isLast));
}

/// Each window's gradient goes to the place of its largest element.
void convertMaxPoolGrad(Emission &e) {
  const bool isLast = isChannelsLast(e);
  const Wire x = channelsFirst(e, e.in("x"), isLast), dy = channelsFirst(e, e.in("dy"), isLast);
  const Pool p = poolOf(e, x, dy, true);
  const Wire places = e.has("indice") ? channelsFirst(e, e.indices("indice"), isLast) : maxPooled(e, x, p, true)[1];
  const Shape flat({dy.dim(0), dy.dim(1), planeOf(dy.shape)}), whole({x.dim(0), x.dim(1), planeOf(x.shape)});
  const Wire sums =
      e.node("ScatterElements", {e.filled(dy.type, whole, 0), e.reshape(places, flat), e.reshape(dy, flat)},
             {{"axis", 2}, {"reduction", "add"}}, dy.type, whole);
  e.out(channelsBack(e, e.reshape(sums, x.shape), isLast));
}

/// What the sum of each window is multiplied by: one over its elements, or those that count.
Wire shares(Emission &e, const Pool &p, DataType type) {
  const int64_t divisor = e.i("divisor_override");
  const bool countsPads = e.b("count_include_pad");
  std::vector<double> all = {1};
  std::vector<int64_t> dims = {1, 1};
  for (size_t k = 0; k < p.dims(); ++k) {
    std::vector<double> more;
    for (const double a : all)
      for (int64_t o = 0; o < p.count(k); ++o) {
        const int64_t begin = o * p.strides[k] - p.before[k];
        const int64_t end = std::min(begin + p.kernel[k], p.size(k) + (countsPads ? p.after[k] : 0));
        more.push_back(a / static_cast<double>(end - (countsPads ? begin : std::max<int64_t>(begin, 0))));
      }
    all = std::move(more);
    dims.push_back(p.count(k));
  }
  if (divisor) std::fill(all.begin(), all.end(), 1.0 / static_cast<double>(divisor));
  return e.constant(type, Shape(dims.data(), static_cast<int64_t>(dims.size())), all);
}

/// Sums of windows as a convolution with ones, every image by itself.
struct Sums {
  Shape images, windows;
  NodeAttrs attrs;
  Wire ones;
};
Sums sumsOf(Emission &e, const Pool &p, DataType type) {
  const int64_t count = p.images.At(0) * p.images.At(1);
  Sums s{p.images, p.windows, {}, {}};
  for (Shape *shape : {&s.images, &s.windows}) shape->Set(0, count), shape->Set(1, 1);
  std::vector<int64_t> pads = p.before, kernel = {1, 1};
  for (size_t k = 0; k < p.dims(); ++k)
    pads.push_back((p.count(k) - 1) * p.strides[k] + p.kernel[k] - p.size(k) - p.before[k]);
  kernel.insert(kernel.end(), p.kernel.begin(), p.kernel.end());
  const Shape filter(kernel.data(), static_cast<int64_t>(kernel.size()));
  s.ones = e.constant(type, filter, std::vector<double>(static_cast<size_t>(filter.elem_cnt()), 1));
  s.attrs = {{"kernel_shape", p.kernel}, {"strides", p.strides}, {"pads", pads}};
  return s;
}

/// Behind the last window there may be elements that none reaches: they are cut off for it, or get nothing.
Pool reached(const Pool &p) {
  Pool q = p;
  for (size_t k = 0; k < p.dims(); ++k)
    q.images.Set(static_cast<int64_t>(k) + 2,
                 std::min(p.size(k), (p.count(k) - 1) * p.strides[k] + p.kernel[k] - p.before[k]));
  return q;
}

void convertAvgPool(Emission &e) {
  const bool isLast = isChannelsLast(e);
  Wire x = channelsFirst(e, e.in("x"), isLast);
  const Pool p = poolOf(e, x, shaped(e.madeFirst().shape(), isLast), false);
  if (!p.ceils && e.i("divisor_override") == 0) {
    NodeAttrs attrs = attrsOf(p);
    attrs.insert({"count_include_pad", e.b("count_include_pad")});
    return e.out(channelsBack(e, e.node("AveragePool", {x}, attrs, x.type, p.windows), isLast));
  }
  const Pool q = reached(p);
  for (size_t k = 0; k < p.dims(); ++k) x = e.slice(x, static_cast<int64_t>(k) + 2, 0, q.size(k));
  const Sums s = sumsOf(e, q, x.type);
  const Wire sums = e.node("Conv", {e.reshape(x, s.images), s.ones}, s.attrs, x.type, s.windows);
  e.out(channelsBack(e, e.mul(e.reshape(sums, p.windows), shares(e, p, x.type)), isLast));
}

void convertAvgPoolGrad(Emission &e) {
  const bool isLast = isChannelsLast(e);
  const Wire dy = channelsFirst(e, e.in("dy"), isLast);
  const Pool p = poolOf(e, shaped(e.madeFirst().shape(), isLast), dy, false), q = reached(p);
  const Sums s = sumsOf(e, q, dy.type);
  const Wire parts = e.reshape(e.mul(dy, shares(e, p, dy.type)), s.windows);
  const Wire dx = e.reshape(e.node("ConvTranspose", {parts, s.ones}, s.attrs, dy.type, s.images), q.images);
  std::vector<int64_t> before(p.dims() + 2, 0), after = before;
  for (size_t k = 0; k < p.dims(); ++k) after[k + 2] = p.size(k) - q.size(k);
  e.out(channelsBack(e, e.padded(dx, before, after), isLast));
}

/// Means of bins: rows are elements, columns bins.
std::vector<double> bins(int64_t size, int64_t count, bool transposed) {
  std::vector<double> matrix(static_cast<size_t>(size * count), 0);
  for (int64_t o = 0; o < count; ++o) {
    const int64_t begin = o * size / count, end = ((o + 1) * size + count - 1) / count;
    for (int64_t i = begin; i < end; ++i)
      matrix[static_cast<size_t>(transposed ? o * size + i : i * count + o)] = 1 / static_cast<double>(end - begin);
  }
  return matrix;
}

void convertAdaptive(Emission &e, bool isGrad) {
  const bool isLast = isChannelsLast(e);
  Wire x = channelsFirst(e, e.in(isGrad ? "dy" : "x"), isLast);
  const Shape to = shaped(e.madeFirst().shape(), isLast).shape;
  for (int64_t axis = 2; axis < x.rank(); ++axis) {
    const int64_t size = x.dim(axis), made = to.At(axis);
    x = mapped(e, x, axis, isGrad ? bins(made, size, true) : bins(size, made, false), made);
  }
  e.out(channelsBack(e, x, isLast));
}

void convertRoiAlign(Emission &e) {
  NodeAttrs attributes;
  for (const char *name : {"output_height", "output_width", "sampling_ratio"}) attributes.emplace(name, e.i(name));
  for (const char *name : {"mode", "coordinate_transformation_mode"}) attributes.emplace(name, e.s(name).c_str());
  attributes.emplace("spatial_scale", e.f("spatial_scale"));
  const Wire x = e.in("x");
  e.out(e.node("RoiAlign", {x, e.in("rois"), e.indices("batch_indices")}, attributes, x.type, e.madeFirst().shape()));
}

} // namespace

void addPooling(EmitterTable *t) {
  for (const std::string d : {"1", "2", "3"}) {
    t->add("max_pool_" + d + "d", Types::kWide, convertMaxPool, "MaxPool, Transpose");
    t->add("max_pool_" + d + "d_grad", Types::kWide, convertMaxPoolGrad, "MaxPool, ScatterElements");
    t->add("avg_pool_" + d + "d", Types::kWide, convertAvgPool, "AveragePool, or Conv with ones");
    t->add("avg_pool_" + d + "d_grad", Types::kWide, convertAvgPoolGrad, "ConvTranspose with ones");
    t->add(
        "adaptive_avg_pool" + d + "d", Types::kWide, [](Emission &e) { convertAdaptive(e, false); },
        "MatMul with a constant");
    t->add(
        "adaptive_avg_pool" + d + "d_grad", Types::kWide, [](Emission &e) { convertAdaptive(e, true); },
        "MatMul with a constant");
  }
  t->add("roi_align", Types::kWide, convertRoiAlign, "RoiAlign");
  t->isAnotherAlone({"adaptive_avg_pool1d", "adaptive_avg_pool1d_grad", "adaptive_avg_pool2d",
                     "adaptive_avg_pool2d_grad", "adaptive_avg_pool3d", "adaptive_avg_pool3d_grad"});
}

} // namespace opc::onnx_export
