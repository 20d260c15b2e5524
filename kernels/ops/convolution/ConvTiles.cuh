// How the products of convolutions are computed: tiles through shared memory, a thread for each result, a block for
// each result. All in an order that depends on sizes alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "BlockJoin.cuh"
#include "convolution/ConvProblems.cuh"

namespace opc::cuda {
constexpr int kConvThreads = kJoinThreads;
constexpr int kTile = 64, kDepth = 16, kOwn = 4; // a tile of the result, steps at a time, elements a thread a side
// Two more a row: neighbours along either side of a tile lie in different banks.
constexpr int kPitch = kTile + 2;

__device__ inline float multiplyAdd(float a, float b, float c) { return fmaf(a, b, c); }
__device__ inline double multiplyAdd(double a, double b, double c) { return fma(a, b, c); }
__device__ inline uint32_t multiplyAdd(uint32_t a, uint32_t b, uint32_t c) { return a * b + c; }

/// What a thread brings of an operand's tile: four elements, one place along the side that is not contiguous for it.
template <bool kSteps> struct Share {
  static constexpr int kPlaces = kSteps ? kOwn : 1;
  static __device__ int side(int i) {
    const int t = static_cast<int>(threadIdx.x);
    return kSteps ? t / kDepth + kConvThreads / kDepth * i : t % kTile;
  }
  static __device__ int step(int i) {
    const int t = static_cast<int>(threadIdx.x);
    return kSteps ? t % kDepth : t / kTile + kConvThreads / kTile * i;
  }
};

/// Tiles of 64 x 64 results, 4 x 4 a thread. The order of each sum is that of the steps.
template <class P> __device__ void tiles(P p) {
  using Acc = typename P::Acc;
  using ShareA = Share<P::kStepsA>;
  using ShareB = Share<P::kStepsB>;
  __shared__ Acc left[kDepth][kPitch], right[kDepth][kPitch];
  const int t = static_cast<int>(threadIdx.x);
  const int tm = P::kRowsOut ? t % 16 : t / 16, tn = P::kRowsOut ? t / 16 : t % 16;
  for (int64_t z = blockIdx.z; z < p.parts(); z += gridDim.z) {
    p.part(z);
    const int64_t m0 = static_cast<int64_t>(blockIdx.x) * kTile;
    for (int64_t n0 = static_cast<int64_t>(blockIdx.y) * kTile; n0 < p.columns();
         n0 += static_cast<int64_t>(gridDim.y) * kTile) {
      Place rows[ShareA::kPlaces], columns[ShareB::kPlaces];
#pragma unroll
      for (int i = 0; i < ShareA::kPlaces; ++i) rows[i] = p.row(m0 + ShareA::side(i));
#pragma unroll
      for (int i = 0; i < ShareB::kPlaces; ++i) columns[i] = p.column(n0 + ShareB::side(i));
      Acc sum[kOwn][kOwn] = {};
      for (int64_t k0 = p.firstStep(); k0 < p.endStep(); k0 += kDepth) {
#pragma unroll
        for (int i = 0; i < kOwn; ++i) {
          const int k = ShareA::step(i);
          Place step = p.step(k0 + k);
          step.inside = step.inside && k0 + k < p.endStep();
          left[k][ShareA::side(i)] = p.left(rows[ShareA::kPlaces > 1 ? i : 0], step);
        }
#pragma unroll
        for (int i = 0; i < kOwn; ++i) {
          const int k = ShareB::step(i);
          Place step = p.step(k0 + k);
          step.inside = step.inside && k0 + k < p.endStep();
          right[k][ShareB::side(i)] = p.right(columns[ShareB::kPlaces > 1 ? i : 0], step);
        }
        __syncthreads();
        for (int k = 0; k < kDepth; ++k) {
          Acc x[kOwn], y[kOwn];
          for (int i = 0; i < kOwn; ++i) x[i] = left[k][tm + 16 * i];
          for (int i = 0; i < kOwn; ++i) y[i] = right[k][tn + 16 * i];
          for (int i = 0; i < kOwn; ++i)
            for (int j = 0; j < kOwn; ++j) sum[i][j] = multiplyAdd(x[i], y[j], sum[i][j]);
        }
        __syncthreads();
      }
#pragma unroll
      for (int i = 0; i < kOwn; ++i) {
        const Place m = p.row(m0 + tm + 16 * i);
#pragma unroll
        for (int j = 0; j < kOwn; ++j) {
          const Place n = p.column(n0 + tn + 16 * j);
          if (m.inside && n.inside) p.store(m, n, sum[i][j]);
        }
      }
    }
  }
}

/// Groups of few columns (depthwise): a thread for each result.
template <class P> __device__ void elements(P p) {
  using Acc = typename P::Acc;
  const int64_t rows = p.rows(), columns = p.columns(), all = rows * columns * p.parts();
#pragma unroll 1
  for (int64_t i = firstItem(); i < all; i += itemStep()) {
    // Neighbouring threads write neighbouring elements.
    p.part(P::kRowsOut ? i / rows / columns : i / columns % p.parts());
    const Place m = p.row(P::kRowsOut ? i % rows : i / columns / p.parts()),
                n = p.column(P::kRowsOut ? i / rows % columns : i % columns);
    Acc sum = 0;
    for (int64_t k = 0; k < p.endStep(); ++k) {
      const Place step = p.step(k);
      sum = multiplyAdd(p.left(m, step), p.right(n, step), sum);
    }
    p.store(m, n, sum);
  }
}

/// Few results of many steps: a block for each.
template <class P> __device__ void sums(P p) {
  using Acc = typename P::Acc;
  const int64_t columns = p.columns(), all = p.rows() * columns * p.parts();
  for (int64_t i = blockIdx.x; i < all; i += gridDim.x) {
    p.part(i / columns / p.rows());
    const Place m = p.row(i / columns % p.rows()), n = p.column(i % columns);
    Acc sum = 0;
    for (int64_t k = threadIdx.x; k < p.endStep(); k += kConvThreads) {
      const Place step = p.step(k);
      sum = multiplyAdd(p.left(m, step), p.right(n, step), sum);
    }
    sum = joinBlock(sum, Add{});
    if (threadIdx.x == 0) p.store(m, n, sum);
  }
}

} // namespace opc::cuda
