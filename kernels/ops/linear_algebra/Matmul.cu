// Products of stacks of matrices: a tile of the result for each block, through shared memory.
// SPDX-License-Identifier: Apache-2.0
#include "linear_algebra/MatmulBatches.cuh"

namespace opc::cuda {
namespace {

constexpr int kSide = 16, kThreads = kSide * kSide; // threads along either side of a tile

__device__ inline float multiplyAdd(float a, float b, float c) { return fmaf(a, b, c); }
__device__ inline double multiplyAdd(double a, double b, double c) { return fma(a, b, c); }
__device__ inline uint32_t multiplyAdd(uint32_t a, uint32_t b, uint32_t c) { return a * b + c; }

/// Where a thread's results are in a tile, one of 16 x 16.
__device__ inline int threadRow() { return static_cast<int>(threadIdx.x) / kSide; }
__device__ inline int threadColumn() { return static_cast<int>(threadIdx.x) % kSide; }

/// Which results a thread owns along one side of a tile: kOwn of them, neighbours as far as one access of 16 bytes
/// goes.
template <class Acc, int kOwn> struct Owned {
  static constexpr int kTogether = kOwn == 1 ? 1 : 16 / static_cast<int>(sizeof(Acc));
  static constexpr int kGroups = kOwn / kTogether;
  using Group = Pack<Acc, kTogether>;
  static __device__ int place(int thread, int group) { return (group * kSide + thread) * kTogether; }
};

/// An operand's tile: kTile places by kDepth steps, from memory through registers.
template <class T, class Acc, int kTile, int kDepth> class Operand {
public:
  // Steps of a place that a warp reads at a time, whole sectors: then its elements go to different banks.
  static constexpr int kLine = sizeof(T) == 2 && kDepth == 16 ? 16 : 8;
  static constexpr int kPitch = kTile + (kTile == kSide && kLine == 16 ? 2 : 16 / static_cast<int>(sizeof(Acc)));
  static constexpr int kSize = kDepth * kPitch;

  /// Of a matrix of `places` by `steps`, whose neighbours along `steps` (if `isSteps`, or else along `places`) are
  /// neighbours in memory: the tile at place0 and step 0.
  __device__ Operand(const T *matrix, bool isSteps, int64_t places, int64_t steps, int64_t place0) : isSteps_(isSteps) {
    const int t = static_cast<int>(threadIdx.x), lane = t % 32, warp = t / 32;
    const int place = isSteps ? lane / kLine + 32 / kLine * (warp / kWarps) : t % kTile;
    step_ = isSteps ? lane % kLine + kLine * (warp % kWarps) : t / kTile;
    to_ = step_ * pitch() + place;
    places_ = static_cast<int>(min(places - place0, static_cast<int64_t>(kTile))) - place;
    at_ = matrix + (isSteps ? (place0 + place) * steps + step_ : step_ * places + place0 + place);
    across_ = isSteps ? kPlaces * steps : kSteps * places;
  }
  /// Between a tile's steps. Two steps of 16 places fill the banks, longer ones may have gaps.
  __device__ int pitch() const { return kTile > kSide || isSteps_ ? kPitch : kTile; }
  /// Reads the tile, behind whose first step there are `left` in all, and goes on to the next.
  __device__ void read(int64_t left) {
    for (int i = 0; i < kHeld; ++i)
      held_[i] = (isSteps_ ? kPlaces * i : 0) < places_ && step_ + (isSteps_ ? 0 : kSteps * i) < left
                     ? static_cast<Acc>(load(at_[i * across_]))
                     : Acc(0);
    at_ += isSteps_ ? kDepth : kDepth / kSteps * across_;
  }
  __device__ void write(Acc *tile) const {
    const int next = isSteps_ ? kPlaces : kSteps * pitch();
    for (int i = 0; i < kHeld; ++i) tile[to_ + i * next] = held_[i];
  }

private:
  // Elements of a thread, the warps that share a place's steps, and what the block takes at a time along either
  // side.
  static constexpr int kHeld = kTile * kDepth / kThreads, kWarps = kDepth / kLine, kPlaces = kThreads / kDepth,
                       kSteps = kThreads / kTile;
  bool isSteps_;
  int step_, to_, places_; // in the tile: the first element's step and place in memory; places to the matrix's end
  int64_t across_;         // to the thread's next element
  const T *at_;
  Acc held_[kHeld];
};

/// The sums of a thread, of the tile at (row0, column0) of the matrix at `base`.
template <class T, class Acc, int kOwn>
__device__ void storeTile(const MatmulArguments &p, int64_t base, int64_t row0, int64_t column0,
                          const Acc (*sum)[kOwn]) {
  using Own = Owned<Acc, kOwn>;
  for (int i = 0; i < kOwn; ++i) {
    const int64_t row = row0 + Own::place(threadRow(), i / Own::kTogether) + i % Own::kTogether;
    for (int g = 0; g < Own::kGroups; ++g) {
      const int64_t column = column0 + Own::place(threadColumn(), g);
      const int64_t at = base + row * p.n + column;
      if (row < p.m) storeRun<T, Acc, Own::kTogether>(p, at, p.n - column, sum[i] + g * Own::kTogether);
    }
  }
}

/// kOwn by kOwn elements of the result a thread. Sums are in the compute type, in the order of k.
template <class T, class Acc, int kOwn, int kDepth> __device__ void matmul(const MatmulArguments &p) {
  using Own = Owned<Acc, kOwn>;
  using Group = typename Own::Group;
  constexpr int kTile = kSide * kOwn;
  using Tile = Operand<T, Acc, kTile, kDepth>;
  __shared__ __align__(16) Acc tileA[Tile::kSize], tileB[Tile::kSize];
  const int64_t tiles = tilesOf(p, kTile);
  for (int64_t number = blockIdx.x; number < tiles; number += gridDim.x) {
    const TileOfResult<T> at = tileOf<T>(p, number, kTile);
    Tile left(at.a, !p.transA, p.m, p.k, at.row0), right(at.b, p.transB, p.n, p.k, at.column0);
    Acc sum[kOwn][kOwn] = {};
    left.read(p.k);
    right.read(p.k);
    for (int64_t k0 = 0; k0 < p.k; k0 += kDepth) {
      left.write(tileA);
      right.write(tileB);
      __syncthreads();
      // The next tiles are on their way while these are multiplied.
      left.read(p.k - k0 - kDepth);
      right.read(p.k - k0 - kDepth);
      // Many sums a thread leave no registers for more steps at a time.
#pragma unroll(kOwn == 1 ? kDepth : sizeof(Acc) == 4 ? 4 : 1)
      for (int k = 0; k < kDepth; ++k) {
        Group x[Own::kGroups], y[Own::kGroups];
        for (int g = 0; g < Own::kGroups; ++g) {
          x[g] = *reinterpret_cast<const Group *>(tileA + k * left.pitch() + Own::place(threadRow(), g));
          y[g] = *reinterpret_cast<const Group *>(tileB + k * right.pitch() + Own::place(threadColumn(), g));
        }
        for (int i = 0; i < kOwn; ++i)
          for (int j = 0; j < kOwn; ++j)
            sum[i][j] = multiplyAdd(x[i / Own::kTogether].v[i % Own::kTogether],
                                    y[j / Own::kTogether].v[j % Own::kTogether], sum[i][j]);
      }
      __syncthreads();
    }
    storeTile<T, Acc, kOwn>(p, p.m * p.n * at.batch, at.row0, at.column0, sum);
  }
}

} // namespace

#define OPC_MATMUL(name, T, Acc, kOwn, kDepth, kBlocks)                                                                \
  extern "C" __global__ void __launch_bounds__(256, kBlocks)                                                           \
      matmul_##name(const __grid_constant__ MatmulArguments p) {                                                       \
    matmul<T, Acc, kOwn, kDepth>(p);                                                                                   \
  }
OPC_MATMUL(f32, float, float, 1, 16, 4)
OPC_MATMUL(f64, double, double, 1, 16, 4)
OPC_MATMUL(f16, float16, float, 1, 16, 4)
OPC_MATMUL(bf16, bfloat16, float, 1, 16, 4)
OPC_MATMUL(i32, int32_t, uint32_t, 1, 16, 4)
OPC_MATMUL(tiles_f32, float, float, 4, 16, 2)
OPC_MATMUL(tiles_f64, double, double, 4, 16, 2)
OPC_MATMUL(tiles_f16, float16, float, 4, 16, 2)
OPC_MATMUL(tiles_bf16, bfloat16, float, 4, 16, 2)
OPC_MATMUL(tiles_i32, int32_t, uint32_t, 4, 16, 2)
OPC_MATMUL(wide_tiles_f32, float, float, 8, 8, 1)

} // namespace opc::cuda
