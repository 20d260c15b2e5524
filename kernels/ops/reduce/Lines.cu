// What runs along an axis: scans, recurrences, and the place of the extreme.
// SPDX-License-Identifier: Apache-2.0
#include "DeviceTypes.cuh"
#include "reduce/LineArguments.h"

namespace opc::cuda {
namespace {

using ops::ScanArguments;

constexpr unsigned kAllLanes = 0xffffffffu;

/// f32 runs in f64, halves in f32, integers modulo 2^64.
template <class T>
using RunningOf =
    std::conditional_t<std::is_integral_v<Compute<T>>, uint64_t,
                       std::conditional_t<std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>, float, double>>;

/// The first element of line l; its neighbours are a.inner apart.
__device__ inline int64_t lineStart(const ScanArguments &a, int64_t l) {
  return l / a.inner * a.n * a.inner + l % a.inner;
}

/// A thread a line, in order.
template <class T, bool kIsProduct> __device__ void scanLines(const ScanArguments &a) {
  using R = RunningOf<T>;
#pragma unroll 1
  for (int64_t l = firstItem(); l < a.lines; l += itemStep()) {
    const T *x = static_cast<const T *>(a.in[0]) + lineStart(a, l);
    T *y = static_cast<T *>(a.out) + lineStart(a, l);
    R running = kIsProduct ? 1 : 0;
    for (int64_t i = 0; i < a.n; ++i) {
      const R v = static_cast<R>(load(x[i * a.inner]));
      running = kIsProduct ? running * v : running + v;
      y[i * a.inner] = stored<T>(static_cast<Compute<T>>(running));
    }
  }
}

/// A warp a line: sums of 32 elements at a time, and what was before.
template <class T> __device__ void sumLines(const ScanArguments &a) {
  using R = RunningOf<T>;
  const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll 1
  for (int64_t l = firstItem() / 32; l < a.lines; l += itemStep() / 32) {
    const T *x = static_cast<const T *>(a.in[0]) + lineStart(a, l);
    T *y = static_cast<T *>(a.out) + lineStart(a, l);
    R before = 0;
    for (int64_t first = 0; first < a.n; first += 32) {
      const int64_t i = first + lane;
      R sum = i < a.n ? static_cast<R>(load(x[i * a.inner])) : R(0);
      for (int d = 1; d < 32; d *= 2) {
        const R left = __shfl_up_sync(kAllLanes, sum, static_cast<unsigned>(d));
        if (lane >= d) sum = left + sum;
      }
      if (i < a.n) y[i * a.inner] = stored<T>(static_cast<Compute<T>>(before + sum));
      before += __shfl_sync(kAllLanes, sum, 31);
    }
  }
}

/// y[i] = a[i] y[i - 1] + b[i], or from the end with a[i + 1] and y[i + 1], in f64.
template <class T> __device__ void linearScan(const ScanArguments &a) {
#pragma unroll 1
  for (int64_t l = firstItem(); l < a.lines; l += itemStep()) {
    const int64_t at = lineStart(a, l);
    const T *factors = static_cast<const T *>(a.in[0]) + at, *b = static_cast<const T *>(a.in[1]) + at;
    T *y = static_cast<T *>(a.out) + at;
    double running = 0;
    for (int64_t k = 0; k < a.n; ++k) {
      const int64_t i = a.isReverse ? a.n - 1 - k : k, between = a.isReverse ? i + 1 : i;
      const double factor = k > 0 ? static_cast<double>(load(factors[between * a.inner])) : 0.0;
      running = factor * running + static_cast<double>(load(b[i * a.inner]));
      y[i * a.inner] = stored<T>(static_cast<Compute<T>>(running));
    }
  }
}

/// in[] is dy, output, input.
template <class T> __device__ void cumprodGrad(const ScanArguments &a) {
#pragma unroll 1
  for (int64_t l = firstItem(); l < a.lines; l += itemStep()) {
    const int64_t at = lineStart(a, l);
    const T *dy = static_cast<const T *>(a.in[0]) + at, *y = static_cast<const T *>(a.in[1]) + at,
            *x = static_cast<const T *>(a.in[2]) + at;
    double t = 0;
    for (int64_t k = a.n; k-- > 0;) {
      t = static_cast<double>(load(dy[k * a.inner])) +
          (k + 1 < a.n ? static_cast<double>(load(x[(k + 1) * a.inner])) * t : 0.0);
      const double before = k > 0 ? static_cast<double>(load(y[(k - 1) * a.inner])) : 1.0;
      static_cast<T *>(a.out)[at + k * a.inner] = stored<T>(static_cast<Compute<T>>(before == 0 ? 0.0 : before * t));
    }
  }
}

/// Whether element (x, i) comes before (y, j): NaN is the extreme, and of equal ones the first counts.
template <bool kMax, class C> __device__ bool isBefore(C x, int64_t i, C y, int64_t j) {
  const bool xIsNan = x != x, yIsNan = y != y;
  const bool isFurther = kMax ? x > y : x < y, isEqual = x == y || (xIsNan && yIsNan);
  return isEqual ? i < j : (isFurther || xIsNan) && !yIsNan;
}

/// A warp a row.
template <class T, bool kMax> __device__ void argExtreme(const void *in, int64_t *out, int64_t rows, int64_t n) {
  using C = Compute<T>;
  const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll 1
  for (int64_t r = firstItem() / 32; r < rows; r += itemStep() / 32) {
    const T *x = static_cast<const T *>(in) + r * n;
    int64_t at = lane < n ? lane : 0;
    C best = load(x[at]);
    for (int64_t i = at + 32; i < n; i += 32)
      if (const C v = load(x[i]); isBefore<kMax>(v, i, best, at)) best = v, at = i;
    for (int d = 16; d > 0; d /= 2) {
      const int64_t i = __shfl_xor_sync(kAllLanes, at, d);
      if (const C v = load(x[i]); isBefore<kMax>(v, i, best, at)) best = v, at = i;
    }
    if (lane == 0) out[r] = at;
  }
}

} // namespace

#define OPC_ARG(kernel, T, kMax)                                                                                       \
  extern "C" __global__ void __launch_bounds__(256, 1) kernel(const void *in, int64_t *out, int64_t rows, int64_t n) { \
    argExtreme<T, kMax>(in, out, rows, n);                                                                             \
  }
#define OPC_LINES(name, T)                                                                                             \
  OPC_KERNEL(cumsum_##name, ScanArguments, scanLines<T, false>)                                                        \
  OPC_KERNEL(cumprod_##name, ScanArguments, scanLines<T, true>)                                                        \
  OPC_KERNEL(cumsum_warp_##name, ScanArguments, sumLines<T>)                                                           \
  OPC_ARG(argmax_##name, T, true)                                                                                      \
  OPC_ARG(argmin_##name, T, false)
#define OPC_LINE_FLOATS(name, T)                                                                                       \
  OPC_LINES(name, T)                                                                                                   \
  OPC_KERNEL(linear_scan_##name, ScanArguments, linearScan<T>)                                                         \
  OPC_KERNEL(cumprod_grad_##name, ScanArguments, cumprodGrad<T>)
OPC_EACH_FLOAT(OPC_LINE_FLOATS)
OPC_EACH_INTEGER(OPC_LINES)

} // namespace opc::cuda
