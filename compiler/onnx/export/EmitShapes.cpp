// Ops that move, cut and join as ONNX.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxEmitters.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace opc::onnx_export {
namespace {

int64_t axisOf(int64_t axis, int64_t rank) { return axis < 0 ? axis + rank : axis; }

std::vector<int64_t> dimsOf(const Shape &shape) { return {shape.begin(), shape.end()}; }

void convertTranspose(Emission &e) {
  const Wire x = e.in("input");
  std::vector<int64_t> perm = e.ints("perm");
  for (int64_t &p : perm) p = axisOf(p, x.rank());
  e.out(e.transpose(x, perm));
}

void convertConcat(Emission &e) {
  std::vector<Wire> parts;
  for (int32_t k = 0; k < e.count("in"); ++k) parts.push_back(e.in("in", k));
  e.out(e.concat(parts, axisOf(e.i("axis"), parts[0].rank())));
}

void convertStack(Emission &e) {
  std::vector<Wire> parts;
  std::vector<int64_t> dims = dimsOf(e.raw("in").shape);
  const int64_t axis = axisOf(e.i("axis"), static_cast<int64_t>(dims.size()) + 1);
  dims.insert(dims.begin() + axis, 1);
  for (int32_t k = 0; k < e.count("in"); ++k) parts.push_back(e.reshape(e.in("in", k), dims));
  e.out(e.concat(parts, axis));
}

void convertSplitLike(Emission &e) {
  const Wire x = e.in("in");
  const int64_t axis = axisOf(e.i("axis"), x.rank());
  std::vector<int64_t> sizes;
  std::vector<std::pair<DataType, Shape>> made;
  for (int32_t k = 0; k < e.count("like"); ++k) {
    const Shape &shape = e.made("out", k).shape();
    sizes.push_back(shape.At(axis));
    made.emplace_back(x.type, shape);
  }
  const auto parts = e.nodes("Split", {x, e.integers(sizes)}, {{"axis", axis}}, made);
  for (size_t k = 0; k < parts.size(); ++k) e.out("out", parts[k], static_cast<int32_t>(k));
}

void convertSlice(Emission &e) {
  const Wire x = e.in("x");
  const std::vector<int64_t> start = e.ints("start");
  std::vector<int64_t> axes(start.size());
  std::iota(axes.begin(), axes.end(), 0);
  if (axes.empty()) return e.out(x);
  e.out(e.node("Slice",
               {x, e.integers(start), e.integers(e.ints("stop")), e.integers(axes), e.integers(e.ints("step"))}, {},
               x.type, e.madeFirst().shape()));
}

/// Where the elements of a slice lie in the flattened tensor.
std::vector<int64_t> placesOf(Emission &e, const Shape &whole, const Shape &part) {
  const std::vector<int64_t> start = e.ints("start"), step = e.ints("step");
  std::vector<int64_t> places = {0};
  for (int64_t axis = 0; axis < whole.NumAxes(); ++axis) {
    const auto k = static_cast<size_t>(axis);
    const int64_t size = whole.At(axis), top = step[k] > 0 ? size : size - 1;
    const int64_t first = std::clamp(axisOf(start[k], size), int64_t{0}, top);
    std::vector<int64_t> more;
    more.reserve(places.size() * static_cast<size_t>(part.At(axis)));
    for (const int64_t p : places)
      for (int64_t i = 0; i < part.At(axis); ++i) more.push_back(p * size + first + i * step[k]);
    places = std::move(more);
  }
  return places;
}

/// `whole` with `part` in the place of the slice.
Wire replaced(Emission &e, const Wire &whole, const Wire &part) {
  const std::vector<int64_t> places = placesOf(e, whole.shape, part.shape);
  const Wire flat = e.reshape(whole, {whole.shape.elem_cnt()}), values = e.reshape(part, {part.shape.elem_cnt()});
  const Wire made =
      e.node("ScatterElements", {flat, e.integers(places), values}, {{"axis", 0}}, whole.type, flat.shape);
  return e.reshape(made, whole.shape);
}

void convertSliceGrad(Emission &e) {
  const Wire dy = e.in("dy");
  e.out(replaced(e, e.filled(dy.type, e.madeFirst().shape(), 0), dy));
}

void convertSliceUpdate(Emission &e) { e.out(replaced(e, e.in("ref"), e.in("value"))); }

void convertNarrow(Emission &e) {
  const Wire x = e.in("in");
  const int64_t axis = axisOf(e.i("dim"), x.rank()), start = axisOf(e.i("start"), x.dim(axis));
  e.out(e.slice(x, axis, start, start + e.i("length")));
}

void convertNarrowGrad(Emission &e) {
  const Wire dy = e.in("dy");
  const int64_t axis = axisOf(e.i("dim"), dy.rank());
  std::vector<int64_t> before(static_cast<size_t>(dy.rank()), 0), after = before;
  const int64_t size = e.madeFirst().shape().At(axis), start = axisOf(e.i("start"), size);
  before[static_cast<size_t>(axis)] = start;
  after[static_cast<size_t>(axis)] = size - start - e.i("length");
  e.out(e.padded(dy, before, after));
}

void convertBroadcastLike(Emission &e) {
  Wire x = e.in("x");
  const Shape like = e.madeFirst().shape();
  std::vector<int64_t> axes = e.ints("broadcast_axes");
  if (!axes.empty() && x.rank() != like.NumAxes()) {
    for (int64_t &a : axes) a = axisOf(a, like.NumAxes());
    std::sort(axes.begin(), axes.end());
    std::vector<int64_t> dims = dimsOf(x.shape);
    for (const int64_t a : axes) dims.insert(dims.begin() + a, 1);
    x = e.reshape(x, dims);
  }
  e.out(e.expand(x, like));
}

Wire flipped(Emission &e, const Wire &x, int64_t axis) {
  return e.node("Slice", {x, e.integers({-1}), e.integers({INT64_MIN}), e.integers({axis}), e.integers({-1})}, {},
                x.type, x.shape);
}

void convertFlip(Emission &e) {
  Wire x = e.in("x");
  for (const int64_t d : e.ints("dims")) x = flipped(e, x, axisOf(d, x.rank()));
  e.out(x);
}

Wire rolled(Emission &e, const Wire &x, int64_t axis, int64_t shift) {
  const int64_t size = x.dim(axis), by = size ? (shift % size + size) % size : 0;
  if (by == 0) return x;
  return e.concat({e.slice(x, axis, size - by, size), e.slice(x, axis, 0, size - by)}, axis);
}

void convertRoll(Emission &e) {
  Wire x = e.in("in");
  const std::vector<int64_t> shifts = e.ints("shifts"), dims = e.ints("dims");
  if (dims.empty()) return e.out(e.reshape(rolled(e, e.reshape(x, {x.shape.elem_cnt()}), 0, shifts.at(0)), x.shape));
  for (size_t k = 0; k < dims.size(); ++k) x = rolled(e, x, axisOf(dims[k], x.rank()), shifts.at(k));
  e.out(x);
}

void convertTriangle(Emission &e, bool upper) {
  Wire x = e.in("in");
  const bool isReal = !upper && e.b("is_floating_fill_value");
  const double fill = upper ? 0 : isReal ? e.f("floating_fill_value") : static_cast<double>(e.i("integer_fill_value"));
  const int64_t k = e.i("diagonal"), rows = x.dim(-2), columns = x.dim(-1);
  if (fill == 0) {
    x = e.cast(x, x.type == kInt32 ? kInt64 : x.type); // which more runtimes have
    return e.out(e.node("Trilu", {x, e.integers({k}, Shape())}, {{"upper", upper ? 1 : 0}}, x.type, x.shape));
  }
  std::vector<double> keep;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) keep.push_back(c - r <= k);
  e.out(e.select(e.constant(kBool, Shape({rows, columns}), keep), x, e.number(x, fill)));
}

/// The places of a diagonal in a flattened matrix.
std::vector<int64_t> diagonalOf(int64_t rows, int64_t columns, int64_t offset) {
  std::vector<int64_t> places;
  for (int64_t r = std::max<int64_t>(0, -offset); r < rows && r + offset < columns; ++r)
    places.push_back(r * columns + r + offset);
  return places;
}

/// Axes 0 and 1 go to the end and become one.
Wire matricesLast(Emission &e, const Wire &x) {
  std::vector<int64_t> perm;
  for (int64_t k = 2; k < x.rank(); ++k) perm.push_back(k);
  perm.insert(perm.end(), {0, 1});
  const Wire y = e.transpose(x, perm);
  std::vector<int64_t> dims(y.shape.begin(), y.shape.end() - 2);
  dims.push_back(x.dim(0) * x.dim(1));
  return e.reshape(y, dims);
}

void convertDiagonal(Emission &e) {
  const Wire x = e.in("in"), flat = matricesLast(e, x);
  e.out(e.gather(flat, e.integers(diagonalOf(x.dim(0), x.dim(1), e.i("offset"))), flat.rank() - 1));
}

/// Zeros of `dims`, the last of which gets the values at the places.
Wire scattered(Emission &e, const Wire &values, const std::vector<int64_t> &places, std::vector<int64_t> dims) {
  const Shape shape(dims.data(), static_cast<int64_t>(dims.size()));
  const Wire at = e.expand(e.integers(places), values.shape);
  return e.node("ScatterElements", {e.filled(values.type, shape, 0), at, values}, {{"axis", values.rank() - 1}},
                values.type, shape);
}

void convertDiagonalGrad(Emission &e) {
  const Wire dy = e.in("dy");
  const Shape shape = e.madeFirst().shape();
  std::vector<int64_t> dims(dy.shape.begin(), dy.shape.end() - 1);
  dims.push_back(shape.At(0) * shape.At(1));
  Wire x = scattered(e, dy, diagonalOf(shape.At(0), shape.At(1), e.i("offset")), dims);
  dims.back() = shape.At(0);
  dims.push_back(shape.At(1));
  std::vector<int64_t> perm = {shape.NumAxes() - 2, shape.NumAxes() - 1};
  for (int64_t k = 0; k + 2 < shape.NumAxes(); ++k) perm.push_back(k);
  e.out(e.transpose(e.reshape(x, dims), perm));
}

void convertDiag(Emission &e) {
  const Wire x = e.in("in");
  const int64_t offset = e.i("diagonal");
  const Shape shape = e.madeFirst().shape();
  if (x.rank() == 2)
    return e.out(e.gather(e.reshape(x, {x.shape.elem_cnt()}), e.integers(diagonalOf(x.dim(0), x.dim(1), offset)), 0));
  e.out(e.reshape(scattered(e, x, diagonalOf(shape.At(0), shape.At(1), offset), {shape.elem_cnt()}), shape));
}

void convertWhere(Emission &e, const char *mask, const char *x, const char *y) {
  const Wire m = e.raw(mask);
  const Wire condition = m.type == kBool ? m : e.cast(m, kBool);
  if (y) return e.out(e.select(condition, e.in(x), e.in(y)));
  const Wire kept = e.in(x);
  if (kept.type == kInt64 && e.b("has_int_operand"))
    return e.out(e.select(condition, e.integers({e.i("int_operand")}, Shape()), kept));
  const double value = e.b("has_int_operand")    ? static_cast<double>(e.i("int_operand"))
                       : e.b("has_bool_operand") ? static_cast<double>(e.b("bool_operand"))
                                                 : e.f("float_operand");
  e.out(e.select(condition,
                 e.constant(e.raw(x).type, Shape(), {value}).type == kept.type
                     ? e.number(kept, value)
                     : e.cast(e.constant(e.raw(x).type, Shape(), {value}), kept.type),
                 kept));
}

/// ONNX leaves open what becomes of numbers that are out of an integer type's range, and of NaN; whole numbers under a
/// byte it rounds, and keeps their low bits.
Wire saturated(Emission &e, const Wire &x, DataType to) {
  const ElementType &type = elementType(to);
  // f32 has the ends of 16 bits, f64 those of 32.
  const Wire real = e.cast(x, type.bits > 16 || x.type == kDouble ? kDouble : kFloat), zero = e.number(real, 0);
  const Wire number = e.select(e.node("IsNaN", {real}, {}, kBool, real.shape), zero, real);
  const bool isLong = type.bits == 64;
  const double last = isLong ? std::nextafter(type.highest, 0.0) : type.highest;
  const Wire held = e.binary("Min", e.binary("Max", number, e.number(real, type.lowest)), e.number(real, last));
  if (isNarrowIntegerType(to)) return e.cast(e.cast(held, kInt32), to);
  Wire made = e.cast(held, to);
  if (to != kInt64) return made;
  return e.select(e.test("Greater", real, e.number(real, last)), e.integers({INT64_MAX}, Shape()), made);
}

void convertCast(Emission &e) {
  const Wire x = e.in("in");
  const DataType to = e.madeFirst().data_type();
  const ElementType &type = elementType(to);
  const auto isReal = [](DataType t) {
    return IsFloatingDataType(t) || (contains<types::Storage>(t) && !isNarrowIntegerType(t));
  };
  if (isReal(x.type) && !isReal(to) && to != kBool) return e.out(saturated(e, x, to));
  if (x.type != to && contains<types::Storage>(to) && !isNarrowIntegerType(to) && !e.b("saturate"))
    return e.out(e.node("Cast", {x}, {{"to", int64_t{type.onnx}}, {"saturate", int64_t{0}}}, to, x.shape));
  e.out(e.cast(x, to));
}

/// Casts of whole numbers to others of their size keep the bits; for others there is no op before operator set 26.
void convertBitCast(Emission &e) {
  const Wire in = e.raw("in");
  const DataType to = e.madeFirst().data_type();
  if (in.type == to || (!IsFloatingDataType(in.type) && !IsFloatingDataType(to))) return e.out(e.cast(in, to));
  e.need(26, "bits of fractions: BitCast");
  e.out(e.node("BitCast", {in}, {{"to", int64_t{elementType(to).onnx}}}, to, in.shape));
}

} // namespace

void addShapes(EmitterTable *t) {
  for (const char *name : {"reshape", "reshape_like", "flatten", "expand_dims", "squeeze"})
    t->add(name, Types::kOwn, [](Emission &e) { e.out(e.reshape(e.in("in"), e.madeFirst().shape())); }, "Reshape");
  for (const char *name : {"identity", "copy"})
    t->add(name, Types::kOwn, [](Emission &e) { e.out(e.in("in")); }, "Identity");
  for (const char *name : {"cast", "cast_like"})
    t->add(name, Types::kOwn, convertCast, "Cast; before it IsNaN, Where, Max, Min from floats to integers");
  t->add("bit_cast", Types::kOwn, convertBitCast, "Cast, BitCast", "of fractions from operator set 26 on");
  t->add("transpose", Types::kOwn, convertTranspose, "Transpose");
  t->add("cat", Types::kOwn, convertConcat, "Concat");
  t->add("concat", Types::kOwn, convertConcat, "Concat");
  t->add("stack", Types::kOwn, convertStack, "Reshape, Concat");
  t->add("split_like", Types::kOwn, convertSplitLike, "Split");
  t->add("slice", Types::kOwn, convertSlice, "Slice");
  t->add("slice_grad", Types::kOwn, convertSliceGrad, "ScatterElements");
  t->add("slice_update", Types::kOwn, convertSliceUpdate, "ScatterElements");
  t->add("narrow", Types::kOwn, convertNarrow, "Slice");
  t->add("narrow_grad", Types::kWide, convertNarrowGrad, "Pad");
  t->add("broadcast_like", Types::kWide, convertBroadcastLike, "Reshape, Expand");
  t->add("expand", Types::kNumbers, [](Emission &e) { e.out(e.expand(e.in("in"), e.madeFirst().shape())); }, "Expand");
  t->add("flip", Types::kOwn, convertFlip, "Slice");
  t->add("roll", Types::kOwn, convertRoll, "Slice, Concat");
  t->add("tril", Types::kWide, [](Emission &e) { convertTriangle(e, false); }, "Trilu, Where");
  t->add("triu", Types::kWide, [](Emission &e) { convertTriangle(e, true); }, "Trilu");
  t->add("diagonal", Types::kOwn, convertDiagonal, "Transpose, Reshape, Gather");
  t->add("diagonal_grad", Types::kWide, convertDiagonalGrad, "ScatterElements, Transpose");
  t->add("diag", Types::kWide, convertDiag, "Gather, ScatterElements");
  t->add("where", Types::kWide, [](Emission &e) { convertWhere(e, "condition", "x", "y"); }, "Where");
  t->add("masked_fill", Types::kWide, [](Emission &e) { convertWhere(e, "mask", "x", nullptr); }, "Where");
}

} // namespace opc::onnx_export
