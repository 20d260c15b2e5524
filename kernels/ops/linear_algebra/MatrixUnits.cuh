// The matrix units that GPUs have from compute capability 8.0 on: tiles of factors in shared memory, and fragments of
// mma.sync as the PTX ISA's "Warp Level Matrix Multiply-Accumulate Instructions" lays them out. Factors are 16-bit
// floats, or floats that are rounded to TF32 on their way into the units. Sums are in f32.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "DeviceTypes.cuh"

namespace opc::cuda {

/// What the units take at a time of elements of T.
template <class T> struct Unit {
  static constexpr bool kHalf = sizeof(T) == 2;
  using Word = std::conditional_t<kHalf, uint16_t, uint32_t>;
  static constexpr int kChunk = 16 / static_cast<int>(sizeof(T)); // elements of an access of 16 bytes
  static constexpr int kStep = 2 * kChunk;                        // steps of one instruction
  static constexpr int kDepth = 2 * kStep;                        // steps of the sums that are in memory at a time
};
constexpr int kUnitThreads = 256, kUnitWarps = kUnitThreads / 32;
constexpr int kWarpColumns = 32;            // of a warp's part of a tile
constexpr int kOutPitch = kWarpColumns + 8; // of sums on their way out, whose rows lie in different banks

__device__ inline uint32_t sharedAddress(const void *at) { return static_cast<uint32_t>(__cvta_generic_to_shared(at)); }

/// Four matrices of 8 rows of 16 bytes, one row of them from each lane; transposed, of 16-bit elements, if asked.
template <bool kTransposed> __device__ void loadMatrices(const void *row, uint32_t *to) {
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
  else if constexpr (std::is_same_v<T, bfloat16>)
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  else
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
/// Four registers of a fragment as the units want them: floats to the nearest TF32, ties away from 0.
template <class T> __device__ void rounded(uint32_t *fragment) {
  if constexpr (!Unit<T>::kHalf)
    for (int i = 0; i < 4; ++i) asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(fragment[i]) : "f"(__uint_as_float(fragment[i])));
}

/// Brings 16 bytes into shared memory, which cp.async.wait_all waits for; zeros unless `isInside`.
__device__ inline void bringWhole(void *to, const void *from, bool isInside) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(sharedAddress(to)), "l"(from),
               "r"(isInside ? 16 : 0)
               : "memory");
}
__device__ inline void waitForWhole() { asm volatile("cp.async.wait_all;" ::: "memory"); }

/// A tile in shared memory: kPlaces of the result's rows or columns by Unit<T>::kDepth steps. A line of it is what
/// follows on each other in memory, along the steps (`isSteps`) or along the places.
template <class T, int kPlaces> class UnitTile {
public:
  using U = Unit<T>;
  using Word = typename U::Word;
  static constexpr int kSize = kPlaces * U::kDepth;

  explicit __device__ UnitTile(bool isSteps) : isSteps_(isSteps) {}
  __device__ bool isSteps() const { return isSteps_; }
  __device__ int lineLength() const { return isSteps_ ? U::kDepth : kPlaces; }
  /// Where the chunk of a line begins that starts with element `at`. Eight chunks in a row, and what a fragment reads
  /// of several lines, lie in different banks.
  __device__ int index(int line, int at) const {
    const int chunk = at / U::kChunk;
    if (isSteps_) return line * U::kDepth + (chunk ^ line / 2 % 4) * U::kChunk;
    return line * kPlaces + (chunk ^ (U::kHalf ? line % 8 : line % 4 * 2)) * U::kChunk;
  }
  __device__ int element(int line, int at) const { return index(line, at) + at % U::kChunk; }

  /// The fragments of 16 rows by kStep steps at (place, step) of the left factor.
  __device__ void left(const Word *tile, int place, int step, uint32_t *to) const {
    const int lane = static_cast<int>(threadIdx.x) % 32, matrix = lane / 8, row = lane % 8;
    if (isSteps_)
      loadMatrices<false>(tile + index(place + matrix % 2 * 8 + row, step + matrix / 2 * U::kChunk), to);
    else if constexpr (U::kHalf)
      loadMatrices<true>(tile + index(step + matrix / 2 * 8 + row, place + matrix % 2 * 8), to);
    else
      for (int i = 0; i < 4; ++i) to[i] = tile[element(step + lane % 4 + i / 2 * 4, place + lane / 4 + i % 2 * 8)];
    rounded<T>(to);
  }
  /// Those of kStep steps by 16 columns of the right one: two fragments of eight columns.
  __device__ void right(const Word *tile, int place, int step, uint32_t *to) const {
    const int lane = static_cast<int>(threadIdx.x) % 32, matrix = lane / 8, row = lane % 8;
    if (isSteps_)
      loadMatrices<false>(tile + index(place + matrix / 2 * 8 + row, step + matrix % 2 * U::kChunk), to);
    else if constexpr (U::kHalf)
      loadMatrices<true>(tile + index(step + matrix % 2 * 8 + row, place + matrix / 2 * 8), to);
    else
      for (int i = 0; i < 4; ++i) to[i] = tile[element(step + lane % 4 + i % 2 * 4, place + lane / 4 + i / 2 * 8)];
    rounded<T>(to);
  }

private:
  bool isSteps_;
};

/// A tile of a matrix in memory.
template <class T, int kPlaces> class MatrixTile : public UnitTile<T, kPlaces> {
public:
  using U = Unit<T>;
  using Word = typename U::Word;

  /// `isSteps`: neighbours along the steps are neighbours in memory. `isWide`: each line has whole accesses of 16
  /// bytes.
  __device__ MatrixTile(const T *matrix, bool isSteps, bool isWide, int64_t places, int64_t steps)
      : UnitTile<T, kPlaces>(isSteps), matrix_(reinterpret_cast<const Word *>(matrix)), isWide_(isWide),
        lines_(isSteps ? places : steps), length_(isSteps ? steps : places) {}

  /// Begins to bring the tile at (place0, step0); what lies outside of the matrix is 0. Behind the steps there
  /// is none.
  __device__ void bring(Word *tile, int64_t place0, int64_t step0) const {
    if (step0 >= (this->isSteps() ? length_ : lines_)) return;
    const int chunks = this->lineLength() / U::kChunk;
    const int64_t line0 = this->isSteps() ? place0 : step0, at0 = this->isSteps() ? step0 : place0;
#pragma unroll 1
    for (int i = 0; i < this->kSize / U::kChunk / kUnitThreads; ++i) {
      const int chunk = static_cast<int>(threadIdx.x) + kUnitThreads * i, line = chunk / chunks,
                at = chunk % chunks * U::kChunk;
      bringChunk(tile + this->index(line, at), line0 + line, at0 + at);
    }
  }

private:
  __device__ void bringChunk(Word *to, int64_t line, int64_t at) const {
    if (isWide_) {
      const bool isInside = line < lines_ && at < length_;
      bringWhole(to, matrix_ + (isInside ? line * length_ + at : 0), isInside);
      return;
    }
    Pack<Word, U::kChunk> held;
#pragma unroll
    for (int i = 0; i < U::kChunk; ++i)
      held.v[i] = line < lines_ && at + i < length_ ? matrix_[line * length_ + at + i] : Word(0);
    *reinterpret_cast<Pack<Word, U::kChunk> *>(to) = held;
  }
  const Word *matrix_;
  bool isWide_;
  int64_t lines_, length_;
};

/// How a block's warps share a tile of kTile x kTile results: each has kRows x kWarpColumns, in fragments of 16 rows.
template <int kTile> struct WarpPart {
  static constexpr int kAcross = kTile / kWarpColumns, kRows = kTile / (kUnitWarps / kAcross), kFragments = kRows / 16;
  using Sums = float[kFragments][kWarpColumns / 8][4];
  static __device__ int row() { return static_cast<int>(threadIdx.x) / 32 / kAcross * kRows; }
  static __device__ int column() { return static_cast<int>(threadIdx.x) / 32 % kAcross * kWarpColumns; }

  /// Adds the products of two tiles to a warp's sums.
  template <class T, class Left, class Right>
  static __device__ void multiply(const Left &left, const Right &right, const typename Unit<T>::Word *tileA,
                                  const typename Unit<T>::Word *tileB, Sums &sum) {
#pragma unroll
    for (int k = 0; k < Unit<T>::kDepth; k += Unit<T>::kStep) {
      uint32_t y[kWarpColumns / 16][4];
#pragma unroll
      for (int j = 0; j < kWarpColumns / 16; ++j) right.right(tileB, column() + 16 * j, k, y[j]);
#pragma unroll
      for (int i = 0; i < kFragments; ++i) {
        uint32_t x[4];
        left.left(tileA, row() + 16 * i, k, x);
#pragma unroll
        for (int j = 0; j < kWarpColumns / 8; ++j) multiplyAdd<T>(x, y[j / 2] + j % 2 * 2, sum[i][j]);
      }
    }
  }
};

/// Sixteen rows of a warp's sums as they lie beside each other: `staged` is 16 rows of kOutPitch. The warp waits.
__device__ inline void stageRows(const float (*sum)[4], float *staged) {
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
}

} // namespace opc::cuda
