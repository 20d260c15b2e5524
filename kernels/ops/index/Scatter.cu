// Rows put where indices say: a warp for each row of the result and some of its columns, which takes the rows meant for
// it in their order, so that no sum depends on which thread comes first.
// SPDX-License-Identifier: Apache-2.0
#include "index/IndexRows.cuh"

namespace opc::cuda {
namespace {

constexpr unsigned kAllLanes = 0xffffffffu;

/// f16 and bf16 add up in f32, integers wrap around.
template <class T> using SumOf = std::conditional_t<std::is_integral_v<Compute<T>>, uint64_t, Compute<T>>;

/// Calls f(i) for the rows of the indices in repetition o that name row `row`, in their order, with whole warps.
template <class F> __device__ void forRowsAt(const RowIndices &r, int64_t o, int64_t row, F f) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  for (int64_t first = 0; first < r.n; first += 32) {
    const int64_t i = first + lane;
    unsigned found = __ballot_sync(kAllLanes, i < r.n && rowOf(r, o, i, false) == row);
    for (; found; found &= found - 1) f(first + __ffs(static_cast<int>(found)) - 1);
  }
}

/// f(row, first column of this lane) for the parts of the result that the warps of the grid share.
template <class F> __device__ void forParts(const RowIndices &r, F f) {
  const int64_t tiles = (r.inner + 31) / 32, parts = r.outer * r.rows * tiles;
#pragma unroll 1
  for (int64_t p = firstItem() / 32; p < parts; p += itemStep() / 32)
    f(p / tiles, p % tiles * 32 + static_cast<int64_t>(threadIdx.x % 32));
}

template <class T> __device__ void scatterAdd(const ScatterArguments &a) {
  using Sum = SumOf<T>;
  const T *base = static_cast<const T *>(a.base), *values = static_cast<const T *>(a.values);
  forParts(a.at, [&](int64_t row, int64_t column) {
    const bool isInside = column < a.at.inner;
    const int64_t o = row / a.at.rows, at = row * a.at.inner + column;
    Sum sum = base && isInside ? static_cast<Sum>(load(base[at])) : Sum(0);
    int64_t terms = 0;
    forRowsAt(a.at, o, row, [&](int64_t i) {
      ++terms;
      if (isInside) sum += static_cast<Sum>(load(values[(o * a.at.n + i) * a.at.inner + column]));
    });
    if (row == a.padded) sum = 0;
    if (a.isMean && terms > 1) sum /= static_cast<Sum>(terms);
    if (isInside) static_cast<T *>(a.out)[at] = stored<T>(static_cast<Compute<T>>(sum));
  });
}

/// Of rows for one place the last one stays.
template <class T> __device__ void scatterUpdate(const ScatterArguments &a) {
  forParts(a.at, [&](int64_t row, int64_t column) {
    int64_t last = -1;
    forRowsAt(a.at, row / a.at.rows, row, [&](int64_t i) { last = i; });
    const int64_t at = row * a.at.inner + column;
    if (column < a.at.inner)
      static_cast<T *>(a.out)[at] =
          last < 0 ? static_cast<const T *>(a.base)[at] : static_cast<const T *>(a.values)[last * a.at.inner + column];
  });
}

/// The rows of dy that were written last where the indices say, else zeros: a warp for each.
template <class T> __device__ void updateGrad(const RowIndices &r, const void *dy, void *dx) {
  const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll 1
  for (int64_t i = firstItem() / 32; i < r.n; i += itemStep() / 32) {
    const int64_t row = rowOf(r, 0, i, false);
    bool isLast = row >= 0;
    for (int64_t first = i + 1; isLast && first < r.n; first += 32) {
      const int64_t j = first + lane;
      isLast = __ballot_sync(kAllLanes, j < r.n && rowOf(r, 0, j, false) == row) == 0;
    }
    for (int64_t c = lane; c < r.inner; c += 32)
      static_cast<T *>(dx)[i * r.inner + c] = isLast ? static_cast<const T *>(dy)[row * r.inner + c] : T(0);
  }
}

} // namespace

/// Every index, before any is followed.
extern "C" __global__ void __launch_bounds__(256, 1) check_rows(const __grid_constant__ RowIndices r) {
  const int64_t repetitions = r.step ? r.outer : 1;
#pragma unroll 1
  for (int64_t i = firstItem(); i < repetitions * r.n; i += itemStep()) rowOf(r, i / r.n, i % r.n, true);
}

#define OPC_SCATTER_ADD(name, T) OPC_KERNEL(scatter_add_##name, ScatterArguments, scatterAdd<T>)
OPC_EACH_NUMBER(OPC_SCATTER_ADD)

#define OPC_SCATTER_UPDATE(bytes, T)                                                                                   \
  OPC_KERNEL(scatter_update_##bytes, ScatterArguments, scatterUpdate<T>)                                               \
  extern "C" __global__ void __launch_bounds__(256, 1)                                                                 \
      scatter_update_grad_##bytes(const __grid_constant__ RowIndices r, const void *dy, void *dx) {                    \
    updateGrad<T>(r, dy, dx);                                                                                          \
  }
OPC_EACH_SIZE(OPC_SCATTER_UPDATE)

} // namespace opc::cuda
