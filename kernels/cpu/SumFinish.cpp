// The loops over 32-bit sums, for AVX2 and for AVX-512. Both round each operation by itself: the same bits.
// SPDX-License-Identifier: Apache-2.0
#include "SumFinish.h"

#include <algorithm>
#include <cmath>
#include <dnnl.hpp>
#include <limits>

namespace opc::cpu {
namespace {

/// Whether the library may use AVX-512. Follows ONEDNN_MAX_CPU_ISA.
bool hasWideVectors() {
  static const bool wide = [] {
    const auto wanted = static_cast<unsigned>(dnnl::cpu_isa::avx512_core);
    return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & wanted) == wanted;
  }();
  return wide;
}

/// The sum itself, the real number that it stands for, or that in steps of 8 bits. A NaN (of a scale that has none) is
/// the least number.
template <class T> [[gnu::always_inline]] inline T finished(int32_t sum, float scale, float zero) {
  if constexpr (std::is_same_v<T, int32_t>) {
    return sum;
  } else if constexpr (std::is_same_v<T, float>) {
    return static_cast<float>(sum) * scale;
  } else {
    constexpr auto low = static_cast<float>(std::numeric_limits<T>::lowest()),
                   high = static_cast<float>(std::numeric_limits<T>::max());
    float v = std::rint(static_cast<float>(sum) * scale) + zero;
    v = v > low ? v : low;
    v = v < high ? v : high;
    return static_cast<T>(static_cast<int32_t>(v));
  }
}

/// Of one row, whose results lie side by side.
template <class T, bool kOneScale>
[[gnu::always_inline]] inline void finishRow(const int32_t *sums, const int32_t *more, const float *scale,
                                             const float *zero, int32_t low, int64_t columns, T *out) {
  const float one = kOneScale && scale ? *scale : 1;
  for (int64_t j = 0; j < columns; ++j) {
    const auto sum = static_cast<int32_t>(static_cast<uint32_t>(sums[j]) + static_cast<uint32_t>(more[j]));
    out[j] = finished<T>(sum < low ? low : sum, kOneScale ? one : scale[j], zero[j]);
  }
}

/// What the loops want of each column, from the block's first one on.
struct Row {
  const int32_t *more;
  const float *scale, *zero;
  int32_t low;
};

template <class T, bool kOneScale> [[gnu::always_inline]] inline void finishRows(const Row &row, const SumBlock &b) {
  for (int64_t r = 0; r < b.rows; ++r)
    finishRow<T, kOneScale>(b.sums + r * b.sumStep, row.more, row.scale, row.zero, row.low, b.columns,
                            static_cast<T *>(b.out) + r * b.rowStep);
}

template <class T, bool kOneScale>
[[gnu::target("avx512f,avx512bw,avx512cd,avx512dq,avx512vl")]] void finishWide(const Row &row, const SumBlock &b) {
  finishRows<T, kOneScale>(row, b);
}

/// Results that do not lie side by side: tiles of them do.
template <class T, bool kOneScale> void finishSpread(const Row &row, const SumBlock &b) {
  constexpr int64_t kTile = 64;
  T tile[kTile];
  for (int64_t j = 0; j < b.columns; j += kTile) {
    const int64_t count = std::min(kTile, b.columns - j);
    for (int64_t r = 0; r < b.rows; ++r) {
      finishRow<T, kOneScale>(b.sums + r * b.sumStep + j, row.more + j, kOneScale ? row.scale : row.scale + j,
                              row.zero + j, row.low, count, tile);
      T *to = static_cast<T *>(b.out) + r * b.rowStep + j * b.columnStep;
      for (int64_t i = 0; i < count; ++i) to[i * b.columnStep] = tile[i];
    }
  }
}

template <class T, bool kOneScale> void finish(const Row &row, const SumBlock &b) {
  if (b.columnStep != 1)
    finishSpread<T, kOneScale>(row, b);
  else if (hasWideVectors())
    finishWide<T, kOneScale>(row, b);
  else
    finishRows<T, kOneScale>(row, b);
}

template <class T> void finish(const SumFinish &f, const SumBlock &b, Row row) {
  if (f.scales == 1) return finish<T, true>(row, b);
  row.scale += b.first;
  finish<T, false>(row, b);
}

} // namespace

void writeZeroPoints(const SumFinish &f, int64_t columns, float *to) {
  for (int64_t j = 0; j < columns; ++j) {
    const int64_t at = f.zeros == 1 ? 0 : j;
    to[j] = !f.zero           ? 0
            : f.type == kInt8 ? static_cast<float>(static_cast<const int8_t *>(f.zero)[at])
                              : static_cast<float>(static_cast<const uint8_t *>(f.zero)[at]);
  }
}

void finishSums(const SumFinish &f, const SumBlock &b) {
  const Row row{b.more + b.first, f.scale, b.zero + b.first, f.relu ? 0 : std::numeric_limits<int32_t>::lowest()};
  switch (f.type) {
  case kUInt8: return finish<uint8_t>(f, b, row);
  case kInt8: return finish<int8_t>(f, b, row);
  case kFloat: return finish<float>(f, b, row);
  default: return finish<int32_t>(f, b, row);
  }
}

} // namespace opc::cpu
