// Loops over the windows of poolings: vectors of neighbours in rows (channels_first) or of channels (channels_last).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "PoolWindows.h"
#include "SimdExp.h"

namespace opc::ops {

using cpu::rowGrain;
using cpu::rowSum;
using cpu::Simd;

/// The two ways to gather a window, for elements and for vectors.
template <class T> struct Largest {
  using V = typename Simd<T>::V;
  static constexpr bool kAnyOrder = true; // makes the same
  static constexpr T start() { return lowest<T>(); }
  static T take(T so, T v) { return beats(v, so) ? v : so; }
  // The instructions give the second operand when either is NaN; a NaN found so far has to be put back.
  static V take(V so, V v) {
    if constexpr (std::is_same_v<T, float>)
      return _mm256_blendv_ps(_mm256_max_ps(so, v), so, _mm256_cmp_ps(so, so, _CMP_UNORD_Q));
    else if constexpr (std::is_same_v<T, double>)
      return _mm256_blendv_pd(_mm256_max_pd(so, v), so, _mm256_cmp_pd(so, so, _CMP_UNORD_Q));
    else
      return _mm256_max_epi32(so, v);
  }
};
template <class T> struct Total {
  using V = typename Simd<T>::V;
  static constexpr bool kAnyOrder = false;
  static constexpr T start() { return T(0); }
  static T take(T so, T v) { return so + v; }
  static V take(V so, V v) { return Simd<T>::add(so, v); }
};

/// Calls f(plane, d, h): one task for each row of outputs of each plane.
template <class F> void forRows(DeviceCtx *d, const PoolGeometry &g, int64_t planes, int64_t rowCost, F f) {
  const int64_t rows = g.out[0] * g.out[1];
  d->parallelFor(planes * rows, rowGrain(rowCost), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) f(t / rows, t % rows / g.out[1], t % g.out[1]);
  });
}

inline int64_t taps(const PoolGeometry &g) { return g.kernel[0] * g.kernel[1] * g.kernel[2]; }

template <class Way, class T> void takeRow(T *__restrict to, const T *__restrict from, int64_t n) {
  using S = Simd<T>;
  int64_t i = 0;
  for (; i + S::kWidth <= n; i += S::kWidth) S::store(to + i, Way::take(S::load(to + i), S::load(from + i)));
  for (; i < n; ++i) to[i] = Way::take(to[i], from[i]);
}

/// from[0], from[2], ..., one vector of them; reads one element more.
template <class T> typename Simd<T>::V loadEverySecond(const T *from) {
  static_assert(sizeof(T) == 4);
  const float *p = reinterpret_cast<const float *>(from);
  const __m256d even = _mm256_castps_pd(_mm256_shuffle_ps(_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8), 0x88));
  const __m256d ordered = _mm256_permute4x64_pd(even, 0xd8);
  if constexpr (std::is_same_v<T, float>)
    return _mm256_castpd_ps(ordered);
  else
    return _mm256_castpd_si256(ordered);
}

/// One output of channels_first tensors, tap by tap.
template <class T, class Way> T poolOne(const PoolGeometry &g, const T *plane, Window d, Window h, Window w) {
  T so = Way::start();
  for (int64_t id = d.begin; id < d.end; id += g.dilation[0])
    for (int64_t ih = h.begin; ih < h.end; ih += g.dilation[1])
      for (int64_t iw = w.begin; iw < w.end; iw += g.dilation[2])
        so = Way::take(so, plane[(id * g.in[1] + ih) * g.in[2] + iw]);
  return so;
}

/// Rows of outputs of channels_first tensors, in pieces: the input rows of their windows are gathered into one padded
/// line, the columns of that line afterwards, both in registers.
template <class T, class Way> class PoolPieces {
  using S = Simd<T>;
  static constexpr int64_t kCells = 2048, kMaxRows = 64, W = S::kWidth;

public:
  explicit PoolPieces(const PoolTables &tables) : t_(tables), g_(tables.g) {
    const int64_t rows = g_.kernel[0] * g_.kernel[1], held = reach_ <= kCells ? (kCells - reach_) / step_ + 1 : 0;
    // The results of windows that no line holds, and sums of long rows, are gathered tap by tap, in that order.
    inLines_ = held > 0 && rows <= kMaxRows && (held >= g_.out[2] || Way::kAnyOrder || rows == 1);
    length_ = inLines_ ? held : std::max<int64_t>(1, g_.out[2]);
  }
  int64_t count() const { return (g_.out[2] + length_ - 1) / length_; }
  int64_t first(int64_t piece) const { return piece * length_; }
  int64_t last(int64_t piece) const { return std::min(g_.out[2], first(piece) + length_); }

  /// `row`: where the row of outputs begins.
  void pool(const T *plane, T *row, Window d, Window h, int64_t piece) const {
    const int64_t begin = first(piece), end = last(piece);
    if (!inLines_) {
      for (int64_t w = begin; w < end; ++w) row[w] = poolOne<T, Way>(g_, plane, d, h, t_.at(2, w));
      return;
    }
    alignas(64) T line[kCells + 2 * W];
    gather(plane, d, h, begin * step_ - g_.before[2], (end - begin - 1) * step_ + reach_, line);
    scan(line, row + begin, end - begin);
  }

private:
  /// line[i] is made of column origin + i.
  void gather(const T *plane, Window d, Window h, int64_t origin, int64_t cells, T *line) const {
    const T *sources[kMaxRows];
    int64_t rows = 0;
    const int64_t front = std::max<int64_t>(0, -origin);
    for (int64_t id = d.begin; id < d.end; id += g_.dilation[0])
      for (int64_t ih = h.begin; ih < h.end; ih += g_.dilation[1])
        sources[rows++] = plane + (id * g_.in[1] + ih) * g_.in[2] + origin + front;
    const int64_t used = std::max<int64_t>(0, std::min(g_.in[2] - origin, cells) - front); // columns that are there
    T *inner = std::fill_n(line, front, Way::start());
    std::fill(inner + used, line + cells + 2 * W, Way::start());
    const auto start = S::set1(Way::start());
    int64_t i = 0;
    for (; i + W <= used; i += W) {
      auto so = start;
      for (int64_t r = 0; r < rows; ++r) so = Way::take(so, S::load(sources[r] + i));
      S::store(inner + i, so);
    }
    for (; i < used; ++i) {
      T so = Way::start();
      for (int64_t r = 0; r < rows; ++r) so = Way::take(so, sources[r][i]);
      inner[i] = so;
    }
  }
  void scan(const T *line, T *out, int64_t n) const {
    const auto start = S::set1(Way::start());
    int64_t w = 0;
    if (step_ == 1)
      for (; w + W <= n; w += W) {
        auto so = start;
        for (int64_t k = 0; k < g_.kernel[2]; ++k) so = Way::take(so, S::load(line + w + k * g_.dilation[2]));
        S::store(out + w, so);
      }
    if constexpr (sizeof(T) == 4)
      if (step_ == 2)
        for (; w + W <= n; w += W) {
          auto so = start;
          for (int64_t k = 0; k < g_.kernel[2]; ++k)
            so = Way::take(so, loadEverySecond(line + 2 * w + k * g_.dilation[2]));
          S::store(out + w, so);
        }
    for (; w < n; ++w) {
      T so = Way::start();
      for (int64_t k = 0; k < g_.kernel[2]; ++k) so = Way::take(so, line[w * step_ + k * g_.dilation[2]]);
      out[w] = so;
    }
  }

  const PoolTables &t_;
  const PoolGeometry &g_;
  int64_t step_ = g_.stride[2], reach_ = g_.dilation[2] * (g_.kernel[2] - 1) + 1;
  bool inLines_ = false;
  int64_t length_ = 1; // of a piece
};

/// All of them; done(outputs, d, h, first, n) finishes a piece, columns first to first + n - 1.
template <class T, class Way, class Done>
void poolRows(DeviceCtx *d, const PoolTables &t, const T *x, T *y, Done done) {
  const PoolGeometry &g = t.g;
  const PoolPieces<T, Way> pieces(t);
  const int64_t count = pieces.count(), cost = g.in[2] * g.kernel[0] * g.kernel[1] + g.out[2] * g.kernel[2];
  forRows(d, g, g.batch * g.channels * count, cost / std::max<int64_t>(1, count),
          [&](int64_t p, int64_t od, int64_t oh) {
            const int64_t plane = count == 1 ? p : p / count, piece = p - plane * count;
            T *row = y + plane * g.outPlane() + (od * g.out[1] + oh) * g.out[2];
            pieces.pool(x + plane * g.inPlane(), row, t.at(0, od), t.at(1, oh), piece);
            const int64_t first = pieces.first(piece);
            done(row + first, od, oh, first, pieces.last(piece) - first);
          });
}

/// Pixels of channels_last tensors, four vectors of channels in registers at a time. done(pixel, channels, d, h, w)
/// finishes them.
template <class T, class Way, class Done>
void poolPixels(DeviceCtx *d, const PoolTables &t, const T *x, T *y, Done done) {
  using S = Simd<T>;
  constexpr int64_t kBlock = 4 * S::kWidth;
  const PoolGeometry &g = t.g;
  forRows(d, g, g.batch, g.out[2] * taps(g) * g.channels, [&](int64_t n, int64_t od, int64_t oh) {
    const T *from = x + n * g.inPlane() * g.channels;
    const Window wd = t.at(0, od), wh = t.at(1, oh);
    for (int64_t ow = 0; ow < g.out[2]; ++ow) {
      T *pixel = y + (((n * g.out[0] + od) * g.out[1] + oh) * g.out[2] + ow) * g.channels;
      const Window ww = t.at(2, ow);
      for (int64_t c = 0; c < g.channels; c += kBlock) {
        const int64_t width = std::min(kBlock, g.channels - c);
        typename S::V v0 = S::set1(Way::start()), v1 = v0, v2 = v0, v3 = v0;
        T so[kBlock];
        for (T &v : so) v = Way::start();
        for (int64_t id = wd.begin; id < wd.end; id += g.dilation[0])
          for (int64_t ih = wh.begin; ih < wh.end; ih += g.dilation[1])
            for (int64_t iw = ww.begin; iw < ww.end; iw += g.dilation[2]) {
              const T *tap = from + ((id * g.in[1] + ih) * g.in[2] + iw) * g.channels + c;
              if (width == kBlock) {
                v0 = Way::take(v0, S::load(tap));
                v1 = Way::take(v1, S::load(tap + S::kWidth));
                v2 = Way::take(v2, S::load(tap + 2 * S::kWidth));
                v3 = Way::take(v3, S::load(tap + 3 * S::kWidth));
              } else {
                takeRow<Way>(so, tap, width);
              }
            }
        if (width == kBlock) {
          S::store(pixel + c, v0);
          S::store(pixel + c + S::kWidth, v1);
          S::store(pixel + c + 2 * S::kWidth, v2);
          S::store(pixel + c + 3 * S::kWidth, v3);
        } else {
          std::copy_n(so, width, pixel + c);
        }
      }
      done(pixel, od, oh, ow);
    }
  });
}

} // namespace opc::ops
