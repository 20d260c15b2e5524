// KernelUtil: the older interface to arithmetic on arrays, and copies between them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "oneflow/core/common/switch_func.h"
#include "oneflow/core/kernel/new_kernel_util.h"

#include "opc/Convert.h"

namespace oneflow {

template <class T> OF_DEVICE_FUNC T ReduceCoreAdd(T x, T y) { return x + y; }
template <class T> OF_DEVICE_FUNC T ReduceCoreMax(T x, T y) { return x > y ? x : y; }

inline void AutoMemcpy(DeviceCtx *ctx, void *dst, const void *src, size_t bytes, const user_op::MemoryCase &dstCase,
                       const user_op::MemoryCase &srcCase) {
  CHECK(dstCase.has_host_mem() && srcCase.has_host_mem()) << "the compat headers copy on the CPU";
  Memcpy<DeviceType::kCPU>(ctx, dst, src, bytes);
}
inline void SyncAutoMemcpy(DeviceCtx *ctx, void *dst, const void *src, size_t bytes, const user_op::MemoryCase &dstCase,
                           const user_op::MemoryCase &srcCase) {
  AutoMemcpy(ctx, dst, src, bytes, dstCase, srcCase);
}

/// out[i] = in[i], converted.
template <class T, class U> void CopyElem(const T *in, U *out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = ::opc::convertElement<U>(in[i]);
}

template <DeviceType device, class T, class = void> struct KernelUtil : NewKernelUtil<device> {
  static void Dot(DeviceCtx *, int n, const T *x, int xStep, const T *y, int yStep, T *result) {
    T sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += x[i * xStep] * y[i * yStep];
    *result = sum;
  }
  static void Copy(DeviceCtx *ctx, int n, const T *x, int xStep, T *y, int yStep) {
    detail::eachElement(ctx, n, [=](int64_t i) { y[i * yStep] = x[i * xStep]; });
  }
  static void Axpy(DeviceCtx *ctx, int n, T alpha, const T *x, int xStep, T *y, int yStep) {
    detail::eachElement(ctx, n, [=](int64_t i) { y[i * yStep] += alpha * x[i * xStep]; });
  }
  static void Axpy(DeviceCtx *ctx, int n, const T *alpha, const T *x, int xStep, T *y, int yStep) {
    Axpy(ctx, n, *alpha, x, xStep, y, yStep);
  }
  static void Scal(DeviceCtx *ctx, int n, T alpha, T *x, int step) {
    detail::eachElement(ctx, n, [=](int64_t i) { x[i * step] *= alpha; });
  }
  static void Scal(DeviceCtx *ctx, int n, const T *alpha, T *x, int step) { Scal(ctx, n, *alpha, x, step); }
  static void Set(DeviceCtx *, T value, T *at) { *at = value; }
  static void Replicate(DeviceCtx *ctx, int64_t n, T *y, const T *x) { NewKernelUtil<device>::Fill(ctx, n, *x, y); }
  static void Gemm(DeviceCtx *ctx, CBLAS_ORDER order, CBLAS_TRANSPOSE transA, CBLAS_TRANSPOSE transB, int m, int n,
                   int k, T alpha, const T *a, int lda, const T *b, int ldb, T beta, T *c, int ldc) {
    CHECK(order == CblasRowMajor) << "matrices are row-major";
    detail::multiplyMatrices<T>(ctx, transA != CblasNoTrans, transB != CblasNoTrans, m, n, k, alpha, a, lda, b, ldb,
                                beta, c, ldc);
  }

  static void Max(DeviceCtx *, int64_t n, const T *x, T *max) { *max = *std::max_element(x, x + n); }
  static void Max(DeviceCtx *ctx, int64_t n, const T *x, T *max, T *, size_t) { Max(ctx, n, x, max); }
  static void Sum(DeviceCtx *, int64_t n, const T *x, T *sum) { *sum = std::accumulate(x, x + n, T(0)); }
  static void Sum(DeviceCtx *ctx, int64_t n, const T *x, T *sum, T *, size_t) { Sum(ctx, n, x, sum); }
  static void RowMax(DeviceCtx *ctx, int64_t rows, int64_t columns, const T *x, T *y, void * = nullptr, size_t = 0) {
    for (int64_t i = 0; i < rows; ++i) Max(ctx, columns, x + i * columns, y + i);
  }
  static void RowSum(DeviceCtx *ctx, int64_t rows, int64_t columns, const T *x, T *y, void * = nullptr, size_t = 0) {
    for (int64_t i = 0; i < rows; ++i) Sum(ctx, columns, x + i * columns, y + i);
  }

  static void Exp(DeviceCtx *ctx, int64_t n, const T *x, T *y) {
    detail::eachElement(ctx, n, [=](int64_t i) { y[i] = std::exp(x[i]); });
  }
  static void Div(DeviceCtx *ctx, int64_t n, T *x, T alpha) {
    detail::eachElement(ctx, n, [=](int64_t i) { x[i] /= alpha; });
  }
  static void Div(DeviceCtx *ctx, int64_t n, T *x, const T *alpha) { Div(ctx, n, x, *alpha); }
  static void Div(DeviceCtx *ctx, int64_t n, const T *x, const T *y, T *z) {
    detail::eachElement(ctx, n, [=](int64_t i) { z[i] = x[i] / y[i]; });
  }
  static void Mul(DeviceCtx *ctx, int64_t n, const T *x, const T *y, T *z) {
    detail::eachElement(ctx, n, [=](int64_t i) { z[i] = x[i] * y[i]; });
  }
  static void Reciprocal(DeviceCtx *ctx, int n, const T *x, T *y) {
    detail::eachElement(ctx, n, [=](int64_t i) { y[i] = T(1) / x[i]; });
  }
  static void Square(DeviceCtx *ctx, int64_t n, const T *x, T *y) { Mul(ctx, n, x, x, y); }
  static void Sqrt(DeviceCtx *ctx, int64_t n, const T *x, T *y) {
    detail::eachElement(ctx, n, [=](int64_t i) { y[i] = std::sqrt(x[i]); });
  }
  static void Rsqrt(DeviceCtx *ctx, int64_t n, const T *x, T *y, float epsilon) {
    detail::eachElement(ctx, n, [=](int64_t i) { y[i] = T(1) / std::sqrt(x[i] + static_cast<T>(epsilon)); });
  }
  static void Rsqrt(DeviceCtx *ctx, int64_t n, T *x, float epsilon) { Rsqrt(ctx, n, x, x, epsilon); }
  static void Powx(DeviceCtx *ctx, int64_t n, const T *x, float power, T *y) {
    detail::eachElement(ctx, n, [=](int64_t i) { y[i] = static_cast<T>(std::pow(x[i], power)); });
  }
  /// out is the sum of the others, which may be out itself.
  template <class... Inputs> static void Addition(DeviceCtx *ctx, int64_t n, T *out, const Inputs *...in) {
    static_assert((std::is_same_v<Inputs, T> && ...), "what is added has the type of the sum");
    detail::eachElement(ctx, n, [=](int64_t i) { out[i] = (in[i] + ...); });
  }
};

} // namespace oneflow
