// argwhere, bounded, non_max_suppression and unique_rows.
// SPDX-License-Identifier: Apache-2.0
#include "DeviceTypes.cuh"
#include "index/FoundArguments.h"
#include "support/ElementOrder.h"

namespace opc::cuda {
namespace {

using ops::ArgwhereArguments;
using ops::isBelow;
using ops::SuppressionArguments;
using ops::UniqueArguments;

constexpr int kThreads = 256;

__device__ void put(void *to, bool isWide, int64_t at, int64_t value) {
  if (isWide)
    static_cast<int64_t *>(to)[at] = value;
  else
    static_cast<int32_t *>(to)[at] = static_cast<int32_t>(value);
}

/// The sum over the threads of the block up to this one. `sums` is theirs until the next barrier.
__device__ int32_t sumUpTo(int32_t mine, int32_t *sums) {
  const int t = static_cast<int>(threadIdx.x);
  sums[t] = mine;
  __syncthreads();
  for (int step = 1; step < kThreads; step *= 2) {
    const int32_t before = t >= step ? sums[t - step] : 0;
    __syncthreads();
    sums[t] += before;
    __syncthreads();
  }
  return sums[t];
}

/// One block, element after element.
template <class T> __device__ void argwhere(const ArgwhereArguments &a) {
  __shared__ int32_t sums[kThreads];
  const T *x = static_cast<const T *>(a.in);
  const int t = static_cast<int>(threadIdx.x);
  int64_t found = 0;
  for (int64_t begin = 0; begin < a.n; begin += kThreads) {
    const int64_t i = begin + t;
    const int32_t mine = i < a.n && load(x[i]) != Compute<T>(0);
    const int32_t upTo = sumUpTo(mine, sums);
    if (mine) {
      int64_t rest = i;
      for (int axis = a.rank; axis-- > 0; rest /= a.dims[axis])
        put(a.places, a.isWide, (found + upTo - 1) * a.rank + axis, rest % a.dims[axis]);
    }
    found += sums[kThreads - 1];
    __syncthreads();
  }
  for (int64_t k = found * a.rank + t; k < a.n * a.rank; k += kThreads) put(a.places, a.isWide, k, 0);
  if (t == 0) put(a.count, a.isWide, 0, found);
}

// Boxes ---------------------------------------------------------------------------------------------------------------

struct Box {
  float y1, x1, y2, x2;
};

__device__ Box boxOf(const float *v, bool isCentre) {
  if (isCentre) {
    // Halves are exact: nothing here depends on whether a product is fused with a sum.
    const float h = v[3] / 2, w = v[2] / 2;
    return {v[1] - h, v[0] - w, v[1] + h, v[0] + w};
  }
  return {fminf(v[0], v[2]), fminf(v[1], v[3]), fmaxf(v[0], v[2]), fmaxf(v[1], v[3])};
}
__device__ float areaOf(const Box &a) { return __fmul_rn(a.y2 - a.y1, a.x2 - a.x1); }

__device__ float overlap(const Box &a, const Box &b) {
  const float height = fminf(a.y2, b.y2) - fmaxf(a.y1, b.y1), width = fminf(a.x2, b.x2) - fmaxf(a.x1, b.x1);
  const float first = areaOf(a), second = areaOf(b);
  if (!(height > 0 && width > 0 && first > 0 && second > 0)) return 0;
  const float both = __fmul_rn(height, width);
  return both / (first + second - both);
}

} // namespace

/// A block a list. `states` has a number for each box: 1 while it may be chosen.
extern "C" __global__ void __launch_bounds__(256, 1)
    suppress_boxes(const __grid_constant__ SuppressionArguments a, int64_t *states) {
  __shared__ int64_t best[kThreads];
  const int t = static_cast<int>(threadIdx.x);
  for (int64_t list = blockIdx.x; list < a.lists; list += gridDim.x) {
    const float *boxes = a.boxes + list / a.classes * a.n * 4, *scores = a.scores + list * a.n;
    int64_t *state = states + list * a.n;
    for (int64_t i = t; i < a.n; i += kThreads) state[i] = a.hasLeast ? scores[i] > a.least : scores[i] == scores[i];
    int64_t chosen = 0;
    for (; chosen < a.most; ++chosen) {
      int64_t mine = -1;
      for (int64_t i = t; i < a.n; i += kThreads)
        if (state[i] && (mine < 0 || scores[i] > scores[mine])) mine = i;
      best[t] = mine;
      __syncthreads();
      for (int step = kThreads / 2; step > 0; step /= 2) {
        if (t < step) {
          const int64_t i = best[t], j = best[t + step];
          const bool isOther = j >= 0 && (i < 0 || scores[j] > scores[i] || (scores[j] == scores[i] && j < i));
          if (isOther) best[t] = j;
        }
        __syncthreads();
      }
      const int64_t chose = best[0];
      __syncthreads();
      if (chose < 0) break;
      if (t == 0) a.kept[list * a.most + chosen] = chose;
      const Box box = boxOf(boxes + chose * 4, a.isCentre != 0);
      for (int64_t i = t; i < a.n; i += kThreads)
        if (state[i] && (i == chose || overlap(box, boxOf(boxes + i * 4, a.isCentre != 0)) > a.overlap)) state[i] = 0;
    }
    if (t == 0) a.counts[list] = chosen;
  }
}

extern "C" __global__ void __launch_bounds__(256, 1) join_boxes(const __grid_constant__ SuppressionArguments a) {
  const int t = static_cast<int>(threadIdx.x);
  int64_t rows = 0;
  for (int64_t list = 0; list < a.lists; ++list) {
    const int64_t count = a.counts[list];
    for (int64_t k = t; k < count; k += kThreads) {
      int64_t *to = a.out + (rows + k) * 3;
      to[0] = list / a.classes;
      to[1] = list % a.classes;
      to[2] = a.kept[list * a.most + k];
    }
    rows += count;
  }
  for (int64_t k = rows * 3 + t; k < a.lists * a.most * 3; k += kThreads) a.out[k] = 0;
  if (t == 0) *a.count = rows;
}

namespace {

// Rows ----------------------------------------------------------------------------------------------------------------

template <class T> __device__ int compareRows(const UniqueArguments &a, int64_t i, int64_t j) {
  const T *x = static_cast<const T *>(a.in) + i * a.inner, *y = static_cast<const T *>(a.in) + j * a.inner;
  for (int64_t k = 0; k < a.inner; ++k) {
    const auto u = load(x[k]), v = load(y[k]);
    if (isBelow(u, v)) return -1;
    if (isBelow(v, u)) return 1;
  }
  return 0;
}

template <class T> __device__ void uniqueHeads(const UniqueArguments &a) {
  for (int64_t i = firstItem(); i < a.n; i += itemStep()) {
    int64_t head = 0;
    while (head < i && compareRows<T>(a, head, i) != 0) ++head;
    a.heads[i] = head;
  }
}

/// Each row's thread finds its group's number, and each first row's writes what is known of the group.
template <class T> __device__ void uniquePlaces(const UniqueArguments &a) {
  if (a.n == 0 && firstItem() == 0) *a.count = 0;
  for (int64_t i = firstItem(); i < a.n; i += itemStep()) {
    const int64_t head = a.heads[i];
    int64_t groups = 0, place = 0, count = 0;
    for (int64_t j = 0; j < a.n; ++j) {
      count += a.heads[j] == head;
      if (a.heads[j] != j) continue;
      ++groups;
      place += a.isSorted ? compareRows<T>(a, j, head) < 0 : j < head;
    }
    a.inverse[i] = place;
    if (i == head) {
      a.first[place] = i;
      a.counts[place] = count;
    }
    if (i >= groups) a.first[i] = a.counts[i] = 0;
    if (i == 0) *a.count = groups;
  }
}

/// Elements behind the count are 0.
template <class B>
__device__ void bounded(const void *x, const void *count, void *y, int64_t n, int64_t inner, int64_t size,
                        int64_t begin, int32_t isWide) {
  const int64_t there = (isWide ? *static_cast<const int64_t *>(count) : *static_cast<const int32_t *>(count)) - begin;
  for (int64_t i = firstItem(); i < n; i += itemStep())
    static_cast<B *>(y)[i] = i / inner % size < there ? static_cast<const B *>(x)[i] : B(0);
}

} // namespace

#define OPC_BOUNDED(bytes, B)                                                                                          \
  extern "C" __global__ void __launch_bounds__(256, 1)                                                                 \
      bounded_##bytes(const void *x, const void *count, void *y, int64_t n, int64_t inner, int64_t size,               \
                      int64_t begin, int32_t isWide) {                                                                 \
    bounded<B>(x, count, y, n, inner, size, begin, isWide);                                                            \
  }
OPC_EACH_SIZE(OPC_BOUNDED)

#define OPC_ARGWHERE(name, T) OPC_KERNEL(argwhere_##name, ArgwhereArguments, argwhere<T>)
#define OPC_UNIQUE(name, T)                                                                                            \
  OPC_KERNEL(unique_heads_##name, UniqueArguments, uniqueHeads<T>)                                                     \
  OPC_KERNEL(unique_places_##name, UniqueArguments, uniquePlaces<T>)
#define OPC_FOUND(name, T) OPC_ARGWHERE(name, T) OPC_UNIQUE(name, T)
OPC_EACH_NUMBER(OPC_FOUND)
OPC_ARGWHERE(bool, bool)

} // namespace opc::cuda
