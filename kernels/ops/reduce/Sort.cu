// Positions in the order of the elements: chunks in shared memory, then runs of them merged, each position finding its
// place by a search in the other run. Ties go by position, so that the order is the only one.
// SPDX-License-Identifier: Apache-2.0
#include "DeviceTypes.cuh"
#include "reduce/LineArguments.h"
#include "support/ElementOrder.h"

namespace opc::cuda {
namespace {

using ops::isBelow;
using ops::SortArguments;

constexpr int kThreads = 256;

/// The order of positions by their elements x and y.
template <class C> __device__ bool isFirst(C x, int32_t i, C y, int32_t j, bool isDescending) {
  const bool ahead = isDescending ? isBelow(y, x) : isBelow(x, y),
             behind = isDescending ? isBelow(x, y) : isBelow(y, x);
  return ahead || (!behind && i < j);
}

/// A block a chunk of a row: a bitonic network over a.width places; those behind the row's end are -1 and come last.
template <class T> __device__ void sortChunks(const SortArguments &a) {
  using C = Compute<T>;
  __shared__ C keys[SortArguments::kChunk];
  __shared__ int32_t places[SortArguments::kChunk];
  const int64_t chunks = (a.n + a.width - 1) / a.width;
  for (int64_t job = blockIdx.x; job < a.rows * chunks; job += gridDim.x) {
    const int64_t row = job / chunks, first = job % chunks * a.width;
    const T *x = static_cast<const T *>(a.in) + row * a.n;
    for (int i = static_cast<int>(threadIdx.x); i < a.width; i += kThreads) {
      const bool isInside = first + i < a.n;
      keys[i] = isInside ? load(x[first + i]) : C(0);
      places[i] = isInside ? static_cast<int32_t>(first + i) : -1;
    }
    __syncthreads();
    for (int size = 2; size <= a.width; size *= 2)
      for (int step = size / 2; step > 0; step /= 2) {
        for (int t = static_cast<int>(threadIdx.x); t < a.width / 2; t += kThreads) {
          const int i = 2 * t - t % step, j = i + step;
          const bool isUp = (i & size) == 0;
          const bool inOrder =
              places[j] < 0 || (places[i] >= 0 && isFirst(keys[i], places[i], keys[j], places[j], a.isDescending != 0));
          if (inOrder != isUp) {
            const C key = keys[i];
            const int32_t place = places[i];
            keys[i] = keys[j];
            places[i] = places[j];
            keys[j] = key;
            places[j] = place;
          }
        }
        __syncthreads();
      }
    // The next chunk is written by the threads that read this one here.
    for (int i = static_cast<int>(threadIdx.x); i < a.width; i += kThreads)
      if (first + i < a.n) a.to[row * a.n + first + i] = places[i];
  }
}

/// Pairs of runs become one: the place of a position is that in its own run and the number of those before it in the
/// other.
template <class T> __device__ void mergeRuns(const SortArguments &a) {
  using C = Compute<T>;
#pragma unroll 1
  for (int64_t item = firstItem(); item < a.rows * a.n; item += itemStep()) {
    const int64_t row = item / a.n, at = item % a.n, run = at / a.run;
    const T *x = static_cast<const T *>(a.in) + row * a.n;
    const int32_t *from = a.from + row * a.n;
    const int32_t mine = from[at];
    const C key = load(x[mine]);
    const int64_t other = (run ^ 1) * a.run, pair = run / 2 * 2 * a.run;
    int64_t lo = other < a.n ? other : a.n, hi = other + a.run < a.n ? other + a.run : a.n;
    const int64_t begin = lo;
    while (lo < hi) {
      const int64_t middle = (lo + hi) / 2;
      if (isFirst(load(x[from[middle]]), from[middle], key, mine, a.isDescending != 0))
        lo = middle + 1;
      else
        hi = middle;
    }
    a.to[row * a.n + pair + at % a.run + (lo - begin)] = mine;
  }
}

template <class T>
__device__ void sorted(const void *in, const int32_t *positions, void *out, int64_t items, int64_t n) {
#pragma unroll 1
  for (int64_t i = firstItem(); i < items; i += itemStep())
    static_cast<T *>(out)[i] = static_cast<const T *>(in)[i / n * n + positions[i]];
}

} // namespace

/// The first k positions of each row.
extern "C" __global__ void __launch_bounds__(256, 1)
    first_positions(const int32_t *positions, int64_t *out, int64_t items, int64_t n, int64_t k) {
#pragma unroll 1
  for (int64_t i = firstItem(); i < items; i += itemStep()) out[i] = positions[i / k * n + i % k];
}

#define OPC_SORTED(bytes, T)                                                                                           \
  extern "C" __global__ void __launch_bounds__(256, 1)                                                                 \
      sorted_##bytes(const void *in, const int32_t *positions, void *out, int64_t items, int64_t n) {                  \
    sorted<T>(in, positions, out, items, n);                                                                           \
  }
OPC_EACH_SIZE(OPC_SORTED)

#define OPC_SORT(name, T)                                                                                              \
  OPC_KERNEL(sort_chunks_##name, SortArguments, sortChunks<T>)                                                         \
  OPC_KERNEL(merge_runs_##name, SortArguments, mergeRuns<T>)
OPC_EACH_NUMBER(OPC_SORT)

} // namespace opc::cuda
