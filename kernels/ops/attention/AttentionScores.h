// What the kernels of attention share: its tensors, cut into blocks of queries, and the rows of scores of a block.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Gemm.h"
#include "RowMath.h"
#include "SimdExp.h"
#include "attention/AttentionShape.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace opc::ops {

/// Scores become probabilities; gives the logarithm of the sum of exponentials. A row that sees nothing becomes zeros,
/// and its logarithm minus infinity.
inline float softmaxScores(float *row, int64_t n) {
  float log = -std::numeric_limits<float>::infinity();
  if (n > 0) cpu::rowMath().softmaxAndLog(row, row, &log, n, 1);
  if (std::isinf(log) && log < 0) std::fill_n(row, n, 0.0f);
  return log;
}
inline double softmaxScores(double *row, int64_t n) {
  const double top = n > 0 ? cpu::rowMax(row, n) : -std::numeric_limits<double>::infinity();
  if (std::isinf(top) && top < 0) {
    std::fill_n(row, n, 0.0);
    return top;
  }
  for (int64_t j = 0; j < n; ++j) row[j] = std::exp(row[j] - top);
  const double sum = cpu::rowSum(row, n, [](cpu::Simd<double>::V v) { return v; }), inverse = 1 / sum;
  for (int64_t j = 0; j < n; ++j) row[j] *= inverse;
  return std::log(sum) + top;
}

/// Queries [first, first + rows) of each head of a group, and the keys that the last of them sees.
struct QueryBlock {
  int64_t first, rows, keys;
};

/// query, key, value and mask of a kernel, and their scores. The mask is added, or a bool that says which keys a query
/// sees.
template <class T> class Attention : public AttentionShape {
public:
  Attention(KernelBindContext *ctx, StagedTensors<T> &staged)
      : AttentionShape(attentionShape(ctx)), query(staged.in("query")), key(staged.in("key")),
        value(staged.in("value")) {
    if (ctx->Has("mask") && ctx->In("mask").data_type() == kBool)
      seen_ = ctx->In("mask").template dptr<bool>();
    else
      added_ = staged.in("mask");
  }
  const T *query, *key, *value;

  /// Memory for the scores of a block.
  cpu::Scratch<T> scores() const { return cpu::Scratch<T>(group() * rows() * m); }
  /// make(block) for each block of queries.
  template <class Make> auto blocks(Make make) const {
    std::vector<decltype(make(QueryBlock()))> all;
    for (int64_t i = 0; i < n; i += rows()) {
      const int64_t many = std::min(rows(), n - i);
      all.push_back(make(QueryBlock{i, many, keysBefore(i + many)}));
    }
    return all;
  }
  /// A product for each head of a group, whose matrices are `x`, `y` and `z` elements apart.
  cpu::Gemm<T> product(const cpu::GemmShape &shape, int64_t x, int64_t y, int64_t z) const {
    cpu::GemmBatch batch;
    batch.a.clear(), batch.b.clear(), batch.c.clear();
    for (int64_t h = 0; h < group(); ++h) {
      batch.a.push_back(h * x);
      batch.b.push_back(h * y);
      batch.c.push_back(h * z);
    }
    return cpu::Gemm<T>(shape, std::move(batch));
  }
  /// scale query key^T for a block.
  cpu::Gemm<T> scoreProduct(const QueryBlock &b) const {
    return product({b.rows, b.keys, d, false, true, scale, false}, n * d, m * d, b.rows * b.keys);
  }
  /// f(q, row, seen) for the rows of a block's scores, whose group begins at head h0, in parallel: q is the
  /// query among all of them; `seen` keys have been masked, the rest of the row is behind the causal edge.
  template <class F> void forEachRow(DeviceCtx *dev, int64_t h0, const QueryBlock &b, T *scores, F f) const {
    dev->parallelFor(group() * b.rows, cpu::rowGrain(b.keys), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const int64_t h = h0 + r / b.rows, i = b.first + r % b.rows, seen = causal ? std::min(b.keys, i + 1) : b.keys;
        mask(h, i, scores + r * b.keys, seen);
        f(h * n + i, scores + r * b.keys, seen);
      }
    });
  }

private:
  /// Row i of head h, over the first `count` scores.
  void mask(int64_t h, int64_t i, T *row, int64_t count) const {
    if (!added_ && !seen_) return;
    const int64_t base = maskOffset[static_cast<size_t>(h)] + i * maskRow;
    if (added_ && maskColumn == 1) {
      for (int64_t j = 0; j < count; ++j) row[j] += added_[base + j];
    } else if (added_) {
      for (int64_t j = 0; j < count; ++j) row[j] += added_[base];
    } else {
      for (int64_t j = 0; j < count; ++j)
        if (!seen_[base + j * maskColumn]) row[j] = -std::numeric_limits<T>::infinity();
    }
  }
  const T *added_ = nullptr;
  const bool *seen_ = nullptr;
};

} // namespace opc::ops
