// Pads, windows as columns, grids and resizing as ONNX.
// SPDX-License-Identifier: Apache-2.0
#include "EmitWindows.h"
#include "OnnxEmitters.h"

#include <algorithm>
#include <cmath>

namespace opc::onnx_export {
namespace {

struct Pads {
  std::vector<int64_t> before, after;
};

/// Pairs from the last axis on.
Pads pairsOf(const std::vector<int64_t> &list, int64_t rank) {
  Pads p{std::vector<int64_t>(static_cast<size_t>(rank), 0), std::vector<int64_t>(static_cast<size_t>(rank), 0)};
  for (size_t k = 0; k + 1 < list.size(); k += 2) {
    const size_t axis = static_cast<size_t>(rank) - 1 - k / 2;
    p.before[axis] = list[k], p.after[axis] = list[k + 1];
  }
  return p;
}

void convertPad(Emission &e, const char *real, const char *whole) {
  const Wire x = e.in("x");
  const bool hasLists = e.instance.wrapper().has_attr("padding_before") && !e.ints("padding_before").empty();
  const Pads p =
      hasLists ? Pads{e.ints("padding_before"), e.ints("padding_after")} : pairsOf(e.ints("padding"), x.rank());
  const double value = IsFloatingDataType(e.madeFirst().data_type()) ? e.f(real) : static_cast<double>(e.i(whole));
  e.out(e.padded(x, p.before, p.after, value));
}

void convertMirror(Emission &e, const char *mode) {
  const Wire x = e.in("x");
  const Pads p = pairsOf(e.ints("padding"), x.rank());
  e.out(e.padded(x, p.before, p.after, 0, mode));
}

/// Each element goes back to where it came from.
void convertMirrorGrad(Emission &e, bool reflects) {
  Wire d = e.in("dy");
  const Shape &to = e.madeFirst().shape();
  const Pads p = pairsOf(e.ints("padding"), d.rank());
  for (int64_t axis = 0; axis < d.rank(); ++axis) {
    const int64_t size = to.At(axis);
    if (size == d.dim(axis)) continue;
    std::vector<int64_t> from, dims(static_cast<size_t>(d.rank()), 1);
    for (int64_t k = 0; k < d.dim(axis); ++k) {
      const int64_t at = k - p.before[static_cast<size_t>(axis)];
      const int64_t turned = at < 0 ? -at : at >= size ? 2 * size - 2 - at : at;
      from.push_back(reflects ? turned : std::clamp<int64_t>(at, 0, size - 1));
    }
    dims[static_cast<size_t>(axis)] = d.dim(axis);
    Shape shape = d.shape;
    shape.Set(axis, size);
    const Wire at = e.expand(e.integers(from, Shape(dims.data(), d.rank())), d.shape);
    d = e.node("ScatterElements", {e.filled(d.type, shape, 0), at, d}, {{"axis", axis}, {"reduction", "add"}}, d.type,
               shape);
  }
  e.out(d);
}

/// Of an image with pads: where the elements of its windows lie, [kernel places, windows].
struct Columns {
  int64_t height, width; // with pads
  std::vector<int64_t> pad;
  std::vector<int64_t> places;
  int64_t kernel = 1, windows = 1;
};

Columns columnsOf(Emission &e, int64_t height, int64_t width) {
  Columns c;
  c.pad = e.ints("padding");
  c.height = height + 2 * c.pad[0], c.width = width + 2 * c.pad[1];
  const std::vector<int64_t> kernel = e.ints("kernel_size"), strides = e.ints("strides"),
                             dilations = e.ints("dilation_rate");
  const auto count = [&](int64_t size, size_t k) {
    return (size - (kernel[k] - 1) * dilations[k] - 1) / strides[k] + 1;
  };
  const int64_t rows = count(c.height, 0), columns = count(c.width, 1);
  c.kernel = kernel[0] * kernel[1], c.windows = rows * columns;
  for (int64_t i = 0; i < kernel[0]; ++i)
    for (int64_t j = 0; j < kernel[1]; ++j)
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t s = 0; s < columns; ++s)
          c.places.push_back((r * strides[0] + i * dilations[0]) * c.width + s * strides[1] + j * dilations[1]);
  return c;
}

void convertUnfold(Emission &e) {
  if (isChannelsLast(e)) e.refuse("channels last");
  const Wire x = e.in("x");
  const Columns c = columnsOf(e, x.dim(2), x.dim(3));
  const std::vector<int64_t> pads = {0, 0, c.pad[0], c.pad[1]};
  const Wire flat = e.reshape(e.padded(x, pads, pads), {x.dim(0), x.dim(1), c.height * c.width});
  e.out(e.reshape(e.gather(flat, e.integers(c.places), 2), e.madeFirst().shape()));
}

void convertFold(Emission &e) {
  if (isChannelsLast(e)) e.refuse("channels last");
  const Wire x = e.in("x");
  const Shape &to = e.madeFirst().shape();
  const Columns c = columnsOf(e, to.At(2), to.At(3));
  const Shape parts({to.At(0), to.At(1), c.kernel * c.windows}), whole({to.At(0), to.At(1), c.height * c.width});
  const Wire at = e.expand(e.integers(c.places), parts);
  Wire sums = e.node("ScatterElements", {e.filled(x.type, whole, 0), at, e.reshape(x, parts)},
                     {{"axis", 2}, {"reduction", "add"}}, x.type, whole);
  sums = e.reshape(sums, {to.At(0), to.At(1), c.height, c.width});
  for (int64_t k = 0; k < 2; ++k) {
    const int64_t pad = c.pad[static_cast<size_t>(k)];
    sums = e.slice(sums, k + 2, pad, pad + to.At(k + 2));
  }
  e.out(sums);
}

void convertGridSample(Emission &e) {
  const Wire x = e.in("input");
  std::string mode = e.s("interpolation_mode");
  if (x.rank() != 4) e.need(20, "GridSample of " + std::to_string(x.rank() - 2) + " dimensions");
  if (e.opset >= 20 && mode == "bilinear") mode = "linear";
  if (e.opset >= 20 && mode == "bicubic") mode = "cubic";
  e.out(e.node(
      "GridSample", {x, e.in("grid")},
      {{"mode", mode.c_str()}, {"padding_mode", e.s("padding_mode").c_str()}, {"align_corners", e.b("align_corners")}},
      x.type, e.madeFirst().shape()));
}

/// x, y (, z) and 1 of each place: [places, dims + 1].
Wire places(Emission &e, const std::vector<int64_t> &size, DataType type, int64_t *count) {
  const int64_t dims = static_cast<int64_t>(size.size()) - 2;
  *count = 1;
  for (int64_t k = 0; k < dims; ++k) *count *= size[static_cast<size_t>(k) + 2];
  const bool corners = e.b("align_corners");
  std::vector<double> values;
  for (int64_t p = 0; p < *count; ++p) {
    int64_t rest = p;
    for (int64_t k = dims - 1; k >= 0; --k) {
      const int64_t n = size[static_cast<size_t>(k) + 2], i = rest % n;
      rest /= n;
      const double at = corners ? (n > 1 ? -1 + 2.0 * static_cast<double>(i) / static_cast<double>(n - 1) : 0)
                                : (2 * static_cast<double>(i) + 1) / static_cast<double>(n) - 1;
      values.push_back(at);
    }
    values.push_back(1);
  }
  return e.constant(type, Shape({*count, dims + 1}), values);
}

void convertAffineGrid(Emission &e) {
  const Wire theta = e.in("theta");
  int64_t count;
  const Wire base = places(e, e.ints("size"), theta.type, &count);
  e.out(e.reshape(e.matmul(base, e.swapped(theta)), e.madeFirst().shape()));
}

void convertAffineGridGrad(Emission &e) {
  const Wire d = e.in("dgrid");
  int64_t count;
  const Wire base = places(e, e.ints("size"), d.type, &count);
  e.out(e.matmul(e.swapped(e.reshape(d, {d.dim(0), count, d.dim(-1)})), base));
}

// Resizing: each axis by itself is a linear map.

enum class Resize { kNearest, kLinear, kCubic };

/// Elements and their weights of each place of an axis that is resized from `size` to `made`.
struct Weights {
  std::vector<std::vector<std::pair<int64_t, double>>> of;
};
Weights weightsOf(Emission &e, Resize mode, int64_t size, int64_t made, double factor) {
  const bool corners = mode != Resize::kNearest && e.b("align_corners");
  const double whole = static_cast<double>(size) / static_cast<double>(made);
  const double scale = corners ? (made > 1 ? static_cast<double>(size - 1) / static_cast<double>(made - 1) : 0)
                               : (factor > 0 ? 1 / factor : whole);
  Weights w;
  for (int64_t o = 0; o < made; ++o) {
    const double out = static_cast<double>(o);
    auto &list = w.of.emplace_back();
    if (mode == Resize::kNearest) {
      list.emplace_back(std::min(static_cast<int64_t>(std::floor(out * scale)), size - 1), 1);
      continue;
    }
    double at = corners ? out * scale : (out + 0.5) * scale - 0.5;
    if (mode == Resize::kLinear) {
      at = std::max(at, 0.0);
      const auto first = std::min(static_cast<int64_t>(at), size - 1);
      const double part = at - static_cast<double>(first);
      list.emplace_back(first, 1 - part);
      list.emplace_back(std::min(first + 1, size - 1), part);
      continue;
    }
    const double floor = std::floor(at), t = at - floor, a = -0.75;
    const auto near = [&](double x) { return ((a + 2) * x - (a + 3)) * x * x + 1; };
    const auto far = [&](double x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
    const double weights[] = {far(t + 1), near(t), near(1 - t), far(2 - t)};
    for (int64_t k = 0; k < 4; ++k)
      list.emplace_back(std::clamp(static_cast<int64_t>(floor) - 1 + k, int64_t{0}, size - 1), weights[k]);
  }
  return w;
}

void convertResize(Emission &e, Resize mode, bool isGrad) {
  const bool isLast = isChannelsLast(e), hasSizes = !e.ints("output_size").empty();
  Wire x = channelsFirst(e, e.in(isGrad ? "dy" : "x"), isLast);
  const Shape &to = e.madeFirst().shape();
  for (int64_t axis = 2; axis < 4; ++axis) {
    const int64_t from = x.dim(axis), made = to.At(isLast ? axis - 1 : axis), size = isGrad ? made : from;
    const int64_t places = isGrad ? from : made;
    const double factor = hasSizes ? 0 : e.f(axis == 2 ? "height_scale" : "width_scale");
    const Weights w = weightsOf(e, mode, size, places, factor);
    if (mode == Resize::kNearest && !isGrad) {
      std::vector<int64_t> at;
      for (const auto &list : w.of) at.push_back(list[0].first);
      x = e.gather(x, e.integers(at), axis);
      continue;
    }
    std::vector<double> matrix(static_cast<size_t>(size * places), 0);
    for (int64_t o = 0; o < places; ++o)
      for (const auto &[i, weight] : w.of[static_cast<size_t>(o)])
        matrix[static_cast<size_t>(isGrad ? o * size + i : i * places + o)] += weight;
    x = mapped(e, x, axis, matrix, made);
  }
  e.out(channelsBack(e, x, isLast));
}

} // namespace

void addPadding(EmitterTable *t) {
  t->add(
      "pad", Types::kWide, [](Emission &e) { convertPad(e, "floating_constant_value", "integral_constant_value"); },
      "Pad");
  for (const std::string d : {"1", "2", "3"})
    t->add(
        "constant_pad" + d + "d", Types::kWide, [](Emission &e) { convertPad(e, "floating_value", "integral_value"); },
        "Pad");
  for (const std::string d : {"1", "2"}) {
    t->add("reflection_pad" + d + "d", Types::kWide, [](Emission &e) { convertMirror(e, "reflect"); }, "Pad");
    t->add("replication_pad" + d + "d", Types::kWide, [](Emission &e) { convertMirror(e, "edge"); }, "Pad");
    t->add(
        "reflection_pad" + d + "d_grad", Types::kWide, [](Emission &e) { convertMirrorGrad(e, true); },
        "ScatterElements");
    t->add(
        "replication_pad" + d + "d_grad", Types::kWide, [](Emission &e) { convertMirrorGrad(e, false); },
        "ScatterElements");
  }
  t->add("unfold", Types::kWide, convertUnfold, "Pad, Gather", "channels last");
  t->add("fold", Types::kWide, convertFold, "ScatterElements, Slice", "channels last");
}

void addResizing(EmitterTable *t) {
  t->add("grid_sample", Types::kWide, convertGridSample, "GridSample");
  t->add("affine_grid", Types::kWide, convertAffineGrid, "MatMul with a constant");
  t->add("affine_grid_grad", Types::kWide, convertAffineGridGrad, "MatMul with a constant");
  const std::pair<const char *, Resize> modes[] = {
      {"nearest", Resize::kNearest}, {"bilinear", Resize::kLinear}, {"bicubic", Resize::kCubic}};
  for (const auto &[name, mode] : modes) {
    const std::string op = std::string("upsample_") + name + "_2d";
    t->add(
        op, Types::kWide, [m = mode](Emission &e) { convertResize(e, m, false); },
        mode == Resize::kNearest ? "Gather" : "MatMul with a constant");
    t->add(
        op + "_grad", Types::kWide, [m = mode](Emission &e) { convertResize(e, m, true); }, "MatMul with a constant");
  }
}

} // namespace opc::onnx_export
