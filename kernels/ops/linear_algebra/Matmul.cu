// Products of stacks of matrices: a tile of the result for each block, through shared memory.
// SPDX-License-Identifier: Apache-2.0
#include "DeviceTypes.cuh"
#include "linear_algebra/MatmulArguments.h"

namespace opc::cuda {
namespace {

using ops::MatmulArguments;

constexpr int kTile = 16;

__device__ inline float multiplyAdd(float a, float b, float c) { return fmaf(a, b, c); }
__device__ inline double multiplyAdd(double a, double b, double c) { return fma(a, b, c); }
__device__ inline uint32_t multiplyAdd(uint32_t a, uint32_t b, uint32_t c) { return a * b + c; }

/// One element of the result a thread. Sums are in the compute type, in the order of k.
template <class T, class Acc> __device__ void matmul(const MatmulArguments &p) {
  __shared__ Acc tileA[kTile * (kTile + 2)], tileB[kTile * (kTile + 2)];
  // The two rows that a warp writes lie in different banks, and so do its two columns where the matrix is transposed.
  constexpr int kAcross = sizeof(Acc) == 8 ? kTile + 1 : kTile + 2;
  const int pitchA = p.transA ? kAcross : kTile, pitchB = p.transB ? kAcross : kTile;
  const int tx = static_cast<int>(threadIdx.x), ty = static_cast<int>(threadIdx.y);
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kTile + tx;
  for (int64_t batch = blockIdx.z; batch < p.batches; batch += gridDim.z) {
    int64_t atA = 0, atB = 0, rest = batch;
#pragma unroll 1
    for (int d = p.rank; d-- > 0;) {
      const int64_t index = rest % p.dims[d];
      rest /= p.dims[d];
      atA += index * p.stepA[d];
      atB += index * p.stepB[d];
    }
    const T *a = static_cast<const T *>(p.a) + atA, *b = static_cast<const T *>(p.b) + atB;
    const int64_t base = batch * p.m * p.n;
    for (int64_t rowTile = blockIdx.y; rowTile * kTile < p.m; rowTile += gridDim.y) {
      const int64_t row = rowTile * kTile + ty;
      Acc sum = 0;
      for (int64_t k0 = 0; k0 < p.k; k0 += kTile) {
        // Neighbouring threads read neighbouring elements, whichever way the matrices lie.
        const int64_t aRow = p.transA ? rowTile * kTile + tx : row, aK = k0 + (p.transA ? ty : tx);
        const int64_t bK = k0 + (p.transB ? tx : ty),
                      bColumn = p.transB ? static_cast<int64_t>(blockIdx.x) * kTile + ty : column;
        const Acc va =
            aRow < p.m && aK < p.k ? static_cast<Acc>(load(a[p.transA ? aK * p.m + aRow : aRow * p.k + aK])) : Acc(0);
        const Acc vb = bColumn < p.n && bK < p.k
                           ? static_cast<Acc>(load(b[p.transB ? bColumn * p.k + bK : bK * p.n + bColumn]))
                           : Acc(0);
        tileA[p.transA ? tx * pitchA + ty : ty * pitchA + tx] = va;
        tileB[p.transB ? tx * pitchB + ty : ty * pitchB + tx] = vb;
        __syncthreads();
        for (int k = 0; k < kTile; ++k) sum = multiplyAdd(tileA[ty * pitchA + k], tileB[k * pitchB + tx], sum);
        __syncthreads();
      }
      if (row < p.m && column < p.n) {
        const int64_t at = base + row * p.n + column;
        Acc value = static_cast<Acc>(static_cast<Acc>(p.alpha) * sum);
        if (p.add) value += static_cast<Acc>(load(static_cast<const T *>(p.add)[at]));
        static_cast<T *>(p.out)[at] = stored<T>(value);
      }
    }
  }
}

} // namespace

#define OPC_MATMUL(name, T, Acc)                                                                                       \
  extern "C" __global__ void __launch_bounds__(256, 1) matmul_##name(const __grid_constant__ MatmulArguments p) {      \
    matmul<T, Acc>(p);                                                                                                 \
  }
OPC_MATMUL(f32, float, float)
OPC_MATMUL(f64, double, double)
OPC_MATMUL(f16, float16, float)
OPC_MATMUL(bf16, bfloat16, float)
OPC_MATMUL(i32, int32_t, uint32_t)

} // namespace opc::cuda
