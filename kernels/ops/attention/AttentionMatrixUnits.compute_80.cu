// scaled_dot_product_attention of 16-bit floats on the matrix units: a block for 128 queries of a head, sixteen a warp,
// keys 64 at a time with a running softmax in f32.
// SPDX-License-Identifier: Apache-2.0
#include "attention/AttentionTiles.cuh"
#include "linear_algebra/MatrixUnits.cuh"

namespace opc::cuda {
namespace {

constexpr int kQueries = 16 * kUnitWarps, kKeyParts = kColumns / 8, kResultParts = kWidth / 8;

/// Over the four threads of a row.
__device__ inline float rowMax(float v) {
  for (int d = 2; d > 0; d /= 2) v = fmaxf(v, __shfl_xor_sync(kEveryLane, v, d));
  return v;
}
__device__ inline float rowSum(float v) {
  for (int d = 2; d > 0; d /= 2) v += __shfl_xor_sync(kEveryLane, v, d);
  return v;
}

/// Two probabilities as elements, and what rounding took from them.
template <class T> __device__ void split(float first, float second, uint32_t *high, uint32_t *low) {
  const T a = stored<T>(first), b = stored<T>(second);
  *high = a.bits | static_cast<uint32_t>(b.bits) << 16;
  *low = stored<T>(first - load(a)).bits | static_cast<uint32_t>(stored<T>(second - load(b)).bits) << 16;
}

/// What a block works on: queries from q0 on, columns of the values from c0 on.
template <class T> class Block {
public:
  using U = Unit<T>;
  using Word = typename U::Word;
  using Queries = MatrixTile<T, kQueries>;
  using Keys = MatrixTile<T, kColumns>;
  using Values = MatrixTile<T, kWidth>;
  // A stage has a piece of queries and keys, or one of values.
  static constexpr int kStage = Queries::kSize + Keys::kSize, kPieces = kColumns / U::kDepth;
  static_assert(Values::kSize <= kStage);

  __device__ Block(const AttentionArguments &a, const Places &places, int64_t head, int64_t q0, int64_t c0,
                   Word *memory)
      : q0_(q0), c0_(c0), keys_(keysOf(a, places, q0, q0 + kQueries)), steps_((a.d + U::kDepth - 1) / U::kDepth),
        memory_(memory),
        query_(static_cast<const T *>(a.query) + head * a.n * a.d, true, isWhole(a.query, a.d), a.n, a.d),
        key_(static_cast<const T *>(a.key) + head / a.perKey * a.m * a.d, true, isWhole(a.key, a.d), a.m, a.d),
        value_(static_cast<const T *>(a.value) + head / a.perKey * a.m * a.dv, false, isWhole(a.value, a.dv), a.dv,
               a.m) {}
  __device__ KeyTiles keys() const { return keys_; }
  __device__ int64_t steps() const { return steps_; }

  /// Begins with the first piece.
  __device__ void begin() {
    item_ = 0;
    bring(0);
  }
  /// The next piece is in memory, and the one after it is on its way.
  __device__ const Word *next() {
    waitForWhole();
    __syncthreads();
    bring(item_ + 1);
    return stage(item_++);
  }
  /// Adds products of a piece's queries and keys to a warp's scores.
  __device__ void score(const Word *piece, float (*scores)[4]) const {
#pragma unroll
    for (int k = 0; k < U::kDepth; k += U::kStep) {
      uint32_t x[4];
      query_.left(piece, static_cast<int>(threadIdx.x) / 32 * 16, k, x);
#pragma unroll
      for (int j = 0; j < kKeyParts / 2; ++j) {
        uint32_t y[4];
        key_.right(piece + Queries::kSize, 16 * j, k, y);
        multiplyAdd<T>(x, y, scores[2 * j]);
        multiplyAdd<T>(x, y + 2, scores[2 * j + 1]);
      }
    }
  }
  /// Adds products of probabilities, four parts of eight keys, and a piece of values. Probabilities keep twice the bits
  /// of an element.
  __device__ void weigh(const Word *piece, const float (*p)[4], float (*result)[4]) const {
#pragma unroll
    for (int k = 0; k < U::kDepth; k += U::kStep) {
      uint32_t high[4], low[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float *two = p[k / 8 + i / 2] + i % 2 * 2;
        split<T>(two[0], two[1], &high[i], &low[i]);
      }
#pragma unroll
      for (int j = 0; j < kResultParts / 2; ++j) {
        uint32_t y[4];
        value_.right(piece, 16 * j, k, y);
        for (int half = 0; half < 2; ++half) {
          multiplyAdd<T>(high, y + 2 * half, result[2 * j + half]);
          multiplyAdd<T>(low, y + 2 * half, result[2 * j + half]);
        }
      }
    }
  }

private:
  static __device__ bool isWhole(const void *begin, int64_t width) {
    return reinterpret_cast<uintptr_t>(begin) % 16 == 0 && width % U::kChunk == 0;
  }
  __device__ Word *stage(int64_t item) const { return memory_ + item % 2 * kStage; }
  __device__ void bring(int64_t item) const {
    const int64_t tile = keys_.begin + item / (steps_ + kPieces) * kColumns, piece = item % (steps_ + kPieces);
    if (tile >= keys_.end) return;
    if (piece < steps_) {
      query_.bring(stage(item), q0_, piece * U::kDepth);
      key_.bring(stage(item) + Queries::kSize, tile, piece * U::kDepth);
    } else {
      value_.bring(stage(item), c0_, tile + (piece - steps_) * U::kDepth);
    }
  }
  int64_t q0_, c0_;
  KeyTiles keys_;
  int64_t steps_, item_ = 0;
  Word *memory_;
  Queries query_;
  Keys key_;
  Values value_;
};

/// A warp's sixteen queries: of each thread rows lane / 4 and lane / 4 + 8.
struct Running {
  float top[2] = {minusInfinity<float>(), minusInfinity<float>()}, sum[2] = {0, 0};
};
/// Scores of 64 keys become what their probabilities are before they are divided by their sum; what was added up before
/// is brought to the same shift.
__device__ inline void soften(float (*scores)[4], Running &r, float (*result)[4]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float high = r.top[half];
#pragma unroll
    for (int j = 0; j < kKeyParts; ++j) high = fmaxf(high, fmaxf(scores[j][2 * half], scores[j][2 * half + 1]));
    high = rowMax(high);
    // Rows that have seen nothing yet have nothing to shift by.
    const float shift = high == minusInfinity<float>() ? 0.0f : high, keep = exp(r.top[half] - shift);
    float sum = 0;
#pragma unroll
    for (int j = 0; j < kKeyParts; ++j)
#pragma unroll
      for (int i = 2 * half; i < 2 * half + 2; ++i) {
        scores[j][i] = exp(scores[j][i] - shift);
        sum += scores[j][i];
      }
    r.sum[half] = r.sum[half] * keep + rowSum(sum);
    r.top[half] = high;
#pragma unroll
    for (int j = 0; j < kResultParts; ++j) {
      result[j][2 * half] *= keep;
      result[j][2 * half + 1] *= keep;
    }
  }
}

template <class T>
__device__ void storeResult(const AttentionArguments &a, int64_t head, int64_t row0, int64_t c0, const Running &r,
                            float (*result)[4], float *staged) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const bool blind = r.top[half] == minusInfinity<float>();
    const float factor = blind ? 0.0f : 1.0f / r.sum[half];
#pragma unroll
    for (int j = 0; j < kResultParts; ++j) {
      result[j][2 * half] *= factor;
      result[j][2 * half + 1] *= factor;
    }
    const int64_t row = row0 + lane / 4 + 8 * half;
    if (c0 == 0 && lane % 4 == 0 && row < a.n)
      static_cast<float *>(a.sums)[head * a.n + row] = blind ? r.top[half] : log(r.sum[half]) + r.top[half];
  }
#pragma unroll
  for (int part = 0; part < kWidth / kWarpColumns; ++part) {
    if (part > 0) __syncwarp();
    stageRows(result + part * (kWarpColumns / 8), staged);
    const int64_t column = c0 + part * kWarpColumns + lane;
#pragma unroll 1
    for (int i = 0; i < 16; ++i)
      if (row0 + i < a.n && column < a.dv)
        static_cast<T *>(a.to)[(head * a.n + row0 + i) * a.dv + column] = stored<T>(staged[i * kOutPitch + lane]);
  }
}

template <class T> __device__ void attention(const AttentionArguments &a) {
  using B = Block<T>;
  constexpr int kStages = 2 * B::kStage * static_cast<int>(sizeof(uint16_t)),
                kStaged = kUnitWarps * 16 * kOutPitch * static_cast<int>(sizeof(float));
  __shared__ __align__(16) char memory[kStages > kStaged ? kStages : kStaged]; // two stages, or results
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int64_t down = (a.n + kQueries - 1) / kQueries, across = (a.dv + kWidth - 1) / kWidth;
  for (int64_t number = blockIdx.x; number < down * across * a.heads; number += gridDim.x) {
    const int64_t head = number / down / across, q0 = number / across % down * kQueries, c0 = number % across * kWidth,
                  row0 = q0 + 16 * warp, mask = maskOf(a, head);
    const Places places = placesOf(a, head);
    B block(a, places, head, q0, c0, reinterpret_cast<uint16_t *>(memory));
    Running r;
    float result[kResultParts][4] = {};
    block.begin();
    for (int64_t k0 = block.keys().begin; k0 < block.keys().end; k0 += kColumns) {
      float scores[kKeyParts][4] = {};
      for (int64_t d = 0; d < block.steps(); ++d) block.score(block.next(), scores);
#pragma unroll
      for (int j = 0; j < kKeyParts; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          scores[j][i] =
              scoreOf<T>(a, places, mask, row0 + lane / 4 + i / 2 * 8, k0 + 8 * j + lane % 4 * 2 + i % 2, scores[j][i]);
      soften(scores, r, result);
#pragma unroll
      for (int piece = 0; piece < B::kPieces; ++piece) {
        const uint16_t *values = block.next();
        // Behind the last key nothing was brought.
        if (k0 + piece * Unit<T>::kDepth < a.m) block.weigh(values, scores + piece * (Unit<T>::kDepth / 8), result);
      }
    }
    __syncthreads();
    storeResult<T>(a, head, row0, c0, r, result, reinterpret_cast<float *>(memory) + warp * 16 * kOutPitch);
    __syncthreads();
  }
}

} // namespace

#define OPC_ATTENTION(name, T) OPC_KERNEL(attention_units_##name, AttentionArguments, attention<T>)
OPC_ATTENTION(f16, float16)
OPC_ATTENTION(bf16, bfloat16)

} // namespace opc::cuda
