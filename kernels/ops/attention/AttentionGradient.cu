// scaled_dot_product_attention_grad: probabilities computed again tile by tile, once by queries and once by keys, so
// that every sum belongs to one thread.
// SPDX-License-Identifier: Apache-2.0
#include "attention/AttentionTiles.cuh"

namespace opc::cuda {
namespace {

/// along = sum(dout out) - dlogSum: a warp a query.
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
    if (lane == 0) static_cast<C *>(a.along)[q] = sum;
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
  if (there) {
    const C sum = static_cast<const C *>(a.logSum)[h * a.n + i];
    if (sum != minusInfinity<C>()) *prob = exponential(score - sum); // else it saw nothing
  }
  *slope = there ? *prob * (*slope - static_cast<const C *>(a.along)[h * a.n + i]) : C(0);
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

#define OPC_ATTENTION_KERNEL(kernel, body)                                                                             \
  extern "C" __global__ void __launch_bounds__(256, 1) kernel(const __grid_constant__ AttentionArguments a) { body(a); }
#define OPC_ATTENTION(name, T)                                                                                         \
  OPC_ATTENTION_KERNEL(attention_along_##name, attentionAlong<T>)                                                      \
  OPC_ATTENTION_KERNEL(attention_query_grad_##name, attentionQueryGrad<T>)                                             \
  OPC_ATTENTION_KERNEL(attention_key_grad_##name, attentionKeyGrad<T>)
OPC_EACH_FLOAT(OPC_ATTENTION)

} // namespace opc::cuda
