// Tiles of the products in attention: 16 rows by 64 columns of scores, and what they are multiplied with.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "DeviceTypes.cuh"
#include "attention/AttentionArguments.h"

namespace opc::cuda {

using ops::AttentionArguments;

constexpr int kRows = 16, kColumns = 64, kPiece = 16, kWidth = 128; // kWidth: columns of a result a block makes
constexpr int kScores = kColumns / 16, kOwned = kWidth / 16;        // of each thread
constexpr unsigned kEveryLane = 0xffffffffu;

/// Thread (row, column) of 16 x 16.
__device__ inline int tileRow() { return static_cast<int>(threadIdx.x) / 16; }
__device__ inline int tileColumn() { return static_cast<int>(threadIdx.x) % 16; }

template <class C> __device__ C minusInfinity() {
  if constexpr (std::is_same_v<C, float>)
    return -scalar::f32::kInf;
  else
    return -scalar::f32::kInf64;
}

/// Rows [first, end) of a matrix with `width` columns.
template <class T> struct Strip {
  const T *data;
  int64_t first, end, width;
  __device__ Compute<T> at(int64_t row, int64_t column) const {
    return first + row < end && column < width ? load(data[(first + row) * width + column]) : Compute<T>(0);
  }
};

template <class T> struct AttentionMemory {
  using C = Compute<T>;
  C a[kRows][kPiece + 1], b[kColumns][kPiece + 1]; // pieces of both factors of scores
  C p[kRows][kColumns + 1];                        // scores
  C m[kPiece][kWidth];                             // a piece of what they are multiplied with
};

/// scores[j] = row tileRow() of `rows` times row tileColumn() + 16 j of `columns`.
template <class T>
__device__ void dotTile(AttentionMemory<T> &s, const Strip<T> &rows, const Strip<T> &columns, Compute<T> *scores) {
  const int ty = tileRow(), tx = tileColumn();
  for (int j = 0; j < kScores; ++j) scores[j] = 0;
  for (int64_t d = 0; d < rows.width; d += kPiece) {
    s.a[ty][tx] = rows.at(ty, d + tx);
    for (int j = 0; j < kScores; ++j) s.b[ty + 16 * j][tx] = columns.at(ty + 16 * j, d + tx);
    __syncthreads();
    for (int k = 0; k < kPiece; ++k)
      for (int j = 0; j < kScores; ++j) scores[j] = fma(s.a[ty][k], s.b[tx + 16 * j][k], scores[j]);
    __syncthreads();
  }
}

/// result[i] += row tileRow() of the scores in memory times column c0 + tileColumn() + 16 i of `by`.
template <class T>
__device__ void addTile(AttentionMemory<T> &s, const Compute<T> *scores, const Strip<T> &by, int64_t c0,
                        Compute<T> *result) {
  const int ty = tileRow(), tx = tileColumn();
  for (int j = 0; j < kScores; ++j) s.p[ty][tx + 16 * j] = scores[j];
  for (int k0 = 0; k0 < kColumns; k0 += kPiece) {
    for (int i = 0; i < kOwned; ++i) s.m[ty][tx + 16 * i] = by.at(k0 + ty, c0 + tx + 16 * i);
    __syncthreads();
    for (int k = 0; k < kPiece; ++k)
      for (int i = 0; i < kOwned; ++i) result[i] = fma(s.p[ty][k0 + k], s.m[k][tx + 16 * i], result[i]);
    __syncthreads();
  }
}

/// result[i] becomes row `row`, column c0 + tileColumn() + 16 i of a matrix.
template <class T>
__device__ void storeTile(const Compute<T> *result, Compute<T> factor, void *to, int64_t row, int64_t rows, int64_t c0,
                          int64_t width) {
  if (row >= rows) return;
  for (int i = 0; i < kOwned; ++i) {
    const int64_t c = c0 + tileColumn() + 16 * i;
    if (c < width) static_cast<T *>(to)[row * width + c] = stored<T>(static_cast<Compute<T>>(factor * result[i]));
  }
}

/// Where the mask of a head begins.
__device__ inline int64_t maskOf(const AttentionArguments &a, int64_t head) {
  int64_t at = 0;
#pragma unroll 1
  for (int d = a.leadRank; d-- > 0;) {
    at += head % a.leadDims[d] * a.maskLead[d];
    head /= a.leadDims[d];
  }
  return at;
}
/// What a head's queries see: query i stands at place i + offset among `length` keys.
struct Places {
  int64_t offset, length;
};
__device__ inline Places placesOf(const AttentionArguments &a, int64_t head) {
  if (!a.lengths) return {a.offset, a.m};
  const int64_t s = head / a.sequenceHeads;
  const int64_t given =
      a.lengthsAre64 ? static_cast<const int64_t *>(a.lengths)[s] : static_cast<const int32_t *>(a.lengths)[s];
  const int64_t length = given < 0 ? 0 : given > a.m ? a.m : given;
  return {length - a.n, length};
}
__device__ inline bool sees(const AttentionArguments &a, const Places &p, int64_t i, int64_t j) {
  const int64_t ahead = j - i - p.offset;
  return i < a.n && j < p.length && !(a.right >= 0 && ahead > a.right) && !(a.left >= 0 && -ahead > a.left);
}
/// Keys [begin, end) are those that queries [first, end of them) can see; begin is that of a tile.
struct KeyTiles {
  int64_t begin, end;
};
__device__ inline KeyTiles keysOf(const AttentionArguments &a, const Places &p, int64_t first, int64_t end) {
  int64_t begin = a.left >= 0 ? first + p.offset - a.left : 0, last = p.length;
  if (a.right >= 0 && end + p.offset + a.right < last) last = end + p.offset + a.right;
  return {begin > 0 ? begin / kColumns * kColumns : 0, last};
}
/// tanh of a score and the cap, from their exponential.
__device__ inline float tangent(float x) { return 1.0f - 2.0f / (1.0f + exp(2.0f * x)); }
__device__ inline double tangent(double x) { return tanh(x); }
/// The score of query i and key j from their product; minus infinity where the query does not see the key. slope, where
/// it is asked for, becomes the derivative of a capped score.
template <class T>
__device__ Compute<T> scoreOf(const AttentionArguments &a, const Places &p, int64_t maskBase, int64_t i, int64_t j,
                              Compute<T> product, Compute<T> *slope = nullptr) {
  using C = Compute<T>;
  if (!sees(a, p, i, j)) return minusInfinity<C>();
  C score = static_cast<C>(a.scale) * product;
  if (a.softcap > 0) {
    const C limit = static_cast<C>(a.softcap), t = tangent(static_cast<C>(score / limit));
    score = limit * t;
    if (slope) *slope = C(1) - t * t;
  }
  if (!a.mask) return score;
  const int64_t at = maskBase + i * a.maskRow + j * a.maskColumn;
  if (a.maskIsBool) return static_cast<const uint8_t *>(a.mask)[at] ? score : minusInfinity<C>();
  const C by = load(static_cast<const T *>(a.mask)[at]);
  return by <= C(ops::kHidden) ? by : score + by;
}

} // namespace opc::cuda
