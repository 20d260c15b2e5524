// softmax, log_softmax and their gradients: a warp a row.
// SPDX-License-Identifier: Apache-2.0
#include "softmax/SoftmaxRows.cuh"

namespace opc::cuda {
namespace {

template <class T> __device__ void softmax(const void *in, void *out, int64_t rows, int64_t n) {
  using C = Compute<T>;
#pragma unroll 1
  for (int64_t r = firstRow(); r < rows; r += rowStep()) {
    const T *x = static_cast<const T *>(in) + r * n;
    T *y = static_cast<T *>(out) + r * n;
    const auto row = elementsOf(x, n);
    C top, sum;
    sumsOf(row, Itself{}, &top, &sum);
    row.each([&](int64_t i, C v) { y[i] = stored<T>(static_cast<C>(exp(v - top) / sum)); });
  }
}

template <class T> __device__ void logSoftmax(const void *in, void *out, int64_t rows, int64_t n) {
  using C = Compute<T>;
#pragma unroll 1
  for (int64_t r = firstRow(); r < rows; r += rowStep()) {
    const T *x = static_cast<const T *>(in) + r * n;
    T *y = static_cast<T *>(out) + r * n;
    const auto row = elementsOf(x, n);
    C top, sum;
    sumsOf(row, Itself{}, &top, &sum);
    const C logSum = log(sum);
    row.each([&](int64_t i, C v) { y[i] = stored<T>(static_cast<C>((v - top) - logSum)); });
  }
}

/// dx = y (dy - sum(y dy)).
template <class T> __device__ void softmaxGrad(const void *out, const void *grad, void *dx, int64_t rows, int64_t n) {
  using C = Compute<T>;
#pragma unroll 1
  for (int64_t r = firstRow(); r < rows; r += rowStep()) {
    const T *y = static_cast<const T *>(out) + r * n, *dy = static_cast<const T *>(grad) + r * n;
    T *result = static_cast<T *>(dx) + r * n;
    const auto row = elementsOf(y, dy, n);
    C sum = 0;
    row.each([&](int64_t, TwoNumbers<C> v) { sum += v.a * v.b; });
    sum = warpSum(sum);
    row.each([&](int64_t i, TwoNumbers<C> v) { result[i] = stored<T>(static_cast<C>(v.a * (v.b - sum))); });
  }
}

/// dx = dy - exp(y) sum(dy).
template <class T>
__device__ void logSoftmaxGrad(const void *out, const void *grad, void *dx, int64_t rows, int64_t n) {
  using C = Compute<T>;
#pragma unroll 1
  for (int64_t r = firstRow(); r < rows; r += rowStep()) {
    const T *y = static_cast<const T *>(out) + r * n, *dy = static_cast<const T *>(grad) + r * n;
    T *result = static_cast<T *>(dx) + r * n;
    const auto row = elementsOf(dy, n);
    C sum = 0;
    row.each([&](int64_t, C v) { sum += v; });
    sum = warpSum(sum);
    row.each([&](int64_t i, C v) { result[i] = stored<T>(static_cast<C>(v - exp(load(y[i])) * sum)); });
  }
}

} // namespace

#define OPC_SOFTMAX(name, T)                                                                                           \
  extern "C" __global__ void __launch_bounds__(256, 1)                                                                 \
      softmax_##name(const void *in, void *out, int64_t rows, int64_t n) {                                             \
    softmax<T>(in, out, rows, n);                                                                                      \
  }                                                                                                                    \
  extern "C" __global__ void __launch_bounds__(256, 1)                                                                 \
      log_softmax_##name(const void *in, void *out, int64_t rows, int64_t n) {                                         \
    logSoftmax<T>(in, out, rows, n);                                                                                   \
  }                                                                                                                    \
  extern "C" __global__ void __launch_bounds__(256, 1)                                                                 \
      softmax_grad_##name(const void *y, const void *dy, void *dx, int64_t rows, int64_t n) {                          \
    softmaxGrad<T>(y, dy, dx, rows, n);                                                                                \
  }                                                                                                                    \
  extern "C" __global__ void __launch_bounds__(256, 1)                                                                 \
      log_softmax_grad_##name(const void *y, const void *dy, void *dx, int64_t rows, int64_t n) {                      \
    logSoftmaxGrad<T>(y, dy, dx, rows, n);                                                                             \
  }
OPC_EACH_FLOAT(OPC_SOFTMAX)

} // namespace opc::cuda
