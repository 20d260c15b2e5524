// Rows of attention scores: the mask, and what becomes of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "AttentionShape.h"
#include "SimdExp.h"
#include "StagedTensors.h"

#include <cmath>
#include <limits>

namespace opc::ops {

/// The mask of an attention: added, or a bool that says which keys a query sees.
template <class T> struct AttentionMask {
  const T *added = nullptr;
  const bool *seen = nullptr;

  AttentionMask(user_op::KernelBindContext *ctx, cpu::StagedTensors<T> &tensors) {
    const user_op::Tensor *mask = ctx->Tensor4ArgNameAndIndex("mask", 0);
    if (!mask) return;
    if (mask->data_type() == kBool)
      seen = mask->dptr<bool>();
    else
      added = tensors.in("mask");
  }
  /// Row i of head h, over the first n scores.
  void apply(const AttentionShape &a, int64_t h, int64_t i, T *row, int64_t n) const {
    if (!added && !seen) return;
    const int64_t base = a.maskOffset[static_cast<size_t>(h)] + i * a.maskRow;
    if (added && a.maskColumn == 1) {
      for (int64_t j = 0; j < n; ++j) row[j] += added[base + j];
    } else if (added) {
      for (int64_t j = 0; j < n; ++j) row[j] += added[base];
    } else {
      for (int64_t j = 0; j < n; ++j)
        if (!seen[base + j * a.maskColumn]) row[j] = -std::numeric_limits<T>::infinity();
    }
  }
};

inline void expRow(float *row, int64_t n, float shift) {
  using S = cpu::Simd<float>;
  const auto by = S::set1(shift);
  for (int64_t j = 0; j < n; j += 8) {
    const auto mask = S::mask(n - j);
    S::store(row + j, cpu::simdExpNonPositive(S::sub(S::load(row + j, mask), by)), mask);
  }
}
inline void expRow(double *row, int64_t n, double shift) {
  for (int64_t j = 0; j < n; ++j) row[j] = std::exp(row[j] - shift);
}

/// Scores become probabilities; gives the logarithm of the sum of exponentials. A row that sees nothing becomes zeros,
/// and its logarithm minus infinity.
template <class T> T softmaxScores(T *row, int64_t n) {
  const T top = n > 0 ? cpu::rowMax(row, n) : -std::numeric_limits<T>::infinity();
  if (std::isinf(top) && top < 0) {
    std::fill_n(row, n, T(0));
    return top;
  }
  expRow(row, n, top);
  const T sum = cpu::rowSum(row, n, [](typename cpu::Simd<T>::V v) { return v; });
  const T inverse = T(1) / sum;
  for (int64_t j = 0; j < n; ++j) row[j] *= inverse;
  return std::log(sum) + top;
}

/// The keys that query i sees, of the `keys` of its block.
inline int64_t seenKeys(const AttentionShape &a, int64_t i, int64_t keys) {
  return a.causal ? std::min(keys, i + 1) : keys;
}

} // namespace opc::ops
