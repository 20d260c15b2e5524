// scaled_dot_product_attention_grad: probabilities computed again tile by tile, once by queries and once by keys, so
// that every sum belongs to one thread.
// SPDX-License-Identifier: Apache-2.0
#include "attention/AttentionTiles.cuh"

namespace opc::cuda {
namespace {

/// What probabilities exp(score - shift) * factor have of one query: the logarithm of its sum and 1, but where that is
/// rough the largest score and the sum, found again by a warp.
template <class T>
__device__ void normalize(const AttentionArguments &a, int64_t q, int lane, Compute<T> *shift, Compute<T> *factor) {
  using C = Compute<T>;
  *shift = static_cast<const C *>(a.logSum)[q], *factor = 1;
  if (*shift == minusInfinity<C>() || !(fabs(*shift) > C(ops::kRoughSum))) return;
  const int64_t h = q / a.n, i = q % a.n, mask = maskOf(a, h);
  const Places places = placesOf(a, h);
  const T *query = static_cast<const T *>(a.query) + q * a.d;
  const T *keys = static_cast<const T *>(a.key) + h / a.perKey * a.m * a.d;
  const auto score = [&](int64_t j) {
    C product = 0;
    for (int64_t c = 0; c < a.d; ++c) product = fma(load(query[c]), load(keys[j * a.d + c]), product);
    return scoreOf<T>(a, places, mask, i, j, product);
  };
  C top = minusInfinity<C>(), sum = 0;
#pragma unroll 1
  for (int64_t j = lane; j < a.m; j += 32) top = fmax(top, score(j));
  for (int d = 16; d > 0; d /= 2) top = fmax(top, __shfl_xor_sync(kEveryLane, top, d));
#pragma unroll 1
  for (int64_t j = lane; j < a.m; j += 32) sum += exp(score(j) - top);
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(kEveryLane, sum, d);
  *shift = top, *factor = 1 / sum;
}

/// along: of each query sum(dout out) - dlogSum, and what normalize() gives. A warp a query.
template <class T> __device__ void attentionAlong(const AttentionArguments &a) {
  using C = Compute<T>;
  const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll 1
  for (int64_t q = firstItem() / 32; q < a.heads * a.n; q += itemStep() / 32) {
    const T *out = static_cast<const T *>(a.out) + q * a.dv, *dout = static_cast<const T *>(a.dout) + q * a.dv;
    C sum = 0;
    for (int64_t c = lane; c < a.dv; c += 32) sum += load(dout[c]) * load(out[c]);
    for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(kEveryLane, sum, d);
    if (a.dlogSum) sum -= static_cast<const C *>(a.dlogSum)[q];
    C shift, factor;
    normalize<T>(a, q, lane, &shift, &factor);
    if (lane != 0) continue;
    C *along = static_cast<C *>(a.along) + 3 * q;
    along[0] = sum, along[1] = shift, along[2] = factor;
  }
}

/// prob becomes the probability of query i and key j, slope the gradient by their score; gives the derivative of a
/// capped score.
template <class T>
__device__ Compute<T> slopeOf(const AttentionArguments &a, const Places &places, int64_t h, int64_t mask, int64_t i,
                              int64_t j, Compute<T> *prob, Compute<T> *slope) {
  using C = Compute<T>;
  C cap = 1;
  const C score = scoreOf<T>(a, places, mask, i, j, *prob, &cap);
  *prob = 0;
  const bool there = sees(a, places, i, j);
  const C *along = static_cast<const C *>(a.along) + 3 * (h * a.n + i);
  if (there && along[1] != minusInfinity<C>()) *prob = exp(score - along[1]) * along[2]; // else it saw nothing
  *slope = there ? *prob * (*slope - along[0]) : C(0);
  return cap;
}

template <class T> __device__ void attentionQueryGrad(const AttentionArguments &a) {
  using C = Compute<T>;
  __shared__ AttentionMemory<T> s;
  const int64_t q0 = static_cast<int64_t>(blockIdx.x) * kRows, c0 = static_cast<int64_t>(blockIdx.y) * kWidth;
  const int64_t row = q0 + tileRow();
  for (int64_t h = blockIdx.z; h < a.heads; h += gridDim.z) {
    const Strip<T> query{static_cast<const T *>(a.query) + h * a.n * a.d, q0, a.n, a.d};
    const Strip<T> dout{static_cast<const T *>(a.dout) + h * a.n * a.dv, q0, a.n, a.dv};
    const int64_t mask = maskOf(a, h);
    const Places places = placesOf(a, h);
    const KeyTiles keys = a.dscores ? KeyTiles{0, a.m} : keysOf(a, places, q0, q0 + kRows);
    C result[kOwned] = {};
    for (int64_t k0 = keys.begin; k0 < keys.end; k0 += kColumns) {
      const Strip<T> key{static_cast<const T *>(a.key) + h / a.perKey * a.m * a.d, k0, a.m, a.d};
      const Strip<T> value{static_cast<const T *>(a.value) + h / a.perKey * a.m * a.dv, k0, a.m, a.dv};
      C prob[kScores], slope[kScores];
      dotTile<T>(s, query, key, prob);
      dotTile<T>(s, dout, value, slope);
      for (int j = 0; j < kScores; ++j) {
        const int64_t column = k0 + tileColumn() + 16 * j;
        const C cap = slopeOf<T>(a, places, h, mask, row, column, &prob[j], &slope[j]);
        if (a.dscores && c0 == 0 && row < a.n && column < a.m)
          static_cast<T *>(a.dscores)[(h * a.n + row) * a.m + column] = stored<T>(slope[j]);
        slope[j] *= cap;
      }
      addTile<T>(s, slope, key, c0, result);
    }
    storeTile<T>(result, static_cast<C>(a.scale), static_cast<T *>(a.dquery) + h * a.n * a.d, row, a.n, c0, a.d);
  }
}

template <class T> __device__ void attentionKeyGrad(const AttentionArguments &a) {
  using C = Compute<T>;
  __shared__ AttentionMemory<T> s;
  const int64_t k0 = static_cast<int64_t>(blockIdx.x) * kRows, c0 = static_cast<int64_t>(blockIdx.y) * kWidth;
  const int64_t row = k0 + tileRow();
  for (int64_t shared = blockIdx.z; shared < a.heads / a.perKey; shared += gridDim.z) {
    const Strip<T> key{static_cast<const T *>(a.key) + shared * a.m * a.d, k0, a.m, a.d};
    const Strip<T> value{static_cast<const T *>(a.value) + shared * a.m * a.dv, k0, a.m, a.dv};
    C keyResult[kOwned] = {}, valueResult[kOwned] = {};
#pragma unroll 1
    for (int64_t h = shared * a.perKey; h < (shared + 1) * a.perKey; ++h) {
      const int64_t mask = maskOf(a, h);
      const Places places = placesOf(a, h);
      const int64_t before = a.right >= 0 ? k0 - places.offset - a.right : 0; // the first query that sees any of them
      for (int64_t q0 = before > 0 ? before / kColumns * kColumns : 0; q0 < a.n; q0 += kColumns) {
        const Strip<T> query{static_cast<const T *>(a.query) + h * a.n * a.d, q0, a.n, a.d};
        const Strip<T> dout{static_cast<const T *>(a.dout) + h * a.n * a.dv, q0, a.n, a.dv};
        C prob[kScores], slope[kScores];
        dotTile<T>(s, key, query, prob);
        dotTile<T>(s, value, dout, slope);
        for (int j = 0; j < kScores; ++j) {
          const C cap = slopeOf<T>(a, places, h, mask, q0 + tileColumn() + 16 * j, row, &prob[j], &slope[j]);
          slope[j] *= cap;
        }
        addTile<T>(s, prob, dout, c0, valueResult);
        addTile<T>(s, slope, query, c0, keyResult);
      }
    }
    storeTile<T>(keyResult, static_cast<C>(a.scale), static_cast<T *>(a.dkey) + shared * a.m * a.d, row, a.m, c0, a.d);
    storeTile<T>(valueResult, C(1), static_cast<T *>(a.dvalue) + shared * a.m * a.dv, row, a.m, c0, a.dv);
  }
}

} // namespace

#define OPC_ATTENTION(name, T)                                                                                         \
  OPC_KERNEL(attention_along_##name, AttentionArguments, attentionAlong<T>)                                            \
  OPC_KERNEL(attention_query_grad_##name, AttentionArguments, attentionQueryGrad<T>)                                   \
  OPC_KERNEL(attention_key_grad_##name, AttentionArguments, attentionKeyGrad<T>)
OPC_EACH_FLOAT(OPC_ATTENTION)

} // namespace opc::cuda
