// What the kernels of matrix products have in common: where a batch's matrices lie, and what becomes of a sum.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "DeviceTypes.cuh"
#include "linear_algebra/MatmulArguments.h"

namespace opc::cuda {

using ops::MatmulArguments;

/// A tile of the result, and the matrices that it is made from.
template <class T> struct TileOfResult {
  int64_t batch, row0, column0;
  const T *a, *b;
};
/// Tile `number` of all, those of a row of tiles one after the other. A block takes more than one where there are more
/// than a grid has blocks.
template <class T> __device__ inline TileOfResult<T> tileOf(const MatmulArguments &p, int64_t number, int side) {
  const int64_t across = (p.n + side - 1) / side, down = (p.m + side - 1) / side;
  TileOfResult<T> t;
  t.batch = number / across / down;
  t.row0 = number / across % down * side;
  t.column0 = number % across * side;
  int64_t atA = 0, atB = 0, rest = t.batch;
#pragma unroll 1
  for (int d = p.rank; d-- > 0;) {
    const int64_t index = rest % p.dims[d];
    rest /= p.dims[d];
    atA += index * p.stepA[d];
    atB += index * p.stepB[d];
  }
  t.a = static_cast<const T *>(p.a) + atA;
  t.b = static_cast<const T *>(p.b) + atB;
  return t;
}
__device__ inline int64_t tilesOf(const MatmulArguments &p, int side) {
  return (p.n + side - 1) / side * ((p.m + side - 1) / side) * p.batches;
}
template <class Acc> __device__ inline Acc scaled(const MatmulArguments &p, Acc sum) {
  // Of whole numbers alpha is one, which may be negative, and wraps around.
  if constexpr (std::is_integral_v<Acc>)
    return static_cast<Acc>(static_cast<int64_t>(p.alpha)) * sum;
  else
    return static_cast<Acc>(static_cast<Acc>(p.alpha) * sum);
}

/// In one access, which the compiler would take apart where another branch stores the same one by one.
template <class Stored> __device__ inline void storeWhole(void *to, const Stored &value) {
  if constexpr (sizeof(Stored) == 16 || sizeof(Stored) == 8) {
    uint32_t words[sizeof(Stored) / 4];
    memcpy(words, &value, sizeof value);
    if constexpr (sizeof(Stored) == 16)
      asm volatile("st.global.v4.b32 [%0], {%1,%2,%3,%4};" ::"l"(__cvta_generic_to_global(to)), "r"(words[0]),
                   "r"(words[1]), "r"(words[2]), "r"(words[3])
                   : "memory");
    else
      asm volatile("st.global.v2.b32 [%0], {%1,%2};" ::"l"(__cvta_generic_to_global(to)), "r"(words[0]), "r"(words[1])
                   : "memory");
  } else {
    *static_cast<Stored *>(to) = value;
  }
}
/// Neighbours of the result, all of them in its row.
template <class T, class Acc, int kCount>
__device__ void storeGroup(const MatmulArguments &p, int64_t at, const Acc *sums) {
  using Stored = Pack<T, kCount>;
  Stored after;
  if (p.add) {
    const Stored before = *reinterpret_cast<const Stored *>(static_cast<const T *>(p.add) + at);
    for (int i = 0; i < kCount; ++i) after.v[i] = stored<T>(scaled(p, sums[i]) + static_cast<Acc>(load(before.v[i])));
  } else {
    for (int i = 0; i < kCount; ++i) after.v[i] = stored<T>(scaled(p, sums[i]));
  }
  storeWhole(static_cast<T *>(p.out) + at, after);
}
/// Neighbours of the result, of which those before `left` are in its row.
template <class T, class Acc, int kCount>
__device__ void storeRun(const MatmulArguments &p, int64_t at, int64_t left, const Acc *sums) {
  if (p.wideOut && 0 < left) return storeGroup<T, Acc, kCount>(p, at, sums);
  for (int i = 0; i < kCount; ++i)
    if (i < left) storeGroup<T, Acc, 1>(p, at + i, sums + i);
}

} // namespace opc::cuda
