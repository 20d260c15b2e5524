// Generated contents for tensors.
// SPDX-License-Identifier: Apache-2.0
#include "TensorFill.h"

#include "opc/Convert.h"
#include "opc/Philox.h"

#include <cmath>
#include <type_traits>

namespace opc {
namespace {

/// A generated number. Those of short floats are numbers of f32, rounded: a seed gives what it always gave.
template <class T> T generated(double v) {
  if constexpr (isShortFloat<T>)
    return T(static_cast<float>(v));
  else
    return convertElement<T>(v);
}

// log and the circle from additions, products and divisions only: libm's versions differ in the last bit between
// machines, and these numbers must not.
double logOf(double x) { // x in (0, 1]
  int exponent;
  double m = std::frexp(x, &exponent);
  if (m < 0.70710678118654752440) m *= 2, --exponent;
  const double s = (m - 1) / (m + 1), q = s * s;
  double sum = 0;
  for (int n = 23; n >= 1; n -= 2) sum = sum * q + 1.0 / n; // log m = 2 atanh s
  return 2 * s * sum + exponent * 0.69314718055994530942;
}
void circle(double turn, double *cosine, double *sine) { // turn in [0, 1)
  const double r = turn * 4;
  const int quadrant = static_cast<int>(r + 0.5);
  const double a = (r - quadrant) * 1.57079632679489661923, q = a * a;
  double c = 0, s = 0;
  for (int n = 18; n >= 0; n -= 2) c = 1 - q / ((n + 1) * (n + 2)) * c;
  for (int n = 19; n >= 1; n -= 2) s = 1 - q / ((n + 1) * (n + 2)) * s;
  s *= a;
  switch (quadrant & 3) {
  case 0: *cosine = c, *sine = s; break;
  case 1: *cosine = -s, *sine = c; break;
  case 2: *cosine = -c, *sine = -s; break;
  default: *cosine = s, *sine = -c; break;
  }
}
/// Box and Muller's transform (1958) of one block: two independent standard normal numbers.
void normalPair(const Philox::Block &b, double *a, double *c) {
  const double u = 1 - Philox::unitDouble(b[0], b[1]); // (0, 1]
  double cosine, sine;
  circle(Philox::unitDouble(b[2], b[3]), &cosine, &sine);
  const double r = std::sqrt(-2 * logOf(u));
  *a = r * cosine;
  *c = r * sine;
}

} // namespace

uint64_t stableHash(std::string_view text) {
  uint64_t h = 0xcbf29ce484222325u;
  for (char c : text) h = (h ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  return h;
}

void fillConstant(HostTensor *t, double value) {
  const int64_t n = t->elemCount();
  withElements(*t, [&](auto *p) {
    const auto v = convertElement<std::remove_pointer_t<decltype(p)>>(value);
    for (int64_t i = 0; i < n; ++i) p[i] = v;
  });
}

void fillIota(HostTensor *t) {
  const int64_t n = t->elemCount();
  withElements(*t, [&](auto *p) {
    using T = std::remove_pointer_t<decltype(p)>;
    for (int64_t i = 0; i < n; ++i)
      if constexpr (std::is_same_v<T, bool>)
        p[i] = i & 1;
      else if constexpr (std::is_integral_v<T>)
        p[i] = static_cast<T>(static_cast<uint64_t>(i));
      else
        p[i] = convertElement<T>(i);
  });
}

void fillUniform(HostTensor *t, double lo, double hi, FillKey key) {
  const int64_t n = t->elemCount();
  withElements(*t, [&](auto *p) {
    using T = std::remove_pointer_t<decltype(p)>;
    if constexpr (std::is_same_v<T, bool>) {
      for (int64_t i = 0; i < n; ++i) p[i] = Philox::at(key.seed, key.stream, static_cast<uint64_t>(i))[0] >> 31;
    } else if constexpr (!isShortFloat<T> && !std::is_floating_point_v<T>) {
      using I = decltype(numberOf(T()));
      const I first = numberOf(convertElement<T>(std::ceil(lo))), last = numberOf(convertElement<T>(std::floor(hi)));
      // Wide arithmetic: the range may be all 2^64 values. 64 random bits times the width: a bias below 2^-64 of it.
      const unsigned __int128 width =
          last < first ? 1
                       : static_cast<unsigned __int128>(static_cast<uint64_t>(last) - static_cast<uint64_t>(first)) + 1;
      for (int64_t i = 0; i < n; ++i) {
        const Philox::Block b = Philox::at(key.seed, key.stream, static_cast<uint64_t>(i));
        const uint64_t r = (uint64_t{b[0]} << 32) | b[1];
        const uint64_t offset =
            (width >> 64) ? r : static_cast<uint64_t>((static_cast<unsigned __int128>(r) * width) >> 64);
        p[i] = static_cast<T>(static_cast<I>(static_cast<uint64_t>(first) + offset));
      }
    } else if constexpr (std::is_same_v<T, double>) {
      for (int64_t i = 0; i < n; ++i) {
        const Philox::Block b = Philox::at(key.seed, key.stream, static_cast<uint64_t>(i));
        double v = lo + (hi - lo) * Philox::unitDouble(b[0], b[1]);
        p[i] = v < hi || hi <= lo ? v : std::nextafter(hi, lo);
      }
    } else { // four elements a block
      const float a = static_cast<float>(lo), b = static_cast<float>(hi);
      for (int64_t i = 0; i < n; i += 4) {
        const Philox::Block block = Philox::at(key.seed, key.stream, static_cast<uint64_t>(i / 4));
        for (int64_t j = 0; j < 4 && i + j < n; ++j) {
          float v = a + (b - a) * Philox::unitFloat(block[static_cast<size_t>(j)]);
          if (v >= b && b > a) v = std::nextafter(b, a); // rounding can reach the open end
          p[i + j] = T(v);
        }
      }
    }
  });
}

void fillNormal(HostTensor *t, double mean, double stddev, FillKey key) {
  const int64_t n = t->elemCount();
  withElements(*t, [&](auto *p) {
    using T = std::remove_pointer_t<decltype(p)>;
    for (int64_t i = 0; i < n; i += 2) {
      double a, b;
      normalPair(Philox::at(key.seed, key.stream, static_cast<uint64_t>(i / 2)), &a, &b);
      p[i] = generated<T>(mean + stddev * a);
      if (i + 1 < n) p[i + 1] = generated<T>(mean + stddev * b);
    }
  });
}

void fillTruncatedNormal(HostTensor *t, double mean, double stddev, FillKey key) {
  const int64_t n = t->elemCount();
  withElements(*t, [&](auto *p) {
    using T = std::remove_pointer_t<decltype(p)>;
    for (int64_t i = 0; i < n; ++i) {
      // Each element has attempts of its own (in the top bits of the index), so that elements stay independent.
      double v = 0;
      for (uint64_t attempt = 0; attempt < 256; ++attempt) {
        double other;
        normalPair(Philox::at(key.seed, key.stream, static_cast<uint64_t>(i) | (attempt << 56)), &v, &other);
        if (std::abs(v) < 2) break;
        v = other;
        if (std::abs(v) < 2) break;
        v = 0; // after 256 failures, which has probability 10^-690
      }
      p[i] = generated<T>(mean + stddev * v);
    }
  });
}

} // namespace opc
