// The blocked matrix product. Blocks may be handed to threads in any way: each element's sum has one order.
// SPDX-License-Identifier: Apache-2.0
#include "Gemm.h"
#include "DnnlGemm.h"
#include "GemmMicroKernel.h"
#include "GemmTilesV4.h"

#include "opc/PackedInputs.h"
#include "opc/ProcessorLevel.h"

#include <algorithm>
#include <cstring>

namespace opc::cpu {
namespace {

/// Of integers a whole number, which wraps around.
template <class T> T factor(double alpha) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<int64_t>(alpha));
  else
    return static_cast<T>(alpha);
}

// One tile's part of a (kMaxRowsPerTile x kDepth) and of b (kDepth x kMaxColumnsPerTile) fit the second-level cache
// together.
constexpr int64_t kMaxRowsPerTile = 96;
constexpr int64_t kMaxColumnsPerTile = 256;
constexpr int64_t kDepth = 256;
// Products below this many multiply-adds stay on one thread: waking another costs more.
constexpr int64_t kWorthThreads = 64 * 1024;

/// Whether the inner kernels are those for AVX-512, which have the same bits.
template <class T> bool isWide() {
  static const bool wide = std::is_same_v<T, float> && usesLevelV4();
  return wide;
}
template <class T> int64_t tileRows() { return isWide<T>() ? kTileRowsV4 : kTileRows; }

int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// The grain that keeps `total` units of `costEach` multiply-adds on one thread when they are little work.
int64_t grainFor(int64_t costEach) { return std::max<int64_t>(1, kWorthThreads / std::max<int64_t>(costEach, 1)); }

/// to[q][j] = from[j][q] for an 8 by 8 block; rows are `fromStride` and `toStride` apart.
void transpose8x8(const float *from, int64_t fromStride, float *to, int64_t toStride) {
  __m256 r[8], t[8];
  for (int i = 0; i < 8; ++i) r[i] = _mm256_loadu_ps(from + i * fromStride);
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
    r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
    r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
  for (int i = 0; i < 4; ++i) {
    _mm256_storeu_ps(to + i * toStride, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
    _mm256_storeu_ps(to + (i + 4) * toStride, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
  }
}

/// One panel of op(b): columns [j0, j0 + panel) of rows [p0, p1), zeros beyond n.
template <class T>
void packPanel(const T *b, bool trans, int64_t k, int64_t n, int64_t j0, int64_t p0, int64_t p1, T *to) {
  constexpr int64_t NR = kPanel<T>;
  const int64_t columns = std::min(NR, n - j0);
  if (!trans) {
    for (int64_t p = p0; p < p1; ++p, to += NR) {
      const T *row = b + p * n + j0;
      if (columns == NR) {
        std::memcpy(to, row, sizeof(T) * NR);
      } else {
        for (int64_t j = 0; j < columns; ++j) to[j] = row[j];
        for (int64_t j = columns; j < NR; ++j) to[j] = T(0);
      }
    }
    return;
  }
  for (int64_t p = p0; p < p1; p += 8) {
    const int64_t depth = std::min<int64_t>(8, p1 - p);
    T *block = to + (p - p0) * NR;
    if constexpr (std::is_same_v<T, float>)
      if (columns == NR && depth == 8) {
        transpose8x8(b + j0 * k + p, k, block, NR);
        transpose8x8(b + (j0 + 8) * k + p, k, block + 8, NR);
        continue;
      }
    for (int64_t j = 0; j < NR; ++j) {
      T *column = block + j;
      if (j < columns) {
        const T *row = b + (j0 + j) * k + p;
        for (int64_t q = 0; q < depth; ++q) column[q * NR] = row[q];
      } else {
        for (int64_t q = 0; q < depth; ++q) column[q * NR] = T(0);
      }
    }
  }
}

} // namespace

template <class T>
Gemm<T>::Gemm(const GemmShape &shape, GemmBatch batch, const T *constantB, const std::string &packKey, int threads)
    : s_(shape), batch_(std::move(batch)) {
  constexpr int64_t NR = kPanel<T>;
  const int64_t panels = ceilDiv(s_.n, NR);
  const bool oneB = std::all_of(batch_.b.begin(), batch_.b.end(), [&](int64_t o) { return o == batch_.b[0]; });
  panelStride_ = panels * NR * s_.k;
  if (s_.m == 0 || s_.n == 0 || batch_.size() == 0 || s_.k == 0) {
    path_ = Path::kEmpty;
    return;
  }
  // Enough tiles for the threads to share evenly, but none smaller than what a micro-kernel needs to run at speed, and
  // rather narrow than low ones: the rows of a tile share what is read of b.
  rowsPerTile_ = kMaxRowsPerTile;
  columnsPerTile_ = kMaxColumnsPerTile;
  const int64_t wanted = 16 * int64_t{std::max(threads, 2)};
  const auto tiles = [&] {
    return static_cast<int64_t>(batch_.size()) * ceilDiv(s_.m, rowsPerTile_) * ceilDiv(s_.n, columnsPerTile_);
  };
  while (tiles() < wanted && columnsPerTile_ > 4 * NR && s_.n > columnsPerTile_ / 2) columnsPerTile_ /= 2;
  while (tiles() < wanted && rowsPerTile_ > 4 * kTileRows && s_.m > rowsPerTile_ / 2) rowsPerTile_ /= 2;
  // As high as one another: a last tile of a few rows would read all of b for them.
  const int64_t even = ceilDiv(s_.m, ceilDiv(s_.m, rowsPerTile_));
  rowsPerTile_ = ceilDiv(even, tileRows<T>()) * tileRows<T>();
  if (s_.n == 1 && (!s_.transA || s_.m == 1)) {
    path_ = Path::kColumn;
    return;
  }
  if constexpr (std::is_same_v<T, float>)
    if (DnnlGemm::leads(s_, constantB && oneB)) {
      library_ = std::make_unique<DnnlGemm>(s_, batch_, constantB, packKey, threads);
      path_ = Path::kLibrary;
      return;
    }
  if (constantB && oneB && s_.n >= NR / 2) {
    packConstant(constantB + batch_.b[0], panels, packKey);
    path_ = s_.m == 1 ? Path::kRowPacked : Path::kTiles;
    return;
  }
  if (s_.transB && s_.m <= 4 && (!s_.transA || s_.m == 1)) {
    path_ = Path::kRow;
    return;
  }
  if (!s_.transB && s_.m == 1) {
    path_ = Path::kRowStream;
    return;
  }
  // Packing pays when b is used by several rows of tiles or does not fit the first-level cache as it lies.
  if (oneB && s_.m >= 16 && s_.n * s_.k > 4096) {
    packedB_ = Scratch<T>(panelStride_);
    packInRun_ = true;
  } else if (s_.transB || (s_.m >= 16 && s_.n * s_.k > 16384)) {
    // What a tile packs serves its own rows only: tall tiles, as long as they are many.
    packInTile_ = true;
    rowsPerTile_ = ceilDiv(s_.m, tileRows<T>()) * tileRows<T>();
    columnsPerTile_ = kMaxColumnsPerTile;
    while (tiles() < 32 && columnsPerTile_ > 2 * NR) columnsPerTile_ /= 2;
    while (tiles() < 32 && rowsPerTile_ > kMaxRowsPerTile)
      rowsPerTile_ = ceilDiv(rowsPerTile_ / 2, tileRows<T>()) * tileRows<T>();
  }
}

template <class T> void Gemm<T>::packConstant(const T *b, int64_t panels, const std::string &packKey) {
  std::string key = packKey;
  const auto add = [&](const auto &value) { key.append(reinterpret_cast<const char *>(&value), sizeof value); };
  if (!key.empty()) key += "panels", add(sizeof(T)), add(s_.n), add(s_.k), add(s_.transB);
  constantB_ = user_op::sharedPack(key, [&] {
    auto pack = std::make_shared<Scratch<T>>(panelStride_);
    packPanels(b, pack->get(), 0, panels);
    return std::shared_ptr<const void>(pack, pack->get());
  });
  packed_ = true;
}

template <class T> Gemm<T>::~Gemm() = default;
template <class T> bool Gemm<T>::hasPackedB() const { return packed_ || (library_ && library_->hasPackedB()); }
template <class T> Gemm<T>::Gemm(Gemm &&) noexcept = default;

template <class T> void Gemm<T>::packPanels(const T *b, T *packed, int64_t begin, int64_t end) const {
  constexpr int64_t NR = kPanel<T>;
  for (int64_t j = begin; j < end; ++j) packPanel(b, s_.transB, s_.k, s_.n, j * NR, 0, s_.k, packed + j * NR * s_.k);
}

template <class T>
void Gemm<T>::tile(const T *a, const T *b, const T *packed, T *c, int64_t m0, int64_t m1, int64_t n0,
                   int64_t n1) const {
  constexpr int64_t NR = kPanel<T>;
  const int64_t rowStride = s_.transA ? 1 : s_.k, columnStride = s_.transA ? s_.m : 1;
  const T alpha = factor<T>(s_.alpha);
  alignas(64) T panel[kDepth * NR]; // one panel at a time: it is used by all rows of the tile
  // Eight rows are four and four, not six and two, which would wait for b.
  const int64_t height = ceilDiv(m1 - m0, ceilDiv(m1 - m0, tileRows<T>()));
  constexpr int64_t kAhead = 64; // rows of a panel
  // Few rows read b from memory: in its order. Pairs of panels are for some more; of tall tiles they would not stay in
  // the first cache.
  const bool isLow = packed && m1 - m0 <= (isWide<T>() ? 1 : 2) * tileRows<T>();
  const int64_t panels = isWide<T>() && packed && m1 - m0 <= 4 * tileRows<T>() ? 2 : 1;
  // Nothing behind the last panel is asked for: pages that are not there are looked for in vain each time.
  const auto isThere = [&](const T *rows, int64_t count) {
    return rows + count * NR <= packed + panelStride_ - (panels - 1) * NR * s_.k;
  };
  // What comes behind a panel's part: the next panel's, or the first one's of the rows of b that follow.
  const auto nextOf = [&](int64_t p0, int64_t j, int64_t depth) -> const T * {
    const bool isLast = j + panels * NR >= n1;
    if (isLast && p0 + kDepth >= s_.k) return nullptr;
    const T *next = isLast ? packed + n0 * s_.k + (p0 + kDepth) * NR : packed + (j + panels * NR) * s_.k + p0 * NR;
    return isThere(next, depth) ? next : nullptr;
  };
  const auto multiply = [&](int64_t p0, int64_t j) {
    const int64_t depth = std::min(kDepth, s_.k - p0), columns = std::min(panels * NR, n1 - j);
    const bool accumulate = s_.accumulate || p0 > 0;
    const T *bPanel;
    int64_t ldb = NR;
    bool masked = false;
    if (packed) {
      bPanel = packed + j * s_.k + p0 * NR;
    } else if (packInTile_) {
      packPanel(b, s_.transB, s_.k, s_.n, j, p0, p0 + depth, panel);
      bPanel = panel;
    } else {
      bPanel = b + p0 * s_.n + j;
      ldb = s_.n;
      masked = columns < NR;
    }
    // Meanwhile what comes next is on its way from memory: all of it behind the first rows, or a part behind each.
    const int64_t tall = ceilDiv(m1 - m0, height);
    const T *const next = packed && !isLow ? nextOf(p0, j, depth) : nullptr;
    for (int64_t i = m0, t = 0; i < m1; i += height, ++t) {
      const int64_t rows = std::min(height, m1 - i);
      const T *ahead = bPanel;
      int64_t aheadStep = 0;
      if (isLow && i == m0 && isThere(bPanel, depth + kAhead))
        ahead += kAhead * NR, aheadStep = NR;
      else if (next)
        ahead = next + NR * (depth * t / tall), aheadStep = std::max<int64_t>(NR / tall, 1);
      const T *const from = a + i * rowStride + p0 * columnStride;
      T *const to = c + i * s_.n + j;
      if constexpr (std::is_same_v<T, float>)
        if (isWide<T>()) {
          const float *const second = panels == 2 && j + NR < n1 ? bPanel + NR * s_.k : nullptr;
          kGemmTilesV4[static_cast<size_t>(rows - 1)]({depth, from, rowStride, columnStride, bPanel, second, ldb, to,
                                                       s_.n, columns, alpha, accumulate, ahead, aheadStep});
          continue;
        }
      kGemmTiles<T>[masked][static_cast<size_t>(rows - 1)](depth, from, rowStride, columnStride, bPanel, ldb, to, s_.n,
                                                           columns, alpha, accumulate, ahead, aheadStep);
    }
  };
  if (isLow) {
    for (int64_t j = n0; j < n1; j += panels * NR)
      for (int64_t p0 = 0; p0 < s_.k; p0 += kDepth) multiply(p0, j);
  } else {
    for (int64_t p0 = 0; p0 < s_.k; p0 += kDepth)
      for (int64_t j = n0; j < n1; j += panels * NR) multiply(p0, j);
  }
}

template <class T> void Gemm<T>::clear(DeviceCtx *ctx, T *c) const {
  if (s_.accumulate) return;
  for (size_t i = 0; i < batch_.size(); ++i) std::fill_n(c + batch_.c[i], s_.m * s_.n, T(0));
}

/// One row times packed panels: four panels at a time, so that eight multiply-adds are under way.
template <class T>
static void rowTimesPanels(int64_t k, const T *x, const T *packed, int64_t panel0, int64_t panel1, int64_t n, T *c,
                           T alpha, bool accumulate) {
  using S = Simd<T>;
  using V = typename S::V;
  constexpr int W = S::kWidth;
  constexpr int64_t NR = kPanel<T>;
  int64_t j = panel0;
  for (; j + 4 <= panel1 && (j + 4) * NR <= n; j += 4) {
    const T *b0 = packed + j * NR * k, *b1 = b0 + NR * k, *b2 = b1 + NR * k, *b3 = b2 + NR * k;
    V v[8];
    for (V &y : v) y = S::zero();
    for (int64_t p = 0; p < k; ++p) {
      const V a = S::set1(x[p]);
      const int64_t o = p * NR;
      v[0] = S::fma(a, S::load(b0 + o), v[0]);
      v[1] = S::fma(a, S::load(b0 + o + W), v[1]);
      v[2] = S::fma(a, S::load(b1 + o), v[2]);
      v[3] = S::fma(a, S::load(b1 + o + W), v[3]);
      v[4] = S::fma(a, S::load(b2 + o), v[4]);
      v[5] = S::fma(a, S::load(b2 + o + W), v[5]);
      v[6] = S::fma(a, S::load(b3 + o), v[6]);
      v[7] = S::fma(a, S::load(b3 + o + W), v[7]);
    }
    T *out = c + j * NR;
    for (int q = 0; q < 8; ++q) {
      V r = v[q];
      if (alpha != T(1)) r = S::mul(r, S::set1(alpha));
      if (accumulate) r = S::add(r, S::load(out + q * W));
      S::store(out + q * W, r);
    }
  }
  for (; j < panel1; ++j) {
    const T *const panel = packed + j * NR * k;
    const bool isLast = (j + 1) * NR >= n; // nothing behind it is asked for
    gemmTile<T, 1, false>(k, x, 0, 1, panel, NR, c + j * NR, n, std::min(NR, n - j * NR), alpha, accumulate,
                          isLast ? panel : panel + NR * k, isLast ? 0 : NR);
  }
}

/// One row times b as it lies: four rows of b are added to the result at a time.
template <class T>
static void rowTimesStream(int64_t k, const T *x, const T *b, int64_t n, int64_t j0, int64_t j1, T *c, T alpha,
                           bool accumulate) {
  T sum[512];
  for (int64_t j = j0; j < j1; j += 512) {
    const int64_t width = std::min<int64_t>(512, j1 - j);
    std::fill_n(sum, width, T(0));
    int64_t p = 0;
    for (; p + 4 <= k; p += 4) {
      const T x0 = x[p], x1 = x[p + 1], x2 = x[p + 2], x3 = x[p + 3];
      const T *r0 = b + p * n + j, *r1 = r0 + n, *r2 = r1 + n, *r3 = r2 + n;
      for (int64_t q = 0; q < width; ++q) sum[q] = (((sum[q] + x0 * r0[q]) + x1 * r1[q]) + x2 * r2[q]) + x3 * r3[q];
    }
    for (; p < k; ++p)
      for (int64_t q = 0; q < width; ++q) sum[q] += x[p] * b[p * n + j + q];
    for (int64_t q = 0; q < width; ++q) {
      const T s = alpha != T(1) ? sum[q] * alpha : sum[q];
      c[j + q] = accumulate ? c[j + q] + s : s;
    }
  }
}

template <class T> void Gemm<T>::run(DeviceCtx *ctx, const T *a, const T *b, T *c) const {
  constexpr int64_t NR = kPanel<T>;
  const int64_t batches = static_cast<int64_t>(batch_.size());
  const T alpha = factor<T>(s_.alpha);
  const auto at = [](const std::vector<int64_t> &offsets, int64_t i) { return offsets[static_cast<size_t>(i)]; };
  switch (path_) {
  case Path::kEmpty: return clear(ctx, c);
  case Path::kColumn: // c = a * column: dot products of a's rows with b, which is one run of k elements
    for (int64_t i = 0; i < batches; ++i)
      ctx->parallelFor(s_.m, grainFor(s_.k), [&](int64_t m0, int64_t m1) {
        gemmDots(s_.k, b + at(batch_.b, i), a + at(batch_.a, i) + m0 * s_.k, m1 - m0, c + at(batch_.c, i) + m0, 1,
                 alpha, s_.accumulate);
      });
    return;
  case Path::kRow:
    ctx->parallelFor(batches * s_.n, std::max<int64_t>(4, grainFor(s_.k * s_.m)), [&](int64_t begin, int64_t end) {
      while (begin < end) {
        const int64_t i = begin / s_.n, j0 = begin % s_.n, j1 = std::min(s_.n, j0 + end - begin);
        for (int64_t m = 0; m < s_.m; ++m)
          gemmDots(s_.k, a + at(batch_.a, i) + m * s_.k, b + at(batch_.b, i) + j0 * s_.k, j1 - j0,
                   c + at(batch_.c, i) + m * s_.n + j0, 1, alpha, s_.accumulate);
        begin += j1 - j0;
      }
    });
    return;
  case Path::kRowStream: {
    const int64_t blocks = ceilDiv(s_.n, 512);
    ctx->parallelFor(batches * blocks, grainFor(s_.k * 512), [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const int64_t i = t / blocks, j0 = t % blocks * 512;
        rowTimesStream(s_.k, a + at(batch_.a, i), b + at(batch_.b, i), s_.n, j0, std::min(s_.n, j0 + 512),
                       c + at(batch_.c, i), alpha, s_.accumulate);
      }
    });
    return;
  }
  case Path::kRowPacked: {
    const int64_t groups = ceilDiv(s_.n, 4 * NR), panels = ceilDiv(s_.n, NR);
    ctx->parallelFor(batches * groups, grainFor(s_.k * 4 * NR), [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const int64_t i = t / groups, p0 = t % groups * 4;
        rowTimesPanels(s_.k, a + at(batch_.a, i), packedPanels(), p0, std::min(panels, p0 + 4), s_.n,
                       c + at(batch_.c, i), alpha, s_.accumulate);
      }
    });
    return;
  }
  case Path::kLibrary:
    if constexpr (std::is_same_v<T, float>) library_->run(ctx, a, b, c);
    return;
  case Path::kTiles: break;
  }
  const T *packed = packed_ || packInRun_ ? packedPanels() : nullptr;
  if (packInRun_)
    ctx->parallelFor(ceilDiv(s_.n, NR), grainFor(s_.k * NR),
                     [&](int64_t begin, int64_t end) { packPanels(b + batch_.b[0], packedB_.get(), begin, end); });
  const int64_t mTiles = ceilDiv(s_.m, rowsPerTile_), nTiles = ceilDiv(s_.n, columnsPerTile_);
  const int64_t cost = std::min(s_.m, rowsPerTile_) * std::min(s_.n, columnsPerTile_) * s_.k;
  ctx->parallelFor(batches * mTiles * nTiles, grainFor(cost), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t i = t / (mTiles * nTiles), m0 = t % mTiles * rowsPerTile_,
                    n0 = t / mTiles % nTiles * columnsPerTile_;
      tile(a + at(batch_.a, i), b ? b + at(batch_.b, i) : nullptr, packed, c + at(batch_.c, i), m0,
           std::min(s_.m, m0 + rowsPerTile_), n0, std::min(s_.n, n0 + columnsPerTile_));
    }
  });
}

template class Gemm<float>;
template class Gemm<double>;
template class Gemm<int32_t>;

} // namespace opc::cpu
