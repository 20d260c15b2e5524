// scaled_dot_product_attention: a block for 16 queries of a head, keys in tiles, with a running softmax.
// SPDX-License-Identifier: Apache-2.0
#include "attention/AttentionTiles.cuh"

namespace opc::cuda {
namespace {

/// Over the 16 threads of a row.
template <class C> __device__ C rowMax(C v) {
  for (int d = 8; d > 0; d /= 2) {
    const C other = __shfl_xor_sync(kEveryLane, v, d);
    v = other > v ? other : v;
  }
  return v;
}
template <class C> __device__ C rowSum(C v) {
  for (int d = 8; d > 0; d /= 2) v += __shfl_xor_sync(kEveryLane, v, d);
  return v;
}

template <class T> __device__ void attention(const AttentionArguments &a) {
  using C = Compute<T>;
  __shared__ AttentionMemory<T> s;
  const int64_t q0 = static_cast<int64_t>(blockIdx.x) * kRows, c0 = static_cast<int64_t>(blockIdx.y) * kWidth;
  const int64_t row = q0 + tileRow();
  for (int64_t h = blockIdx.z; h < a.heads; h += gridDim.z) {
    const Strip<T> query{static_cast<const T *>(a.query) + h * a.n * a.d, q0, a.n, a.d};
    const T *key = static_cast<const T *>(a.key) + h / a.perKey * a.m * a.d,
            *value = static_cast<const T *>(a.value) + h / a.perKey * a.m * a.dv;
    const int64_t mask = maskOf(a, h);
    const Places places = placesOf(a, h);
    const KeyTiles keys = keysOf(a, places, q0, q0 + kRows);
    C top = minusInfinity<C>(), sum = 0, result[kOwned] = {};
    for (int64_t k0 = keys.begin; k0 < keys.end; k0 += kColumns) {
      C scores[kScores];
      dotTile<T>(s, query, {key, k0, a.m, a.d}, scores);
      C high = top;
      for (int j = 0; j < kScores; ++j) {
        scores[j] = scoreOf<T>(a, places, mask, row, k0 + tileColumn() + 16 * j, scores[j]);
        high = scores[j] > high ? scores[j] : high;
      }
      high = rowMax(high);
      // Rows that have seen nothing yet have nothing to shift by.
      const C shift = high == minusInfinity<C>() ? C(0) : high, keep = exp(top - shift);
      C tileSum = 0;
      for (int j = 0; j < kScores; ++j) {
        scores[j] = exp(scores[j] - shift);
        tileSum += scores[j];
      }
      sum = sum * keep + rowSum(tileSum);
      for (int i = 0; i < kOwned; ++i) result[i] *= keep;
      top = high;
      addTile<T>(s, scores, {value, k0, a.m, a.dv}, c0, result);
    }
    const bool blind = top == minusInfinity<C>();
    storeTile<T>(result, blind ? C(0) : C(1) / sum, static_cast<T *>(a.to) + h * a.n * a.dv, row, a.n, c0, a.dv);
    if (c0 == 0 && tileColumn() == 0 && row < a.n)
      static_cast<C *>(a.sums)[h * a.n + row] = blind ? top : log(sum) + top;
  }
}

} // namespace

#define OPC_ATTENTION(name, T) OPC_KERNEL(attention_##name, AttentionArguments, attention<T>)
OPC_EACH_FLOAT(OPC_ATTENTION)

} // namespace opc::cuda
