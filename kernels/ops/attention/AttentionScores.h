// What the kernels of attention share: its tensors, cut into blocks of queries, and the rows of scores of a block.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Gemm.h"
#include "RowMath.h"
#include "SimdExp.h"
#include "attention/AttentionArguments.h"
#include "attention/AttentionShape.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace opc::ops {

/// Rows of scores, one after another, become probabilities, and logs the logarithms of their sums of exponentials. A
/// row that sees nothing becomes zeros, and its logarithm minus infinity.
inline void softmaxScores(float *row, float *logs, int64_t n, int64_t rows) {
  if (n == 0) {
    std::fill_n(logs, rows, -std::numeric_limits<float>::infinity());
    return;
  }
  cpu::rowMath().softmaxAndLog(row, row, logs, n, rows);
  for (int64_t r = 0; r < rows; ++r)
    if (std::isinf(logs[r]) && logs[r] < 0) std::fill_n(row + r * n, n, 0.0f);
}
inline void softmaxScores(double *row, double *logs, int64_t n, int64_t rows) {
  for (int64_t r = 0; r < rows; ++r, row += n, ++logs) {
    double top = n > 0 ? cpu::rowMax(row, n) : 0; // may miss a NaN, which the sum then has
    if (std::isinf(top) && top < 0) top = 0;
    for (int64_t j = 0; j < n; ++j) row[j] = std::exp(row[j] - top);
    const double sum = cpu::rowSum(row, n, [](cpu::Simd<double>::V v) { return v; }), inverse = 1 / sum;
    *logs = std::log(sum) + top;
    if (sum == 0) continue; // zeros already
    for (int64_t j = 0; j < n; ++j) row[j] *= inverse;
  }
}

/// Scores become limit * tanh(score / limit); slopes, where they are asked for, the derivative of that.
inline void capScores(float *row, float *slopes, int64_t n, float limit) {
  const float in = 2 / limit;
  for (int64_t j = 0; j < n; ++j) row[j] *= in;
  cpu::rowMath().exponentials(row, row, n, 0);
  for (int64_t j = 0; j < n; ++j) {
    const float t = 1 - 2 / (1 + row[j]);
    row[j] = limit * t;
    if (slopes) slopes[j] = 1 - t * t;
  }
}
inline void capScores(double *row, double *slopes, int64_t n, double limit) {
  for (int64_t j = 0; j < n; ++j) {
    const double t = std::tanh(row[j] / limit);
    row[j] = limit * t;
    if (slopes) slopes[j] = 1 - t * t;
  }
}

/// Queries [first, first + rows) of each head of a group, and the keys that they see between them: `keys` from
/// `firstKey` on. Where lengths decide it, all.
struct QueryBlock {
  int64_t first, rows, firstKey, keys;
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
    if (!hasLengths()) return;
    if (ctx->In("key_lengths").data_type() == kInt32)
      lengths32_ = ctx->In("key_lengths").template dptr<int32_t>();
    else
      lengths64_ = ctx->In("key_lengths").template dptr<int64_t>();
  }
  const T *query, *key, *value;

  /// Memory for the scores of a block.
  cpu::Scratch<T> scores() const { return cpu::Scratch<T>(group() * rows() * m); }
  /// make(block) for each block of queries, with the first `most` keys.
  template <class Make> auto blocks(int64_t most, Make make) const {
    std::vector<decltype(make(QueryBlock()))> all;
    for (int64_t i = 0; i < n; i += rows()) {
      const int64_t many = std::min(rows(), n - i);
      const KeyRange seen = hasLengths() ? KeyRange{0, most} : keysSeen(*this, offset, m, i, many);
      all.push_back(make(QueryBlock{i, many, seen.begin, seen.count()}));
    }
    return all;
  }
  /// Lengths are known in the run: products are prepared for eighths of the keys, and the fewest that have all that
  /// count are taken. A buffer for long sequences then costs short ones little.
  int64_t steps() const { return hasLengths() && m >= 256 ? 8 : 1; }
  int64_t keysOfStep(int64_t step) const { return std::min(m, (m * (step + 1) / steps() + 63) / 64 * 64); }
  int64_t stepOf(int64_t h0) const {
    if (steps() == 1) return 0;
    int64_t longest = 0, step = 0;
    for (int64_t h = h0; h < h0 + group(); ++h) longest = std::max(longest, lengthOf(h));
    while (keysOfStep(step) < longest) ++step;
    return step;
  }
  /// A product for each head of a group, whose matrices are `x`, `y` and `z` elements apart: a is of queries, and so
  /// are c, or with transA b; the third is of keys. Heads that share keys are rows of one product, or a group each.
  cpu::Gemm<T> product(cpu::GemmShape shape, int64_t x, int64_t y, int64_t z) const {
    const int64_t stacked = group() % perKey == 0 ? perKey : 1;
    (shape.transA ? shape.k : shape.m) *= stacked;
    cpu::GemmBatch batch;
    batch.a.clear(), batch.b.clear(), batch.c.clear();
    for (int64_t h = 0; h < group() / stacked; ++h) {
      batch.a.push_back(h * stacked * x);
      batch.b.push_back(h * (shape.transA ? stacked : 1) * y);
      batch.c.push_back(h * (shape.transA ? 1 : stacked) * z);
    }
    return cpu::Gemm<T>(shape, std::move(batch));
  }
  /// scale query key^T for a block.
  cpu::Gemm<T> scoreProduct(const QueryBlock &b) const {
    return product({b.rows, b.keys, d, false, true, scale, false}, n * d, m * d, b.rows * b.keys);
  }
  /// Where a block's queries, keys and values begin, among all of them and in elements; h0 is its group's first head.
  int64_t queryAt(int64_t h0, const QueryBlock &b) const { return (h0 * n + b.first) * d; }
  int64_t outAt(int64_t h0, const QueryBlock &b) const { return (h0 * n + b.first) * dv; }
  int64_t keyAt(int64_t h0, const QueryBlock &b) const { return (h0 / perKey * m + b.firstKey) * d; }
  int64_t valueAt(int64_t h0, const QueryBlock &b) const { return (h0 / perKey * m + b.firstKey) * dv; }
  /// f(q, row, seen) for the rows of a block's scores, whose group begins at head h0, in parallel: q is the query among
  /// all of them. The keys `seen` of the row, counted from the block's first, have been capped and masked; the others
  /// are behind an edge. slopes is null, or gets the derivative of capped scores.
  template <class F> void forEachRow(DeviceCtx *dev, int64_t h0, const QueryBlock &b, T *scores, T *slopes, F f) const {
    dev->parallelFor(group() * b.rows, cpu::rowGrain(b.keys), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const int64_t h = h0 + r / b.rows, i = b.first + r % b.rows;
        T *row = scores + r * b.keys;
        const KeyRange seen = finish(h, i, b, row, slopes ? slopes + r * b.keys : nullptr);
        f(h * n + i, row, seen);
      }
    });
  }
  /// Probabilities of a block's scores, and logarithms of sums: of many rows at once where all see the same keys, or a
  /// call for each row would cost more than what it does not see.
  void soften(DeviceCtx *dev, int64_t h0, const QueryBlock &b, T *scores, T *logSum) const {
    constexpr int64_t kShortRow = 64;
    const bool hasEdges = left >= 0 || right >= 0 || hasLengths();
    if (hasEdges && b.keys > kShortRow)
      return forEachRow(dev, h0, b, scores, nullptr, [&](int64_t q, T *row, KeyRange seen) {
        softmaxScores(row + seen.begin, logSum + q, seen.count(), 1);
        clearUnseen(row, b, seen);
      });
    dev->parallelFor(group() * b.rows, cpu::rowGrain(b.keys), [&](int64_t begin, int64_t end) {
      if (added_ || seen_ || softcap > 0 || hasEdges)
        for (int64_t r = begin; r < end; ++r) {
          T *row = scores + r * b.keys;
          fillUnseen(row, b, finish(h0 + r / b.rows, b.first + r % b.rows, b, row, nullptr),
                     -std::numeric_limits<T>::infinity());
        }
      // Logarithms of a head lie together, and those of all heads where a block has all queries.
      for (int64_t r = begin; r < end;) {
        const int64_t many = b.rows == n ? end - begin : std::min(end - r, b.rows - r % b.rows);
        softmaxScores(scores + r * b.keys, logSum + (h0 + r / b.rows) * n + b.first + r % b.rows, b.keys, many);
        r += many;
      }
    });
  }
  /// What is not seen of a row becomes 0.
  static void clearUnseen(T *row, const QueryBlock &b, const KeyRange &seen) { fillUnseen(row, b, seen, T(0)); }

private:
  static void fillUnseen(T *row, const QueryBlock &b, const KeyRange &seen, T value) {
    std::fill(row, row + seen.begin, value);
    std::fill(row + seen.end, row + b.keys, value);
  }
  /// Caps and masks the scores of query i of head h; gives the keys that it sees, counted from the block's first.
  KeyRange finish(int64_t h, int64_t i, const QueryBlock &b, T *row, T *slopes) const {
    const int64_t length = lengthOf(h);
    KeyRange seen = keysSeen(*this, hasLengths() ? length - n : offset, length, i, 1);
    seen.begin -= b.firstKey, seen.end -= b.firstKey;
    if (softcap > 0)
      capScores(row + seen.begin, slopes ? slopes + seen.begin : nullptr, seen.count(), static_cast<T>(softcap));
    mask(h, i, row + seen.begin, b.firstKey + seen.begin, seen.count());
    return seen;
  }
  /// How many keys count. Lengths that are none of this many keys are taken for the nearest one.
  int64_t lengthOf(int64_t head) const {
    if (!hasLengths()) return m;
    const int64_t sequence = head / sequenceHeads;
    return std::clamp<int64_t>(lengths32_ ? lengths32_[sequence] : lengths64_[sequence], 0, m);
  }
  /// `count` scores of query i of head h, from key `first` on.
  void mask(int64_t h, int64_t i, T *row, int64_t first, int64_t count) const {
    if (!added_ && !seen_) return;
    const int64_t base = maskOffset[static_cast<size_t>(h)] + i * maskRow + first * maskColumn;
    if (added_ && maskColumn == 1) {
      for (int64_t j = 0; j < count; ++j) row[j] = lowered(row[j], added_[base + j]);
    } else if (added_) {
      for (int64_t j = 0; j < count; ++j) row[j] = lowered(row[j], added_[base]);
    } else {
      for (int64_t j = 0; j < count; ++j)
        if (!seen_[base + j * maskColumn]) row[j] = -std::numeric_limits<T>::infinity();
    }
  }
  /// What nobody is to see has no score, be it NaN: beside so low a mask any number is lost.
  static T lowered(T score, T by) { return by <= T(kHidden) ? by : score + by; }

  const T *added_ = nullptr;
  const bool *seen_ = nullptr;
  const int32_t *lengths32_ = nullptr;
  const int64_t *lengths64_ = nullptr;
};

} // namespace opc::ops
