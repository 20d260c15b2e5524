// ONNX's Fourier transforms: products with constant matrices, of factors of the length where it is long.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxConverters.h"

#include <cmath>
#include <numbers>
#include <numeric>

namespace opc::onnx {
namespace {

constexpr int64_t kMostCells = 1 << 23;  // of a constant
constexpr int64_t kMostPlaces = 1 << 26; // of a signal that frames are of
constexpr int64_t kAtOnce = 1 << 19;     // of a matrix with which one product is faster than those of factors
constexpr int64_t kLeast = 64;           // points that are not cut up
constexpr int64_t kMostAtOnce = 1448;    // points of which all make no more than kMostCells

/// Transforms of [rows, points, 1 or 2] to [rows, points, 2], real and imaginary parts in f64.
class Fourier {
public:
  Fourier(Conversion &c, bool isInverse) : c_(c), isInverse_(isInverse) {}

  /// The first `bins` of `points`, of which x may have fewer: the others are zeros.
  Term at(const Term &x, int64_t points, int64_t bins) {
    const int64_t cells = x->dim(1) * x->dim(2) * bins * 2;
    if (points > kMostCells) refuse(points);
    if (cells <= kAtOnce || largestPrimeOf(points) > kMostAtOnce) return product(x, points, bins);
    const Term whole = padded(c_, x, {0, 0, 0}, {0, points - x->dim(1), 0}, "constant", nullptr);
    return c_.slice(factored(whole), 1, 0, bins);
  }

private:
  [[noreturn]] void refuse(int64_t points) {
    c_.unsupported("a transform of " + std::to_string(points) +
                   " points: opc transforms up to 8,388,608, and up to 1,448 for a prime factor of their number");
  }

  /// The largest factor up to the root.
  static int64_t factorOf(int64_t points) {
    for (auto a = static_cast<int64_t>(std::sqrt(static_cast<double>(points))); a > 1; --a)
      if (points % a == 0) return a;
    return 1;
  }

  static int64_t largestPrimeOf(int64_t points) {
    int64_t largest = 1;
    for (int64_t p = 2; p * p <= points; ++p)
      for (; points % p == 0; points /= p) largest = p;
    return std::max(largest, points);
  }

  double angleOf(int64_t j, int64_t k, int64_t points) const {
    // The product is taken modulo the number of points, where it is exact.
    const double turns = static_cast<double>(j * k % points) / static_cast<double>(points);
    return (isInverse_ ? 2 : -2) * std::numbers::pi * turns;
  }

  Term product(const Term &x, int64_t points, int64_t bins) {
    const int64_t n = x->dim(1), parts = x->dim(2);
    if (n * parts > kMostCells / (bins * 2)) refuse(points);
    std::vector<double> cells(static_cast<size_t>(n * parts * bins * 2));
    const double scale = isInverse_ ? 1 / static_cast<double>(points) : 1;
    for (int64_t j = 0; j < n; ++j)
      for (int64_t k = 0; k < bins; ++k) {
        const double angle = angleOf(j, k, points);
        double *real = &cells[static_cast<size_t>(j * parts * bins * 2 + k * 2)];
        real[0] = std::cos(angle) * scale, real[1] = std::sin(angle) * scale;
        if (parts == 2) real[bins * 2] = -real[1], real[bins * 2 + 1] = real[0];
      }
    const Term y = c_.op(
        "matmul", {c_.reshape(x, {x->dim(0), n * parts}), c_.constant(kDouble, Shape({n * parts, bins * 2}), cells)});
    return c_.reshape(y, {x->dim(0), bins, 2});
  }

  /// Cooley and Tukey 1965: point b j1 + j2 and bin k1 + a k2 of a b points are transforms of a points, turned by
  /// j2 k1 / (a b) of a circle, and then of b points.
  Term factored(const Term &x) {
    const int64_t rows = x->dim(0), points = x->dim(1), parts = x->dim(2);
    const int64_t a = factorOf(points), b = points / a;
    if (points <= kLeast || a == 1) return product(x, points, points);
    Term t = c_.transpose(c_.reshape(x, {rows, a, b, parts}), {0, 2, 1, 3});
    t = c_.reshape(factored(c_.reshape(t, {rows * b, a, parts})), {rows, b, a, 2});
    t = c_.transpose(turned(t), {0, 2, 1, 3});
    t = c_.reshape(factored(c_.reshape(t, {rows * a, b, 2})), {rows, a, b, 2});
    return c_.reshape(c_.transpose(t, {0, 2, 1, 3}), {rows, points, 2});
  }

  Term turned(const Term &x) {
    const int64_t b = x->dim(1), a = x->dim(2);
    std::vector<double> cosines, sines;
    for (int64_t j = 0; j < b; ++j)
      for (int64_t k = 0; k < a; ++k) {
        const double angle = angleOf(j, k, a * b);
        cosines.push_back(std::cos(angle)), sines.push_back(std::sin(angle));
      }
    const Term cosine = c_.constant(kDouble, Shape({1, b, a, 1}), cosines),
               sine = c_.constant(kDouble, Shape({1, b, a, 1}), sines);
    const Term real = c_.slice(x, 3, 0, 1), imaginary = c_.slice(x, 3, 1, 2);
    const auto times = [&](const Term &p, const Term &q) { return c_.op("broadcast_mul", {p, q}); };
    return c_.op("cat",
                 {c_.op("broadcast_sub", {times(real, cosine), times(imaginary, sine)}),
                  c_.op("broadcast_add", {times(real, sine), times(imaginary, cosine)})},
                 {{"axis", int64_t{3}}});
  }

  Conversion &c_;
  const bool isInverse_;
};

/// The real signal [rows, length, 1] of which x [rows, n, 1 or 2] has the first half of the transform: the other half
/// mirrors it.
Term mirrored(Conversion &c, const Term &x, int64_t length) {
  const int64_t half = length / 2 + 1, n = std::min(x->dim(1), half);
  const Term first = padded(c, c.slice(x, 1, 0, n), {0, 0, 0}, {0, half - n, 0}, "constant", nullptr);
  Term other = c.op("flip", {c.slice(first, 1, 1, length - half + 1)}, {{"dims", std::vector<int64_t>{1}}});
  if (x->dim(2) == 2) other = c.op("broadcast_mul", {other, c.constant(kDouble, Shape({1, 1, 2}), {1, -1})});
  const Term whole = length > half ? c.op("cat", {first, other}, {{"axis", int64_t{1}}}) : first;
  return c.slice(Fourier(c, true).at(whole, length, length), 2, 0, 1);
}

/// The transform of the last but one axis of x [.., n, 1 or 2] to `length` points, in f64.
Term transformed(Conversion &c, const Term &given, int64_t length, bool isInverse, bool isOneSided) {
  const int64_t n = std::min(given->dim(-2), length), parts = given->dim(-1);
  if (parts != 1 && parts != 2)
    c.invalid("its last axis has real and imaginary parts, and " + std::to_string(parts) + " elements");
  if (length < 1) c.invalid("a transform to " + std::to_string(length) + " points");
  if (isOneSided && !isInverse && parts == 2) c.invalid("one side is wanted of complex numbers");
  DimVector dims = given->shape().dim_vec();
  const int64_t rows = given->shape().Count(0, given->rank() - 2), bins = isOneSided ? length / 2 + 1 : length;
  const Term x = c.reshape(c.cast(c.slice(given, given->rank() - 2, 0, n), kDouble), {rows, n, parts});
  const bool isReal = isInverse && isOneSided;
  const Term y = isReal ? mirrored(c, x, length) : Fourier(c, isInverse).at(x, length, bins);
  dims[dims.size() - 2] = isReal ? length : bins, dims.back() = isReal ? 1 : 2;
  return c.cast(c.reshape(y, dims), given->type());
}

void convertDft(Conversion &c) {
  const Term x = c.in(0);
  const int64_t rank = x->rank();
  if (rank < 2) c.invalid("a signal has an axis for its parts, and this is " + x->shape().ToString());
  int64_t axis = c.version < 20 ? c.i("axis", 1) : c.has(2) ? c.knownInt(2) : -2;
  axis = c.axisOf(axis, rank);
  if (axis == rank - 1) c.invalid("its axis is that of the parts");
  const bool isHalf = c.flag("inverse", false) && c.flag("onesided", false);
  const int64_t length = c.has(1) ? c.knownInt(1) : isHalf ? 2 * (x->dim(axis) - 1) : x->dim(axis);
  std::vector<int64_t> perm(static_cast<size_t>(rank));
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[static_cast<size_t>(axis)], perm[static_cast<size_t>(rank - 2)]);
  c.out(c.transpose(transformed(c, c.transpose(x, perm), length, c.flag("inverse", false), c.flag("onesided", false)),
                    perm));
}

void convertStft(Conversion &c) {
  Term x = c.in(0);
  if (x->rank() == 2) x = c.reshape(x, {x->dim(0), x->dim(1), 1});
  if (x->rank() != 3) c.invalid("a signal [batch, length, 1 or 2] is wanted, not " + x->shape().ToString());
  const int64_t step = c.knownInt(1);
  const int64_t length = c.has(3) ? c.knownInt(3) : c.has(2) ? c.in(2)->dim(0) : 0;
  if (step < 1 || length < 1 || length > x->dim(1))
    c.invalid("frames of " + std::to_string(length) + " every " + std::to_string(step) + " of " +
              std::to_string(x->dim(1)));
  if (c.has(2) && c.in(2)->shape() != Shape({length})) c.invalid("its window is " + c.in(2)->shape().ToString());
  const int64_t frames = (x->dim(1) - length) / step + 1;
  if (frames > kMostPlaces / length)
    c.unsupported(std::to_string(frames) + " frames of " + std::to_string(length) + " elements");
  std::vector<int64_t> places;
  for (int64_t f = 0; f < frames; ++f)
    for (int64_t k = 0; k < length; ++k) places.push_back(f * step + k);
  Term cut = c.op("gather", {x, c.constant(places, Shape({frames, length}))}, {{"axis", int64_t{1}}});
  if (c.has(2)) cut = c.op("broadcast_mul", {cut, c.cast(c.reshape(c.in(2), {1, 1, length, 1}), x->type())});
  c.out(transformed(c, cut, length, false, c.flag("onesided", true) && x->dim(2) == 1));
}

} // namespace

void addFourier(ConverterTable *t) {
  t->add("DFT", convertDft, "matmul with a constant; of factors of the length with transpose, broadcast_mul",
         "a length of the run, a prime factor over 1,448 in it");
  t->add("STFT", convertStft, "gather, and as DFT", "a step and length of the run");
}

} // namespace opc::onnx
