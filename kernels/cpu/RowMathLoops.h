// The loops of RowMath, for the level that includes them. A row is read from memory once and from the cache afterwards;
// while it is computed the next one is on its way.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "RowMath.h"
#include "RowVectors.h"

#include "opc/ScalarFloat.h"

#include <type_traits>

namespace opc::cpu {
namespace {

// How far ahead elements are asked for: a row, but no less than memory needs, and no more than stays in the second
// cache.
constexpr int64_t kLeastAhead = 1024, kMostAhead = 16384;

/// Asks for the line a row behind element i; the processor's own prefetching stops at each page. Behind the last row as
/// well: nothing is read.
template <bool kWrites> OPC_LANES void ahead(const float *row, int64_t i, int64_t n) {
  if (n <= kMostAhead) __builtin_prefetch(row + i + (n < kLeastAhead ? kLeastAhead : n), kWrites ? 1 : 0, 2);
}

template <class V> struct Vector {
  using type = V;
};

/// `count` elements, fewer than V has only at the end of a row; the others are 0.
template <class V> OPC_LANES V elements(const float *p, int64_t count) {
  if constexpr (std::is_same_v<V, F8>)
    if (count < 8) return loadFirst(p, count);
  return loaded<V>(p);
}

/// y[i] = f(i) for vectors of elements: f(Vector<V>, i, count).
template <class F> OPC_LANES void mapRow(float *y, int64_t n, F f) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) store(y + i, f(Vector<F16>(), i, int64_t{16}));
  if (i + 8 <= n) {
    store(y + i, f(Vector<F8>(), i, int64_t{8}));
    i += 8;
  }
  if (i < n) storeFirst(y + i, f(Vector<F8>(), i, n - i), n - i);
}

/// The sum over a row of what f adds to lanes, f(lanes, i, count): 32 lanes, the first 8 of which take the vectors that
/// are left, the second 8 the last elements.
template <class F> OPC_LANES float sumRow(int64_t n, F f) {
  F16 low = all<F16>(0.0f), high = low;
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
    low = f(low, i, int64_t{16});
    high = f(high, i + 16, int64_t{16});
  }
  F8 first = lower(low), second = upper(low);
  for (; i + 8 <= n; i += 8) first = f(first, i, int64_t{8});
  if (i < n) second = add(second, keepFirst(f(all<F8>(0.0f), i, n - i), n - i));
  return sum(add(add(first, second), add(lower(high), upper(high))));
}

/// The largest of n >= 1 values; NaN may or may not be seen.
OPC_LANES float largestOf(const float *x, int64_t n) {
  float top = x[0];
  int64_t i = 0;
  if (n >= 16) {
    F16 m0 = loaded<F16>(x), m1 = m0, m2 = m0, m3 = m0;
    for (; i + 64 <= n; i += 64) {
      m0 = max(m0, loaded<F16>(x + i));
      m1 = max(m1, loaded<F16>(x + i + 16));
      m2 = max(m2, loaded<F16>(x + i + 32));
      m3 = max(m3, loaded<F16>(x + i + 48));
    }
    for (; i + 16 <= n; i += 16) m0 = max(m0, loaded<F16>(x + i));
    m0 = max(max(m0, m1), max(m2, m3));
    top = largest(max(lower(m0), upper(m0)));
  }
  for (; i < n; ++i) top = top < x[i] ? x[i] : top;
  return top;
}

/// y = exp(x - top), where no x is above top; their sum, in 16 lanes.
OPC_LANES float exponentialsBelow(const float *x, float *y, int64_t n, float top) {
  F16 sums = all<F16>(0.0f);
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    ahead<false>(x, i, n);
    ahead<true>(y, i, n);
    const F16 e = vectorExpNonPositive(sub(loaded<F16>(x + i), all<F16>(top)));
    store(y + i, e);
    sums = add(sums, e);
  }
  F8 first = lower(sums);
  if (i + 8 <= n) {
    const F8 e = vectorExpNonPositive(sub(loaded<F8>(x + i), all<F8>(top)));
    store(y + i, e);
    first = add(first, e);
    i += 8;
  }
  if (i < n) {
    const F8 e = keepFirst(vectorExpNonPositive(sub(loadFirst(x + i, n - i), all<F8>(top))), n - i);
    storeFirst(y + i, e, n - i);
    first = add(first, e);
  }
  return sum(add(first, upper(sums)));
}

template <bool kIsFirst> OPC_LANES void multiply(const float *x, float *y, int64_t n, float factor) {
  mapRow(y, n, [=](auto v, int64_t i, int64_t count) {
    using V = typename decltype(v)::type;
    if constexpr (kIsFirst) { // else both are in the cache
      ahead<false>(x, i, n);
      ahead<true>(y, i, n);
    }
    return mul(elements<V>(x + i, count), all<V>(factor));
  });
}

OPC_LANES float totalOf(const float *x, int64_t n) {
  return sumRow(
      n, [=](auto lanes, int64_t i, int64_t count) { return add(lanes, elements<decltype(lanes)>(x + i, count)); });
}

void softmax(const float *x, float *y, int64_t n, int64_t rows) {
  for (; rows > 0; --rows, x += n, y += n) multiply<false>(y, y, n, 1.0f / exponentialsBelow(x, y, n, largestOf(x, n)));
}

void softmaxAndLog(const float *x, float *y, float *logs, int64_t n, int64_t rows) {
  for (; rows > 0; --rows, x += n, y += n) {
    const float top = largestOf(x, n), shift = top == -__builtin_inff() ? 0.0f : top;
    const float sum = exponentialsBelow(x, y, n, shift);
    multiply<false>(y, y, n, 1.0f / sum);
    *logs++ = scalar::f32::log(sum) + shift;
  }
}

void logSoftmax(const float *x, float *y, int64_t n, int64_t rows) {
  for (; rows > 0; --rows, x += n, y += n) {
    const float top = largestOf(x, n);
    const float log = scalar::f32::log(sumRow(n, [=](auto lanes, int64_t i, int64_t count) {
      using V = decltype(lanes);
      ahead<false>(x, i, n);
      return add(lanes, vectorExpNonPositive(sub(elements<V>(x + i, count), all<V>(top))));
    }));
    mapRow(y, n, [=](auto v, int64_t i, int64_t count) {
      using V = typename decltype(v)::type;
      ahead<true>(y, i, n);
      return sub(sub(elements<V>(x + i, count), all<V>(top)), all<V>(log));
    });
  }
}

void softmaxGradient(const float *y, const float *dy, float *dx, int64_t n, int64_t rows) {
  for (; rows > 0; --rows, y += n, dy += n, dx += n) {
    const float dot = sumRow(n, [=](auto lanes, int64_t i, int64_t count) {
      using V = decltype(lanes);
      return fma(elements<V>(y + i, count), elements<V>(dy + i, count), lanes);
    });
    mapRow(dx, n, [=](auto v, int64_t i, int64_t count) {
      using V = typename decltype(v)::type;
      ahead<false>(y, i, n);
      ahead<false>(dy, i, n);
      ahead<true>(dx, i, n);
      return mul(elements<V>(y + i, count), sub(elements<V>(dy + i, count), all<V>(dot)));
    });
  }
}

void logSoftmaxGradient(const float *y, const float *dy, float *dx, int64_t n, int64_t rows) {
  for (; rows > 0; --rows, y += n, dy += n, dx += n) {
    const float total = totalOf(dy, n);
    mapRow(dx, n, [=](auto v, int64_t i, int64_t count) {
      using V = typename decltype(v)::type;
      ahead<false>(y, i, n);
      ahead<false>(dy, i, n);
      ahead<true>(dx, i, n);
      return sub(elements<V>(dy + i, count), mul(vectorExp(elements<V>(y + i, count)), all<V>(total)));
    });
  }
}

void scale(const float *x, const float *factors, float *y, int64_t n, int64_t rows) {
  for (; rows > 0; --rows, x += n, y += n) multiply<true>(x, y, n, *factors++);
}

void exponentials(const float *x, float *y, int64_t n, float shift) {
  mapRow(y, n, [=](auto v, int64_t i, int64_t count) {
    using V = typename decltype(v)::type;
    return vectorExp(sub(elements<V>(x + i, count), all<V>(shift)));
  });
}

float total(const float *x, int64_t n) { return totalOf(x, n); }

float crossEntropy(const float *x, const float *target, float log, int64_t n) {
  return sumRow(n, [=](auto lanes, int64_t i, int64_t count) {
    using V = decltype(lanes);
    const V t = elements<V>(target + i, count);
    return add(lanes, unlessZero(t, mul(t, sub(all<V>(log), elements<V>(x + i, count)))));
  });
}

void crossEntropyGradient(const float *y, const float *target, float *dx, int64_t n, float dy, float total) {
  mapRow(dx, n, [=](auto v, int64_t i, int64_t count) {
    using V = typename decltype(v)::type;
    ahead<false>(y, i, n);
    ahead<false>(target, i, n);
    ahead<true>(dx, i, n);
    const V slope = sub(mul(elements<V>(y + i, count), all<V>(total)), elements<V>(target + i, count));
    return mul(all<V>(dy), slope);
  });
}

void statistics(const float *x, int64_t n, bool centered, float epsilon, float *mean, float *inverse) {
  const float count = static_cast<float>(n), center = centered ? totalOf(x, n) / count : 0.0f;
  const float squares = sumRow(n, [=](auto lanes, int64_t i, int64_t part) {
    using V = decltype(lanes);
    ahead<false>(x, i, n);
    const V d = sub(elements<V>(x + i, part), all<V>(center));
    return add(lanes, mul(d, d));
  });
  *mean = center;
  *inverse = 1.0f / __builtin_sqrtf(squares / count + epsilon);
}

template <bool kScales, bool kShifts>
OPC_LANES void affine(const float *x, float *y, int64_t n, float mean, float inverse, const float *gamma,
                      const float *beta) {
  mapRow(y, n, [=](auto v, int64_t i, int64_t count) {
    using V = typename decltype(v)::type;
    ahead<true>(y, i, n);
    V made = mul(sub(elements<V>(x + i, count), all<V>(mean)), all<V>(inverse));
    if constexpr (kScales) made = mul(made, elements<V>(gamma + i, count));
    if constexpr (kShifts) made = add(made, elements<V>(beta + i, count));
    return made;
  });
}

void normalize(const float *x, float *y, int64_t n, float mean, float inverse, const float *gamma, const float *beta) {
  if (gamma && beta) return affine<true, true>(x, y, n, mean, inverse, gamma, beta);
  if (gamma) return affine<true, false>(x, y, n, mean, inverse, gamma, beta);
  if (beta) return affine<false, true>(x, y, n, mean, inverse, gamma, beta);
  affine<false, false>(x, y, n, mean, inverse, gamma, beta);
}

template <bool kScales, bool kAdds>
OPC_LANES void normGradientRow(const float *dy, const float *x, float *dx, int64_t n, const float *gamma,
                               const float *added, float mean, float inverse, bool centered) {
  const auto scaled = [=](auto v, int64_t i, int64_t count) {
    using V = typename decltype(v)::type;
    const V d = elements<V>(dy + i, count);
    if constexpr (kScales)
      return mul(d, elements<V>(gamma + i, count));
    else
      return d;
  };
  const float count = static_cast<float>(n);
  const float shift = !centered ? 0.0f : sumRow(n, [=](auto lanes, int64_t i, int64_t part) {
                                           return add(lanes, scaled(Vector<decltype(lanes)>(), i, part));
                                         }) / count;
  const float dot = sumRow(n, [=](auto lanes, int64_t i, int64_t part) {
    using V = decltype(lanes);
    ahead<false>(dy, i, n);
    return fma(scaled(Vector<V>(), i, part), sub(elements<V>(x + i, part), all<V>(mean)), lanes);
  });
  const float slope = dot * inverse * inverse / count;
  mapRow(dx, n, [=](auto v, int64_t i, int64_t part) {
    using V = typename decltype(v)::type;
    ahead<false>(x, i, n);
    ahead<true>(dx, i, n);
    const V along = mul(sub(elements<V>(x + i, part), all<V>(mean)), all<V>(slope));
    const V made = mul(all<V>(inverse), sub(sub(scaled(v, i, part), all<V>(shift)), along));
    if constexpr (kAdds)
      return add(made, elements<V>(added + i, part));
    else
      return made;
  });
}

void normGradient(const float *dy, const float *x, float *dx, int64_t n, const float *gamma, const float *added,
                  float mean, float inverse, bool centered) {
  if (gamma && added) return normGradientRow<true, true>(dy, x, dx, n, gamma, added, mean, inverse, centered);
  if (gamma) return normGradientRow<true, false>(dy, x, dx, n, gamma, added, mean, inverse, centered);
  if (added) return normGradientRow<false, true>(dy, x, dx, n, gamma, added, mean, inverse, centered);
  normGradientRow<false, false>(dy, x, dx, n, gamma, added, mean, inverse, centered);
}

/// gammas[j] and betas[j] of the columns [j, j + V) of one row more.
template <class V>
OPC_LANES void addRow(const float *dy, const float *x, float *gammas, float *betas, float mean, float inverse) {
  const V d = loaded<V>(dy);
  store(gammas, add(loaded<V>(gammas), mul(d, mul(sub(loaded<V>(x), all<V>(mean)), all<V>(inverse)))));
  store(betas, add(loaded<V>(betas), d));
}

void parameterRows(const float *dy, const float *x, const float *means, const float *inverses, int64_t rows, int64_t n,
                   int64_t width, float *gammas, float *betas) {
  for (int64_t r = 0; r < rows; ++r) {
    const float *d = dy + r * n, *v = x + r * n, mean = means ? means[r] : 0.0f, inverse = inverses[r];
    int64_t j = 0;
    for (; j + 16 <= width; j += 16) {
      ahead<false>(d, j, n);
      ahead<false>(v, j, n);
      addRow<F16>(d + j, v + j, gammas + j, betas + j, mean, inverse);
    }
    for (; j < width; ++j) {
      gammas[j] += d[j] * ((v[j] - mean) * inverse);
      betas[j] += d[j];
    }
  }
}

constexpr RowMath kLoops = {softmax,    logSoftmax,   softmaxGradient, logSoftmaxGradient, softmaxAndLog,
                            scale,      exponentials, total,           crossEntropy,       crossEntropyGradient,
                            statistics, normalize,    normGradient,    parameterRows};

} // namespace
} // namespace opc::cpu
