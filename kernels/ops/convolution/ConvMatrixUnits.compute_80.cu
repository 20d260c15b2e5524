// Convolutions and their two gradients on the matrix units: products of matrices that are never built. Where an element
// of either factor lies is a sum over its place and its step, which tables in shared memory hold for a tile at a time.
// SPDX-License-Identifier: Apache-2.0
#include "convolution/ConvProblems.cuh"
#include "convolution/ConvUnitArguments.h"
#include "linear_algebra/MatrixUnits.cuh"

namespace opc::cuda {
namespace {

using ops::ConvUnitArguments;

constexpr int kTile = 64;
enum Product { kForward, kData, kFilter };

/// A place's or a step's part of an element's offset, and of its three spatial indices.
struct Spot {
  int64_t offset;
  int32_t d, h, w;
};
constexpr int32_t kOutside = -(1 << 30); // whatever is added, the index is negative
template <int kCount> struct Spots {
  int64_t offset[kCount];
  int32_t d[kCount], h[kCount], w[kCount];
  /// Places beside each other, and every fourth or eighth place, lie in different banks.
  static __device__ int slot(int i) { return i ^ (i >> 4 & 3); }
  __device__ Spot get(int i) const { return {offset[slot(i)], d[slot(i)], h[slot(i)], w[slot(i)]}; }
  __device__ void put(int i, const Spot &s) {
    offset[slot(i)] = s.offset;
    d[slot(i)] = s.d, h[slot(i)] = s.h, w[slot(i)] = s.w;
  }
};

/// One of the three products. Factor 0 is what has positions as places (kFilter: filters), factor 1 the other one.
template <class T, Product kProduct> class Factors {
public:
  explicit __device__ Factors(const ConvUnitArguments &u) : u_(u), a_(u.conv) {}
  __device__ int64_t parts() const { return kProduct == kFilter ? a_.groups * a_.sliceCount : a_.groups; }
  __device__ void part(int64_t z) {
    group_ = kProduct == kFilter ? z / a_.sliceCount : z;
    slice_ = kProduct == kFilter ? z % a_.sliceCount : 0;
  }
  /// Whether factor 1 gives the rows: neighbours in the result are always in a row.
  __device__ bool isTurned() const { return kProduct != kFilter && !u_.isLast; }
  template <int kFactor> __device__ int64_t places() const {
    if constexpr (kProduct == kForward) return kFactor ? a_.perGroup : a_.batch * volume(a_.size);
    if constexpr (kProduct == kData) return kFactor ? a_.own : a_.batch * volume(a_.in);
    return kFactor ? a_.own * volume(a_.kernel) : a_.perGroup;
  }
  __device__ int64_t firstStep() const { return kProduct == kFilter ? slice_ * a_.sliceLength : 0; }
  __device__ int64_t endStep() const {
    if constexpr (kProduct == kForward) return a_.own * volume(a_.kernel);
    if constexpr (kProduct == kData) return a_.perGroup * volume(a_.kernel);
    return min(firstStep() + a_.sliceLength, a_.batch * volume(a_.size));
  }
  /// Whether neighbours along the steps are neighbours in memory.
  template <int kFactor> __device__ bool isSteps() const {
    if constexpr (kProduct == kForward) return kFactor || u_.isLast;
    if constexpr (kProduct == kData) return kFactor ? !u_.isLast : u_.isLast;
    return !u_.isLast;
  }
  template <int kFactor> __device__ const T *base() const {
    if constexpr (kProduct == kForward) return static_cast<const T *>(kFactor ? a_.weight : a_.x);
    if constexpr (kProduct == kData) return static_cast<const T *>(kFactor ? a_.weight : a_.y);
    return static_cast<const T *>(kFactor ? a_.x : a_.y);
  }

  /// Place i, and its part of the offset in the result; -1 outside.
  template <int kFactor> __device__ Spot place(int64_t i, int64_t *out) const {
    Place p{i, 0, 0, 0, i < places<kFactor>()};
    Spot s{};
    if constexpr (kProduct == kFilter && kFactor) {
      p = tap(i, a_.own);
      s = dilated(p, (group_ * a_.own + p.c) * a_.xs[1], 1, a_.xs);
      *out = p.c * a_.ws[1] + at(p, a_.ws);
    } else if constexpr (kProduct == kFilter) {
      s.offset = (group_ * a_.perGroup + i) * a_.ys[1];
      *out = (group_ * a_.perGroup + i) * a_.ws[0];
    } else if constexpr (kProduct == kForward && kFactor) {
      s.offset = (group_ * a_.perGroup + i) * a_.ws[0];
      *out = (group_ * a_.perGroup + i) * a_.ys[1];
    } else if constexpr (kProduct == kForward) {
      p = cuda::place<false>(i, a_.batch, a_.size);
      s = window(p, p.c * a_.xs[0] + group_ * a_.own * a_.xs[1]);
      *out = p.c * a_.ys[0] + at(p, a_.ys);
    } else if constexpr (kFactor) {
      s.offset = group_ * a_.perGroup * a_.ws[0] + i * a_.ws[1];
      *out = (group_ * a_.own + i) * a_.xs[1];
    } else {
      p = cuda::place<false>(i, a_.batch, a_.in);
      s = {p.c * a_.ys[0] + group_ * a_.perGroup * a_.ys[1], narrow(p.d + a_.padding[0]), narrow(p.h + a_.padding[1]),
           narrow(p.w + a_.padding[2])};
      *out = p.c * a_.xs[0] + at(p, a_.xs);
    }
    if (!p.inside) s = {0, kOutside, 0, 0}, *out = -1;
    return s;
  }
  template <int kFactor> __device__ Spot step(int64_t k) const {
    Spot s{};
    if constexpr (kProduct == kFilter) {
      const Place p = cuda::place<false>(k, a_.batch, a_.size);
      if (kFactor)
        s = window(p, p.c * a_.xs[0]);
      else
        s.offset = p.c * a_.ys[0] + at(p, a_.ys);
    } else {
      const Place p = tap(k, kProduct == kForward ? a_.own : a_.perGroup);
      if (kFactor)
        s.offset = p.c * a_.ws[kProduct == kForward ? 1 : 0] + at(p, a_.ws);
      else if (kProduct == kForward)
        s = dilated(p, p.c * a_.xs[1], 1, a_.xs);
      else
        s = dilated(p, p.c * a_.ys[1], -1, nullptr);
    }
    if (k >= endStep()) s = {0, kOutside, 0, 0};
    return s;
  }
  /// Where the element of a place and a step lies; false for one that is 0.
  template <int kFactor> __device__ bool find(const Spot &place, const Spot &step, int64_t *offset) const {
    const int32_t d = place.d + step.d, h = place.h + step.h, w = place.w + step.w;
    *offset = place.offset + step.offset;
    if constexpr (kProduct == kData && !kFactor) {
      return reach(d, 0, offset) && reach(h, 1, offset) && reach(w, 2, offset);
    } else if constexpr (kProduct == kForward ? !kFactor : kProduct == kFilter && kFactor) {
      return d >= 0 && d < a_.in[0] && h >= 0 && h < a_.in[1] && w >= 0 && w < a_.in[2];
    } else {
      return d >= 0;
    }
  }

  /// `filter`: of the group.
  __device__ void store(int64_t to, int64_t filter, float value) const {
    if constexpr (kProduct == kForward) {
      if (a_.bias) value += load(static_cast<const T *>(a_.bias)[group_ * a_.perGroup + filter]);
    }
    if constexpr (kProduct == kFilter) {
      if (a_.slices) {
        static_cast<float *>(a_.slices)[slice_ * a_.groups * a_.perGroup * a_.own * volume(a_.kernel) + to] = value;
        return;
      }
    } else {
      if (a_.add) value += load(static_cast<const T *>(a_.add)[to]);
    }
    static_cast<T *>(a_.out)[to] = stored<T>(value);
  }

private:
  static __device__ int32_t narrow(int64_t v) { return static_cast<int32_t>(v); }
  __device__ Place tap(int64_t i, int64_t channels) const {
    return u_.isLast ? cuda::place<true>(i, channels, a_.kernel) : cuda::place<false>(i, channels, a_.kernel);
  }
  /// What a tap adds to an index, and to the offset where that is strided so.
  __device__ Spot dilated(const Place &p, int64_t offset, int sign, const int64_t *strides) const {
    const int64_t d = p.d * a_.dilation[0], h = p.h * a_.dilation[1], w = p.w * a_.dilation[2];
    if (strides) offset += d * strides[2] + h * strides[3] + w * strides[4];
    return {offset, narrow(sign * d), narrow(sign * h), narrow(sign * w)};
  }
  /// The first element of a window in x.
  __device__ Spot window(const Place &p, int64_t offset) const {
    const int64_t d = p.d * a_.stride[0] - a_.padding[0], h = p.h * a_.stride[1] - a_.padding[1],
                  w = p.w * a_.stride[2] - a_.padding[2];
    return {offset + d * a_.xs[2] + h * a_.xs[3] + w * a_.xs[4], narrow(d), narrow(h), narrow(w)};
  }
  /// The index in y of a window that begins `from` elements before one of x.
  __device__ bool reach(int32_t from, int axis, int64_t *offset) const {
    const int32_t stride = narrow(a_.stride[axis]), to = stride == 1 ? from : from / stride;
    *offset += to * a_.ys[2 + axis];
    return from >= 0 && to * stride == from && to < a_.size[axis];
  }
  const ConvUnitArguments &u_;
  const ConvArguments &a_;
  int64_t group_ = 0, slice_ = 0;
};

/// Brings a tile of a factor; what is outside is 0.
template <int kFactor, class T, class F>
__device__ void bring(const F &f, bool isWhole, const Spots<kTile> &places, const Spots<Unit<T>::kDepth> &steps,
                      typename Unit<T>::Word *tile) {
  using U = Unit<T>;
  using Word = typename U::Word;
  const UnitTile<T, kTile> to(f.template isSteps<kFactor>());
  const Word *base = reinterpret_cast<const Word *>(f.template base<kFactor>());
  const int together = isWhole ? U::kChunk : 1, length = to.lineLength() / together;
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < to.kSize / together; i += kUnitThreads) {
    const int line = i / length, begin = i % length * together;
    int64_t offset;
    const bool isInside = f.template find<kFactor>(places.get(to.isSteps() ? line : begin),
                                                   steps.get(to.isSteps() ? begin : line), &offset);
    if (isWhole)
      bringWhole(tile + to.index(line, begin), base + (isInside ? offset : 0), isInside);
    else
      tile[to.element(line, begin)] = isInside ? base[offset] : Word(0);
  }
}

/// Tiles of 64 x 64 results, whose sums are in the units' order.
template <class T, Product kProduct> __device__ void convolve(const ConvUnitArguments &u) {
  using Part = WarpPart<kTile>;
  using Tile = UnitTile<T, kTile>;
  using Word = typename Unit<T>::Word;
  constexpr int kDepth = Unit<T>::kDepth, kTiles = 4 * Tile::kSize * static_cast<int>(sizeof(Word)),
                kStaged = kUnitWarps * 16 * kOutPitch * static_cast<int>(sizeof(float));
  __shared__ __align__(16) char memory[kTiles > kStaged ? kTiles : kStaged]; // two tiles of each factor, or sums
  __shared__ Spots<kTile> places[2];
  __shared__ Spots<kDepth> steps[2][2]; // of a tile and the next one, by factor
  __shared__ int64_t out[2][kTile];
  Word *inMemory = reinterpret_cast<Word *>(memory);
  Factors<T, kProduct> f(u);
  const bool isTurned = f.isTurned();
  const int t = static_cast<int>(threadIdx.x), lane = t % 32;
  const Tile left(isTurned ? f.template isSteps<1>() : f.template isSteps<0>()),
      right(isTurned ? f.template isSteps<0>() : f.template isSteps<1>());
  const int64_t tiles0 = (f.template places<0>() + kTile - 1) / kTile,
                tiles1 = (f.template places<1>() + kTile - 1) / kTile;
  auto listSteps = [&](int stage, int64_t k0) {
    if (t >= 128 && t < 128 + kDepth) steps[stage][0].put(t - 128, f.template step<0>(k0 + t - 128));
    if (t >= 160 && t < 160 + kDepth) steps[stage][1].put(t - 160, f.template step<1>(k0 + t - 160));
  };
  auto bringBoth = [&](int stage, int64_t k0) {
    if (k0 >= f.endStep()) return;
    bring<0, T>(f, u.isWhole[0], places[0], steps[stage][0], inMemory + stage * 2 * Tile::kSize);
    bring<1, T>(f, u.isWhole[1], places[1], steps[stage][1], inMemory + stage * 2 * Tile::kSize + Tile::kSize);
  };
  for (int64_t number = blockIdx.x; number < tiles0 * tiles1 * f.parts(); number += gridDim.x) {
    f.part(number / tiles0 / tiles1);
    // Tiles of neighbouring results one after the other.
    const int64_t first0 = (isTurned ? number % tiles0 : number / tiles1 % tiles0) * kTile,
                  first1 = (isTurned ? number / tiles0 % tiles1 : number % tiles1) * kTile;
    if (t < kTile)
      places[0].put(t, f.template place<0>(first0 + t, &out[0][t]));
    else if (t < 2 * kTile)
      places[1].put(t - kTile, f.template place<1>(first1 + t - kTile, &out[1][t - kTile]));
    listSteps(0, f.firstStep());
    __syncthreads();
    bringBoth(0, f.firstStep());
    listSteps(1, f.firstStep() + kDepth);
    typename Part::Sums sum = {};
    int held = 0;
    for (int64_t k0 = f.firstStep(); k0 < f.endStep(); k0 += kDepth) {
      waitForWhole();
      __syncthreads();
      const Word *tile0 = inMemory + held * 2 * Tile::kSize, *tile1 = tile0 + Tile::kSize;
      // The next tiles are on their way while these are multiplied; then this place is for the steps after them.
      bringBoth(held ^ 1, k0 + kDepth);
      listSteps(held, k0 + 2 * kDepth);
      held ^= 1;
      Part::template multiply<T>(left, right, isTurned ? tile1 : tile0, isTurned ? tile0 : tile1, sum);
    }
    __syncthreads();
    float *staged = reinterpret_cast<float *>(memory) + t / 32 * 16 * kOutPitch;
    stageRows(sum[0], staged);
    const int64_t *down = out[isTurned], *across = out[!isTurned];
    const int column = Part::column() + lane;
#pragma unroll 1
    for (int i = 0; i < 16; ++i) {
      const int row = Part::row() + i;
      if (down[row] >= 0 && across[column] >= 0)
        f.store(down[row] + across[column], first1 + (isTurned ? row : column), staged[i * kOutPitch + lane]);
    }
    __syncthreads();
  }
}

} // namespace

#define OPC_CONV(name, T, product)                                                                                     \
  extern "C" __global__ void __launch_bounds__(256, 2)                                                                 \
      conv_units_##name(const __grid_constant__ ConvUnitArguments u) {                                                 \
    convolve<T, product>(u);                                                                                           \
  }
OPC_CONV(forward_f16, float16, kForward)
OPC_CONV(forward_bf16, bfloat16, kForward)
OPC_CONV(forward_f32, float, kForward)
OPC_CONV(data_f16, float16, kData)
OPC_CONV(data_bf16, bfloat16, kData)
OPC_CONV(data_f32, float, kData)
OPC_CONV(filter_f16, float16, kFilter)
OPC_CONV(filter_bf16, bfloat16, kFilter)
OPC_CONV(filter_f32, float, kFilter)

} // namespace opc::cuda
