// Strided copies: dimension merging, runs of bytes, tiled transposition, and the general loop.
// SPDX-License-Identifier: Apache-2.0
#include "support/StridedCopy.h"

#include "CudaLaunch.h"
#include "opc/Maybe.h"
#include "support/StridedCopyArguments.h"

#include <algorithm>
#include <cstring>
#include <immintrin.h>

namespace opc::ops {
namespace {

constexpr int64_t kMostInterleaved = 4;

// Work below this many bytes is not worth a second thread.
constexpr int64_t kGrainBytes = 64 * 1024;

/// Walks the offsets of a box of outer dimensions, from any starting row.
template <class Dims> class Odometer {
public:
  Odometer(const Dims &dims, int64_t row) : dims_(dims) {
    for (size_t k = dims.size(); k-- > 0;) {
      index_[k] = row % dims[k].size;
      row /= dims[k].size;
      src += index_[k] * dims[k].src;
      dst += index_[k] * dims[k].dst;
    }
  }
  void next() {
    for (size_t k = dims_.size(); k-- > 0;) {
      src += dims_[k].src;
      dst += dims_[k].dst;
      if (++index_[k] < dims_[k].size) return;
      src -= dims_[k].src * dims_[k].size;
      dst -= dims_[k].dst * dims_[k].size;
      index_[k] = 0;
    }
  }
  int64_t src = 0, dst = 0;

private:
  const Dims &dims_;
  int64_t index_[kMaxRank + 1];
};

/// A general tile: rows of the source become columns of the destination.
template <class T>
void transposeTile(const T *src, int64_t srcStride, T *dst, int64_t dstStride, int64_t rows, int64_t cols) {
  // dst[c * dstStride + r] = src[r * srcStride + c]
  for (int64_t c = 0; c < cols; ++c)
    for (int64_t r = 0; r < rows; ++r) dst[c * dstStride + r] = src[r * srcStride + c];
}

/// R rows become R neighbours: the few channels of an image. The compiler makes shuffles of it, for a constant R.
template <size_t R, class T> void interleave(const T *src, int64_t srcStride, T *dst, int64_t n) {
  for (int64_t c = 0; c < n; ++c)
    for (size_t r = 0; r < R; ++r)
      dst[c * static_cast<int64_t>(R) + static_cast<int64_t>(r)] = src[static_cast<int64_t>(r) * srcStride + c];
}

/// 8 x 8 elements of 4 bytes in registers.
inline void transpose8x8(const uint32_t *src, int64_t ss, __m256 out[8]) {
  __m256 r[8], t[8];
  for (int i = 0; i < 8; ++i) r[i] = _mm256_loadu_ps(reinterpret_cast<const float *>(src + i * ss));
  for (int i = 0; i < 4; ++i) {
    t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
  }
  for (int h = 0; h < 2; ++h) {
    r[4 * h + 0] = _mm256_shuffle_ps(t[4 * h], t[4 * h + 2], 0x44);
    r[4 * h + 1] = _mm256_shuffle_ps(t[4 * h], t[4 * h + 2], 0xee);
    r[4 * h + 2] = _mm256_shuffle_ps(t[4 * h + 1], t[4 * h + 3], 0x44);
    r[4 * h + 3] = _mm256_shuffle_ps(t[4 * h + 1], t[4 * h + 3], 0xee);
  }
  for (int i = 0; i < 4; ++i) {
    out[i] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x20);
    out[i + 4] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x31);
  }
}

/// Full 16 x 16 tiles write whole cache lines; `stream` bypasses the cache, which saves the read of each line.
void transposeTile16(const uint32_t *src, int64_t ss, uint32_t *dst, int64_t ds, bool stream) {
  for (int half = 0; half < 2; ++half) {
    __m256 lo[8], hi[8];
    transpose8x8(src + 8 * half, ss, lo);
    transpose8x8(src + 8 * half + 8 * ss, ss, hi);
    for (int i = 0; i < 8; ++i) {
      float *line = reinterpret_cast<float *>(dst + (8 * half + i) * ds);
      if (stream) {
        _mm256_stream_ps(line, lo[i]);
        _mm256_stream_ps(line + 8, hi[i]);
      } else {
        _mm256_storeu_ps(line, lo[i]);
        _mm256_storeu_ps(line + 8, hi[i]);
      }
    }
  }
}

template <class T> void copyRun(const T *src, int64_t ss, T *dst, int64_t ds, int64_t n) {
  if (ss == 1 && ds == 1) {
    std::memcpy(dst, src, static_cast<size_t>(n) * sizeof(T));
  } else if (ss == 0 && ds == 1) {
    std::fill_n(dst, n, *src);
  } else if (ss == -1 && ds == 1) {
    for (int64_t i = 0; i < n; ++i) dst[i] = src[-i];
  } else if (ds == 1) {
    for (int64_t i = 0; i < n; ++i) dst[i] = src[i * ss];
  } else if (ss == 1) {
    for (int64_t i = 0; i < n; ++i) dst[i * ds] = src[i];
  } else {
    for (int64_t i = 0; i < n; ++i) dst[i * ds] = src[i * ss];
  }
}

} // namespace

DimVector StridedCopy::contiguous(const DimVector &dims) {
  DimVector s(dims.size());
  int64_t n = 1;
  for (size_t i = dims.size(); i-- > 0;) s[i] = n, n *= dims[i];
  return s;
}

StridedCopy::StridedCopy(size_t elementSize, const DimVector &dims, const DimVector &srcStrides,
                         const DimVector &dstStrides)
    : elementSize_(elementSize) {
  std::vector<Dim> merged;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 0) return;
    if (dims[i] == 1) continue;
    const Dim d{dims[i], srcStrides[i], dstStrides[i]};
    if (!merged.empty() && merged.back().src == d.src * d.size && merged.back().dst == d.dst * d.size)
      merged.back() = {merged.back().size * d.size, d.src, d.dst};
    else
      merged.push_back(d);
  }
  if (merged.empty()) merged.push_back({1, 1, 1});
  inner_ = merged.back();
  merged.pop_back();
  loop_ = inner_.src == 1 && inner_.dst == 1 ? Loop::kBytes : Loop::kStrided;
  if (loop_ == Loop::kStrided && inner_.dst == 1)
    for (size_t k = merged.size(); k-- > 0;)
      if (merged[k].src == 1 && merged[k].size >= 4) {
        const bool isDense = merged[k].dst == inner_.size && inner_.size <= kMostInterleaved;
        if (!isDense && inner_.size < 4) break;
        tile_ = merged[k];
        merged.erase(merged.begin() + static_cast<int64_t>(k));
        loop_ = isDense ? Loop::kInterleave : Loop::kTiles;
        break;
      }
  outer_ = std::move(merged);
  for (const Dim &d : outer_) rows_ *= d.size;
}

void StridedCopy::run(const DeviceCtx *ctx, const void *src, void *dst) const {
  auto typed = [&](auto tag) {
    using T = decltype(tag);
    const T *s = static_cast<const T *>(src);
    T *d = static_cast<T *>(dst);
    if (loop_ == Loop::kTiles)
      runTiles(ctx, s, d);
    else if (loop_ == Loop::kInterleave)
      runInterleave(ctx, s, d);
    else
      runStrided(ctx, s, d);
  };
  if (loop_ != Loop::kEmpty && ctx->device_type() == DeviceType::kGPU) return runOnGpu(ctx, src, dst);
  switch (loop_) {
  case Loop::kEmpty: return;
  case Loop::kBytes: return runBytes(ctx, static_cast<const char *>(src), static_cast<char *>(dst));
  default: break;
  }
  switch (elementSize_) {
  case 1: return typed(uint8_t{});
  case 2: return typed(uint16_t{});
  case 4: return typed(uint32_t{});
  case 8: return typed(uint64_t{});
  default: throw ContractError("elements of " + std::to_string(elementSize_) + " bytes cannot be moved");
  }
}

void StridedCopy::runOnGpu(const DeviceCtx *ctx, const void *src, void *dst) const {
  cuda::CudaLaunch &device = cuda::CudaLaunch::of(ctx);
  if (loop_ == Loop::kBytes && rows_ == 1)
    return device.copy(dst, src, static_cast<size_t>(inner_.size) * elementSize_);
  StridedCopyArguments a{};
  a.src = src;
  a.dst = dst;
  a.n = 1;
  auto add = [&a](const Dim &d) {
    a.dims[a.rank] = d.size;
    a.srcStrides[a.rank] = d.src;
    a.dstStrides[a.rank++] = d.dst;
    a.n *= d.size;
  };
  for (const Dim &d : outer_) add(d);
  if (loop_ == Loop::kTiles || loop_ == Loop::kInterleave) add(tile_);
  add(inner_);
  const std::string bytes = std::to_string(elementSize_);
  if (loop_ == Loop::kTiles && tile_.size >= kTransposeTile / 2 && inner_.size >= kTransposeTile / 2) {
    const auto tiles = [](const Dim &d) { return (d.size + kTransposeTile - 1) / kTransposeTile; };
    a.tiles = rows_ * tiles(tile_) * tiles(inner_);
    const auto grid = static_cast<uint32_t>(std::min<int64_t>(a.tiles, INT32_MAX));
    return device.run(device.function("transpose_tiles_" + bytes), {grid, 1, 1}, {kTransposeThreads, 1, 1}, 0, a);
  }
  device.run(device.function("strided_copy_" + bytes), cuda::blocksFor(a.n), {cuda::kBlock, 1, 1}, 0, a);
}

void StridedCopy::runBytes(const DeviceCtx *ctx, const char *src, char *dst) const {
  const int64_t size = static_cast<int64_t>(elementSize_), bytes = inner_.size * size;
  if (rows_ == 1) return copyBytes(ctx, src, dst, bytes);
  ctx->parallelFor(rows_, std::max<int64_t>(1, kGrainBytes / bytes), [&](int64_t begin, int64_t end) {
    Odometer o(outer_, begin);
    for (int64_t r = begin; r < end; ++r, o.next()) {
      const char *s = src + o.src * size;
      char *d = dst + o.dst * size;
      // A call to memcpy costs more than the copy of a few bytes.
      if (bytes == 4)
        std::memcpy(d, s, 4);
      else if (bytes == 8)
        std::memcpy(d, s, 8);
      else if (bytes == 16)
        std::memcpy(d, s, 16);
      else
        std::memcpy(d, s, static_cast<size_t>(bytes));
    }
  });
}

template <class T> void StridedCopy::runStrided(const DeviceCtx *ctx, const T *src, T *dst) const {
  constexpr int64_t kChunk = kGrainBytes / static_cast<int64_t>(sizeof(T));
  const int64_t perRow = (inner_.size + kChunk - 1) / kChunk; // long rows are cut
  ctx->parallelFor(rows_ * perRow, std::max<int64_t>(1, kChunk / inner_.size), [&](int64_t begin, int64_t end) {
    Odometer o(outer_, begin / perRow);
    int64_t part = begin % perRow;
    for (int64_t u = begin; u < end; ++u) {
      const int64_t lo = part * kChunk, hi = std::min(inner_.size, lo + kChunk);
      copyRun(src + o.src + lo * inner_.src, inner_.src, dst + o.dst + lo * inner_.dst, inner_.dst, hi - lo);
      if (++part == perRow) part = 0, o.next();
    }
  });
}

template <class T> void StridedCopy::runTiles(const DeviceCtx *ctx, const T *src, T *dst) const {
  // Squares of kTile make whole cache lines; kBlock of them in both directions keep the pages of one unit in the TLB.
  constexpr int64_t kTile = 16, kBlock = 128;
  const int64_t across = (tile_.size + kBlock - 1) / kBlock, down = (inner_.size + kBlock - 1) / kBlock,
                blocks = across * down;
  const int64_t blockBytes =
      std::min(kBlock, tile_.size) * std::min(kBlock, inner_.size) * static_cast<int64_t>(sizeof(T));
  const bool aligned = (reinterpret_cast<uintptr_t>(dst) & 31) == 0 && tile_.dst % 8 == 0 &&
                       std::all_of(outer_.begin(), outer_.end(), [](const Dim &d) { return d.dst % 8 == 0; });
  const bool stream = sizeof(T) == 4 && aligned && rows_ * blocks * blockBytes > (8 << 20);
  ctx->parallelFor(rows_ * blocks, std::max<int64_t>(1, kGrainBytes / blockBytes), [&](int64_t begin, int64_t end) {
    Odometer o(outer_, begin / blocks);
    int64_t block = begin % blocks;
    for (int64_t u = begin; u < end; ++u) {
      const int64_t cBegin = block / down * kBlock, cEnd = std::min(tile_.size, cBegin + kBlock);
      const int64_t rBegin = block % down * kBlock, rEnd = std::min(inner_.size, rBegin + kBlock);
      for (int64_t c0 = cBegin; c0 < cEnd; c0 += kTile)
        for (int64_t r0 = rBegin; r0 < rEnd; r0 += kTile) {
          const int64_t rows = std::min(kTile, rEnd - r0), cols = std::min(kTile, cEnd - c0);
          const T *s = src + o.src + r0 * inner_.src + c0;
          T *d = dst + o.dst + c0 * tile_.dst + r0;
          if constexpr (sizeof(T) == 4) {
            if (rows == kTile && cols == kTile) {
              transposeTile16(s, inner_.src, d, tile_.dst, stream);
              continue;
            }
          }
          transposeTile(s, inner_.src, d, tile_.dst, rows, cols);
        }
      if (++block == blocks) block = 0, o.next();
    }
    if (stream) _mm_sfence();
  });
}

template <class T> void StridedCopy::runInterleave(const DeviceCtx *ctx, const T *src, T *dst) const {
  constexpr int64_t kChunk = kGrainBytes / static_cast<int64_t>(sizeof(T)) / kMostInterleaved;
  const int64_t perRow = (tile_.size + kChunk - 1) / kChunk;
  ctx->parallelFor(rows_ * perRow, std::max<int64_t>(1, kChunk / tile_.size), [&](int64_t begin, int64_t end) {
    Odometer o(outer_, begin / perRow);
    int64_t part = begin % perRow;
    for (int64_t u = begin; u < end; ++u) {
      const int64_t lo = part * kChunk, n = std::min(kChunk, tile_.size - lo);
      const T *s = src + o.src + lo;
      T *d = dst + o.dst + lo * tile_.dst;
      switch (inner_.size) {
      case 2: interleave<2>(s, inner_.src, d, n); break;
      case 3: interleave<3>(s, inner_.src, d, n); break;
      default: interleave<4>(s, inner_.src, d, n); break;
      }
      if (++part == perRow) part = 0, o.next();
    }
  });
}

void copyBytes(const DeviceCtx *ctx, const void *src, void *dst, int64_t bytes) {
  if (src == dst || bytes == 0) return;
  if (ctx->device_type() == DeviceType::kGPU)
    return cuda::CudaLaunch::of(ctx).copy(dst, src, static_cast<size_t>(bytes));
  ctx->parallelFor(bytes, kGrainBytes, [&](int64_t begin, int64_t end) {
    std::memcpy(static_cast<char *>(dst) + begin, static_cast<const char *>(src) + begin,
                static_cast<size_t>(end - begin));
  });
}

std::unique_ptr<user_op::BoundKernel> bindView(user_op::KernelBindContext *ctx) {
  user_op::Tensor &out = ctx->Out("out");
  const void *src = ctx->In("in").raw_dptr();
  void *dst = out.mut_raw_dptr();
  const int64_t bytes = out.shape().elem_cnt() * static_cast<int64_t>(GetSizeOfDataType(out.data_type()));
  return user_op::bindTask([=](DeviceCtx *dev) { copyBytes(dev, src, dst, bytes); });
}

void fillElements(const DeviceCtx *ctx, size_t elementSize, const void *value, void *dst, int64_t count) {
  if (ctx->device_type() != DeviceType::kGPU) return StridedCopy(elementSize, {count}, {0}, {1}).run(ctx, value, dst);
  if (count == 0) return;
  uint64_t element = 0;
  std::memcpy(&element, value, elementSize);
  cuda::CudaLaunch &device = cuda::CudaLaunch::of(ctx);
  device.run(device.function("fill_" + std::to_string(elementSize)), cuda::blocksFor(count), {cuda::kBlock, 1, 1}, 0,
             element, dst, count);
}

} // namespace opc::ops
