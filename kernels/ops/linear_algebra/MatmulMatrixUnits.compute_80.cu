// Products of matrices of 16-bit floats, and of floats as TF32, on the matrix units.
// SPDX-License-Identifier: Apache-2.0
#include "linear_algebra/MatmulBatches.cuh"
#include "linear_algebra/MatrixUnits.cuh"

namespace opc::cuda {
namespace {

/// Sixteen rows of a warp's sums, whose fragments go through `staged` for whole sectors.
template <class T>
__device__ void storeRows(const MatmulArguments &p, int64_t base, int64_t row0, int64_t column0, const float (*sum)[4],
                          float *staged) {
  constexpr int kTogether = 4;
  stageRows(sum, staged);
  for (int i = static_cast<int>(threadIdx.x) % 32; i < 16 * kWarpColumns / kTogether; i += 32) {
    const int row = i / (kWarpColumns / kTogether), column = i % (kWarpColumns / kTogether) * kTogether;
    const Pack<float, kTogether> sums =
        *reinterpret_cast<const Pack<float, kTogether> *>(staged + row * kOutPitch + column);
    const int64_t at = base + (row0 + row) * p.n + column0 + column;
    if (row0 + row < p.m) storeRun<T, float, kTogether>(p, at, p.n - column0 - column, sums.v);
  }
}

/// Tiles of kTile x kTile results.
template <class T, int kTile> __device__ void matmul(const MatmulArguments &p) {
  using Part = WarpPart<kTile>;
  using Tile = MatrixTile<T, kTile>;
  using Word = typename Unit<T>::Word;
  constexpr int kTiles = 4 * Tile::kSize * static_cast<int>(sizeof(Word)),
                kStaged = kUnitWarps * 16 * kOutPitch * static_cast<int>(sizeof(float));
  __shared__ __align__(16) char memory[kTiles > kStaged ? kTiles : kStaged]; // two tiles of each operand, or sums
  Word *inMemory = reinterpret_cast<Word *>(memory);
  const int64_t tiles = tilesOf(p, kTile);
  for (int64_t number = blockIdx.x; number < tiles; number += gridDim.x) {
    const TileOfResult<T> at = tileOf<T>(p, number, kTile);
    const Tile left(at.a, !p.transA, p.wideA, p.m, p.k), right(at.b, p.transB, p.wideB, p.n, p.k);
    typename Part::Sums sum = {};
    left.bring(inMemory, at.row0, 0);
    right.bring(inMemory + Tile::kSize, at.column0, 0);
    int held = 0;
    for (int64_t k0 = 0; k0 < p.k; k0 += Unit<T>::kDepth) {
      waitForWhole();
      __syncthreads();
      const Word *tileA = inMemory + held * 2 * Tile::kSize;
      held ^= 1;
      // The next tiles are on their way while these are multiplied.
      left.bring(inMemory + held * 2 * Tile::kSize, at.row0, k0 + Unit<T>::kDepth);
      right.bring(inMemory + held * 2 * Tile::kSize + Tile::kSize, at.column0, k0 + Unit<T>::kDepth);
      Part::template multiply<T>(left, right, tileA, tileA + Tile::kSize, sum);
    }
    __syncthreads();
    float *staged = reinterpret_cast<float *>(memory) + static_cast<int>(threadIdx.x) / 32 * 16 * kOutPitch;
#pragma unroll
    for (int i = 0; i < Part::kFragments; ++i) {
      if (i > 0) __syncwarp();
      storeRows<T>(p, p.m * p.n * at.batch, at.row0 + Part::row() + 16 * i, at.column0 + Part::column(), sum[i],
                   staged);
    }
    __syncthreads();
  }
}

} // namespace

#define OPC_MATMUL(name, T, kTile, kBlocks)                                                                            \
  extern "C" __global__ void __launch_bounds__(256, kBlocks)                                                           \
      matmul_units_##name(const __grid_constant__ MatmulArguments p) {                                                 \
    matmul<T, kTile>(p);                                                                                               \
  }
OPC_MATMUL(f16, float16, 64, 2)
OPC_MATMUL(bf16, bfloat16, 64, 2)
OPC_MATMUL(f32, float, 64, 2)
OPC_MATMUL(wide_f16, float16, 128, 2)
OPC_MATMUL(wide_bf16, bfloat16, 128, 2)
OPC_MATMUL(wide_f32, float, 128, 1)

} // namespace opc::cuda
