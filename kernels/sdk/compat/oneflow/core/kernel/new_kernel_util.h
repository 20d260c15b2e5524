// Memcpy, Memset and NewKernelUtil: arithmetic on whole arrays, on the CPU.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "oneflow/core/common/blas.h"
#include "oneflow/core/common/protobuf.h"
#include "oneflow/core/common/shape.h"

namespace oneflow {

namespace detail {

/// Calls f(begin, end) on parts of [0, n), on the threads of `ctx` if there is one.
template <class F> void parallelLoop(DeviceCtx *ctx, int64_t n, int64_t grain, F &&f) {
  if (ctx)
    ctx->parallelFor(n, grain, f);
  else if (n > 0)
    f(int64_t{0}, n);
}
/// Calls f(i) for each i of [0, n).
template <class F> void eachElement(DeviceCtx *ctx, int64_t n, F &&f) {
  parallelLoop(ctx, n, 16384, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) f(i);
  });
}

/// c = alpha a b + beta c for row-major matrices with the given distances between rows; c is not read when beta is 0.
template <class T>
void multiplyMatrices(DeviceCtx *ctx, bool transA, bool transB, int64_t m, int64_t n, int64_t k, T alpha, const T *a,
                      int64_t lda, const T *b, int64_t ldb, T beta, T *c, int64_t ldc) {
  const int64_t work = std::max<int64_t>(1, n * std::max<int64_t>(k, 1));
  parallelLoop(ctx, m, std::max<int64_t>(1, 65536 / work), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      T *row = c + i * ldc;
      for (int64_t j = 0; j < n; ++j) row[j] = beta == T(0) ? T(0) : beta * row[j];
      for (int64_t p = 0; p < k; ++p) {
        const T factor = alpha * (transA ? a[p * lda + i] : a[i * lda + p]);
        for (int64_t j = 0; j < n; ++j) row[j] += factor * (transB ? b[j * ldb + p] : b[p * ldb + j]);
      }
    }
  });
}

/// y = x with its axes permuted: axis i of y is axis permutation[i] of x.
template <class T>
void transposeArray(DeviceCtx *ctx, const ShapeView &xShape, const ShapeView &yShape,
                    const std::vector<int32_t> &permutation, const T *x, T *y) {
  const int64_t rank = yShape.NumAxes();
  CHECK_EQ(static_cast<int64_t>(permutation.size()), rank);
  DimVector strideOfX(static_cast<size_t>(rank), 1), stride(static_cast<size_t>(rank), 1);
  for (int64_t i = rank - 2; i >= 0; --i)
    strideOfX[static_cast<size_t>(i)] = strideOfX[static_cast<size_t>(i + 1)] * xShape.At(i + 1);
  for (size_t i = 0; i < stride.size(); ++i) stride[i] = strideOfX.at(static_cast<size_t>(permutation[i]));
  eachElement(ctx, yShape.elem_cnt(), [&](int64_t offset) {
    int64_t from = 0, rest = offset;
    for (int64_t i = rank - 1; i >= 0; --i) {
      from += rest % yShape.At(i) * stride[static_cast<size_t>(i)];
      rest /= yShape.At(i);
    }
    y[offset] = x[from];
  });
}

} // namespace detail

template <DeviceType device> void Memcpy(DeviceCtx *, void *dst, const void *src, size_t bytes) {
  static_assert(device == DeviceType::kCPU, "the compat headers copy on the CPU: use the CUDA runtime in GPU kernels");
  if (bytes && dst != src) std::memmove(dst, src, bytes);
}
template <DeviceType device> void Memset(DeviceCtx *, void *dst, char value, size_t bytes) {
  static_assert(device == DeviceType::kCPU, "the compat headers fill on the CPU: use the CUDA runtime in GPU kernels");
  if (bytes) std::memset(dst, value, bytes);
}

template <DeviceType device> struct NewKernelUtil {
  static_assert(device == DeviceType::kCPU,
                "NewKernelUtil computes on the CPU: GPU kernels call cuBLAS, or are kernels of their own");

  // Matrices, row-major and without gaps: c = alpha op(a) op(b) + beta c, c of m rows and n columns.
  template <class T, class U, class V>
  static void OFGemm(DeviceCtx *ctx, CBLAS_TRANSPOSE transA, CBLAS_TRANSPOSE transB, int m, int n, int k, U alpha,
                     const T *a, const T *b, V beta, T *c) {
    const bool ta = transA != CblasNoTrans, tb = transB != CblasNoTrans;
    detail::multiplyMatrices<T>(ctx, ta, tb, m, n, k, static_cast<T>(alpha), a, ta ? m : k, b, tb ? k : n,
                                static_cast<T>(beta), c, n);
  }
  /// One product for each of `batch` pairs of matrices.
  template <class T, class U, class V>
  static void OFBatchedGemm(DeviceCtx *ctx, CBLAS_TRANSPOSE transA, CBLAS_TRANSPOSE transB, int batch, int m, int n,
                            int k, U alpha, const T *a, const T *b, V beta, T *c, void * = nullptr) {
    for (int64_t i = 0; i < batch; ++i)
      OFGemm(ctx, transA, transB, m, n, k, alpha, a + i * m * k, b + i * k * n, beta, c + i * m * n);
  }
  /// y += alpha x.
  template <class T, class U> static void Axpy(DeviceCtx *ctx, int n, U alpha, const T *x, int xStep, T *y, int yStep) {
    detail::eachElement(ctx, n, [=](int64_t i) { y[i * yStep] += static_cast<T>(alpha) * x[i * xStep]; });
  }

  // Elements.
  template <class T, class U> static void Fill(DeviceCtx *ctx, int64_t n, U value, T *y) {
    detail::eachElement(ctx, n, [=](int64_t i) { y[i] = static_cast<T>(value); });
  }
  template <class T, class U> static void MulByScalar(DeviceCtx *ctx, int64_t n, const T *x, U y, T *z) {
    detail::eachElement(ctx, n, [=](int64_t i) { z[i] = x[i] * static_cast<T>(y); });
  }
  template <class T, class U> static void AddByScalar(DeviceCtx *ctx, int64_t n, const T *x, U y, T *z) {
    detail::eachElement(ctx, n, [=](int64_t i) { z[i] = x[i] + static_cast<T>(y); });
  }
  // y is one number, which is read before anything is written: z may be y.
  template <class T> static void MulByScalarPtr(DeviceCtx *ctx, int64_t n, const T *x, const T *y, T *z) {
    detail::eachElement(ctx, n, [=, s = *y](int64_t i) { z[i] = x[i] * s; });
  }
  template <class T> static void AddByScalarPtr(DeviceCtx *ctx, int64_t n, const T *x, const T *y, T *z) {
    detail::eachElement(ctx, n, [=, s = *y](int64_t i) { z[i] = x[i] + s; });
  }
  template <class T> static void SubByScalarPtr(DeviceCtx *ctx, int64_t n, const T *x, const T *y, T *z) {
    detail::eachElement(ctx, n, [=, s = *y](int64_t i) { z[i] = x[i] - s; });
  }
  template <class T> static void DivByScalarPtr(DeviceCtx *ctx, int64_t n, const T *x, const T *y, T *z) {
    detail::eachElement(ctx, n, [=, s = *y](int64_t i) { z[i] = x[i] / s; });
  }
  template <class T> static void Relu(DeviceCtx *ctx, int64_t n, const T *x, T *y) {
    detail::eachElement(ctx, n, [=](int64_t i) { y[i] = x[i] < T(0) ? T(0) : x[i]; });
  }
  template <class T> static void ReluBackward(DeviceCtx *ctx, int64_t n, const T *, const T *y, const T *dy, T *dx) {
    detail::eachElement(ctx, n, [=](int64_t i) { dx[i] = y[i] > T(0) ? dy[i] : T(0); });
  }
  template <class T> static void Sigmoid(DeviceCtx *ctx, int64_t n, const T *x, T *y) {
    detail::eachElement(ctx, n, [=](int64_t i) { y[i] = T(1) / (T(1) + std::exp(-x[i])); });
  }
  template <class T> static void SigmoidBackward(DeviceCtx *ctx, int64_t n, const T *, const T *y, const T *dy, T *dx) {
    detail::eachElement(ctx, n, [=](int64_t i) { dx[i] = y[i] * (T(1) - y[i]) * dy[i]; });
  }

  // Regions.
  /// y = x with its axes permuted: axis i of y is axis permutation[i] of x.
  template <class T>
  static void Transpose(DeviceCtx *ctx, int32_t rank, const ShapeView &xShape, const ShapeView &yShape,
                        const std::vector<int32_t> &permutation, int64_t count, const T *x, T *y) {
    CHECK(rank == yShape.NumAxes() && count == yShape.elem_cnt() && count == xShape.elem_cnt());
    detail::transposeArray(ctx, xShape, yShape, permutation, x, y);
  }
  /// Copies columns of `rows` rows from one matrix to another.
  template <class T>
  static void CopyColsRegion(DeviceCtx *ctx, int64_t rows, int64_t columns, const T *x, int64_t xColumn, int64_t xStep,
                             T *y, int64_t yColumn, int64_t yStep) {
    detail::parallelLoop(ctx, rows, 64, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) std::copy_n(x + i * xStep + xColumn, columns, y + i * yStep + yColumn);
    });
  }
};

} // namespace oneflow
