// Products of matrices of 16-bit floats on the matrix units that GPUs have from compute capability 8.0 on: fragments of
// mma.sync as the PTX ISA's "Warp Level Matrix Multiply-Accumulate Instructions" lays them out.
// SPDX-License-Identifier: Apache-2.0
#include "linear_algebra/MatmulBatches.cuh"

namespace opc::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32;
constexpr int kDepth = 32;                  // steps of the sums that are in memory at a time
constexpr int kChunk = 8;                   // elements of an access of 16 bytes
constexpr int kWarpColumns = 32;            // of a warp's part of a tile
constexpr int kOutPitch = kWarpColumns + 8; // of sums on their way out, whose rows lie in different banks

__device__ inline uint32_t sharedAddress(const void *at) { return static_cast<uint32_t>(__cvta_generic_to_shared(at)); }

/// Four matrices of 8 x 8, one row of them from each lane; transposed if asked.
template <bool kTransposed> __device__ void loadMatrices(const uint16_t *row, uint32_t *to) {
  if constexpr (kTransposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(sharedAddress(row))
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(sharedAddress(row))
                 : "memory");
}
template <class T> __device__ void multiplyAdd(const uint32_t *a, const uint32_t *b, float *sum) {
  if constexpr (std::is_same_v<T, float16>)
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  else
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/// An operand's tile: kPlaces of the result's rows or columns by kDepth steps, as it lies in memory.
template <class T, int kPlaces> class Operand {
public:
  static constexpr int kSize = kPlaces * kDepth;

  /// `isSteps`: neighbours along the steps are neighbours in memory. `isWide`: each line has whole accesses of 16
  /// bytes.
  __device__ Operand(const T *matrix, bool isSteps, bool isWide, int64_t places, int64_t steps)
      : matrix_(reinterpret_cast<const uint16_t *>(matrix)), isSteps_(isSteps), isWide_(isWide),
        lines_(isSteps ? places : steps), length_(isSteps ? steps : places) {}
  __device__ bool isSteps() const { return isSteps_; }
  /// Where element `at` of a line begins in a tile, for whole chunks. Eight chunks in a row, and those at one place of
  /// eight lines, lie in different banks.
  __device__ int index(int line, int at) const {
    const int chunk = at / kChunk;
    return isSteps_ ? line * kDepth + (chunk ^ line / 2 % 4) * kChunk : line * kPlaces + (chunk ^ line % 8) * kChunk;
  }

  /// Begins to bring the tile at (place0, step0); what lies outside of the matrix is 0. Behind the steps there
  /// is none.
  __device__ void bring(uint16_t *tile, int64_t place0, int64_t step0) const {
    if (step0 >= steps()) return;
    const int chunks = (isSteps_ ? kDepth : kPlaces) / kChunk;
    const int64_t line0 = isSteps_ ? place0 : step0, at0 = isSteps_ ? step0 : place0;
#pragma unroll 1
    for (int i = 0; i < kPlaces * kDepth / kChunk / kThreads; ++i) {
      const int chunk = static_cast<int>(threadIdx.x) + kThreads * i, line = chunk / chunks,
                at = chunk % chunks * kChunk;
      bringChunk(tile + index(line, at), line0 + line, at0 + at);
    }
  }

private:
  __device__ int64_t steps() const { return isSteps_ ? length_ : lines_; }
  __device__ void bringChunk(uint16_t *to, int64_t line, int64_t at) const {
    if (isWide_) {
      const bool isInside = line < lines_ && at < length_;
      const uint16_t *from = matrix_ + (isInside ? line * length_ + at : 0);
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(sharedAddress(to)), "l"(from),
                   "r"(isInside ? 16 : 0)
                   : "memory");
      return;
    }
    Pack<uint16_t, kChunk> held;
#pragma unroll
    for (int i = 0; i < kChunk; ++i)
      held.v[i] = line < lines_ && at + i < length_ ? matrix_[line * length_ + at + i] : uint16_t(0);
    *reinterpret_cast<Pack<uint16_t, kChunk> *>(to) = held;
  }
  const uint16_t *matrix_;
  bool isSteps_, isWide_;
  int64_t lines_, length_;
};

/// The fragments of 16 rows by 16 steps at (place, step) of a tile of the left operand.
template <class Tile>
__device__ void leftFragment(const Tile &t, const uint16_t *tile, int place, int step, uint32_t *to) {
  const int lane = static_cast<int>(threadIdx.x) % 32, matrix = lane / 8, row = lane % 8;
  if (t.isSteps())
    loadMatrices<false>(tile + t.index(place + matrix % 2 * 8 + row, step + matrix / 2 * 8), to);
  else
    loadMatrices<true>(tile + t.index(step + matrix / 2 * 8 + row, place + matrix % 2 * 8), to);
}
/// Those of 16 steps by 16 columns of the right one: two fragments of eight columns.
template <class Tile>
__device__ void rightFragments(const Tile &t, const uint16_t *tile, int place, int step, uint32_t *to) {
  const int lane = static_cast<int>(threadIdx.x) % 32, matrix = lane / 8, row = lane % 8;
  if (t.isSteps())
    loadMatrices<false>(tile + t.index(place + matrix / 2 * 8 + row, step + matrix % 2 * 8), to);
  else
    loadMatrices<true>(tile + t.index(step + matrix % 2 * 8 + row, place + matrix / 2 * 8), to);
}

/// Sixteen rows of a warp's sums, whose fragments go through `staged` for whole sectors.
template <class T>
__device__ void storeRows(const MatmulArguments &p, int64_t base, int64_t row0, int64_t column0, const float (*sum)[4],
                          float *staged) {
  constexpr int kTogether = 4;
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int j = 0; j < kWarpColumns / 8; ++j)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      // Said in PTX: of some such pairs the compiler makes two accesses.
      asm volatile("st.shared.v2.f32 [%0], {%1,%2};" ::"r"(
                       sharedAddress(staged + (lane / 4 + 8 * half) * kOutPitch + 8 * j + lane % 4 * 2)),
                   "f"(sum[j][2 * half]), "f"(sum[j][2 * half + 1])
                   : "memory");
    }
  __syncwarp();
  for (int i = lane; i < 16 * kWarpColumns / kTogether; i += 32) {
    const int row = i / (kWarpColumns / kTogether), column = i % (kWarpColumns / kTogether) * kTogether;
    const Pack<float, kTogether> sums =
        *reinterpret_cast<const Pack<float, kTogether> *>(staged + row * kOutPitch + column);
    const int64_t at = base + (row0 + row) * p.n + column0 + column;
    if (row0 + row < p.m) storeRun<T, float, kTogether>(p, at, p.n - column0 - column, sums.v);
  }
}

/// Tiles of kTile x kTile results, of which each warp has kRows x kWarpColumns. Sums are in f32.
template <class T, int kTile> __device__ void matmul(const MatmulArguments &p) {
  constexpr int kAcross = kTile / kWarpColumns, kRows = kTile / (kWarps / kAcross), kFragments = kRows / 16;
  using Tile = Operand<T, kTile>;
  constexpr int kStaged = kWarps * 16 * kOutPitch * static_cast<int>(sizeof(float) / sizeof(uint16_t));
  __shared__ __align__(16)
      uint16_t memory[4 * Tile::kSize > kStaged ? 4 * Tile::kSize : kStaged]; // two tiles of each operand, or sums
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int rowOfWarp = warp / kAcross * kRows, columnOfWarp = warp % kAcross * kWarpColumns;
  const int64_t tiles = tilesOf(p, kTile);
  for (int64_t number = blockIdx.x; number < tiles; number += gridDim.x) {
    const TileOfResult<T> at = tileOf<T>(p, number, kTile);
    const Tile left(at.a, !p.transA, p.wideA, p.m, p.k), right(at.b, p.transB, p.wideB, p.n, p.k);
    float sum[kFragments][kWarpColumns / 8][4] = {};
    left.bring(memory, at.row0, 0);
    right.bring(memory + Tile::kSize, at.column0, 0);
    int held = 0;
    for (int64_t k0 = 0; k0 < p.k; k0 += kDepth) {
      asm volatile("cp.async.wait_all;" ::: "memory");
      __syncthreads();
      const uint16_t *tileA = memory + held * 2 * Tile::kSize, *tileB = tileA + Tile::kSize;
      held ^= 1;
      // The next tiles are on their way while these are multiplied.
      left.bring(memory + held * 2 * Tile::kSize, at.row0, k0 + kDepth);
      right.bring(memory + held * 2 * Tile::kSize + Tile::kSize, at.column0, k0 + kDepth);
#pragma unroll
      for (int k = 0; k < kDepth; k += 16) {
        uint32_t y[kWarpColumns / 16][4];
#pragma unroll
        for (int j = 0; j < kWarpColumns / 16; ++j) rightFragments(right, tileB, columnOfWarp + 16 * j, k, y[j]);
#pragma unroll
        for (int i = 0; i < kFragments; ++i) {
          uint32_t x[4];
          leftFragment(left, tileA, rowOfWarp + 16 * i, k, x);
#pragma unroll
          for (int j = 0; j < kWarpColumns / 8; ++j) multiplyAdd<T>(x, y[j / 2] + j % 2 * 2, sum[i][j]);
        }
      }
    }
    __syncthreads();
    float *staged = reinterpret_cast<float *>(memory) + warp * 16 * kOutPitch;
#pragma unroll
    for (int i = 0; i < kFragments; ++i) {
      if (i > 0) __syncwarp();
      storeRows<T>(p, p.m * p.n * at.batch, at.row0 + rowOfWarp + 16 * i, at.column0 + columnOfWarp, sum[i], staged);
    }
    __syncthreads();
  }
}

} // namespace

#define OPC_MATMUL(name, T, kTile)                                                                                     \
  extern "C" __global__ void __launch_bounds__(256, 2)                                                                 \
      matmul_units_##name(const __grid_constant__ MatmulArguments p) {                                                 \
    matmul<T, kTile>(p);                                                                                               \
  }
OPC_MATMUL(f16, float16, 64)
OPC_MATMUL(bf16, bfloat16, 64)
OPC_MATMUL(wide_f16, float16, 128)
OPC_MATMUL(wide_bf16, bfloat16, 128)

} // namespace opc::cuda
