// Functions on rows of f32: softmax, normalisations, losses and their gradients. One source, compiled for x86-64-v3 and
// for v4; what the processor has is taken. The bits are the same: sums have 16 or 32 lanes, whatever the vectors are.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace opc::cpu {

/// `rows` rows of `n` elements that lie one after the other; n may be 0 where nothing is divided by it.
struct RowMath {
  /// y = exp(x - m) / sum of these, m the row's maximum.
  void (*softmax)(const float *x, float *y, int64_t n, int64_t rows);
  /// y = x - m - log(sum of exp(x - m)).
  void (*logSoftmax)(const float *x, float *y, int64_t n, int64_t rows);
  /// dx = y (dy - sum of y dy).
  void (*softmaxGradient)(const float *y, const float *dy, float *dx, int64_t n, int64_t rows);
  /// dx = dy - exp(y) sum of dy.
  void (*logSoftmaxGradient)(const float *y, const float *dy, float *dx, int64_t n, int64_t rows);
  /// y = softmax of x, logs[r] = log of the sum of exponentials of row r; a row of -inf has logarithm -inf. y may be x.
  void (*softmaxAndLog)(const float *x, float *y, float *logs, int64_t n, int64_t rows);
  /// y = factors[r] x.
  void (*scale)(const float *x, const float *factors, float *y, int64_t n, int64_t rows);
  /// One row: y = exp(x - shift). y may be x.
  void (*exponentials)(const float *x, float *y, int64_t n, float shift);
  /// One row: the sum of x.
  float (*total)(const float *x, int64_t n);
  /// One row: the sum of target (log - x); nothing where target is 0.
  float (*crossEntropy)(const float *x, const float *target, float log, int64_t n);
  /// One row: dx = dy (y total - target).
  void (*crossEntropyGradient)(const float *y, const float *target, float *dx, int64_t n, float dy, float total);
  /// One row: the mean, or 0 where it is not `centered`, and 1 / sqrt(mean of (x - mean)^2 + epsilon).
  void (*statistics)(const float *x, int64_t n, bool centered, float epsilon, float *mean, float *inverse);
  /// One row: y = (x - mean) * inverse [* gamma] [+ beta]. gamma and beta may be null.
  void (*normalize)(const float *x, float *y, int64_t n, float mean, float inverse, const float *gamma,
                    const float *beta);
  /// One row: with d = dy [* gamma], xhat = (x - mean) inverse and means over the row, dx = inverse (d - mean(d) - xhat
  /// mean(d xhat)) [+ add]; without `centered` mean(d) stays. gamma and add may be null, dx may be dy.
  void (*normGradient)(const float *dy, const float *x, float *dx, int64_t n, const float *gamma, const float *add,
                       float mean, float inverse, bool centered);
  /// `width` columns of rows that are n elements apart: adds dy (x - mean) inverse to gammas and dy to betas, each
  /// column by itself and row by row. means may be null, for 0.
  void (*parameterRows)(const float *dy, const float *x, const float *means, const float *inverses, int64_t rows,
                        int64_t n, int64_t width, float *gammas, float *betas);
};

/// For this processor; that of x86-64-v3 where OPC_CODE_LEVEL is v3 or none.
const RowMath &rowMath();

/// By level, for tests. The second one needs AVX-512.
extern const RowMath kRowMathV3, kRowMathV4;

} // namespace opc::cpu
