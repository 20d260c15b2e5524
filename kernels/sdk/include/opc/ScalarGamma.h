// The logarithm of the gamma function and its derivatives, in f64.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/ScalarFloat.h"

namespace opc::scalar::f64 {

/// log |Gamma(x)|; infinity at the non-positive integers.
OPC_HOST_DEVICE inline double lgamma(double x) {
#if defined(__GLIBC__) && !defined(__CUDA_ARCH__)
  int sign; // lgamma writes a global variable, which is a data race
  return ::lgamma_r(x, &sign);
#else
  return ::lgamma(x);
#endif
}

/// The derivative of lgamma. NaN at the negative integers; -infinity at +0, +infinity at -0.
/// Reflection, recurrence to 10, then the asymptotic series (Abramowitz and Stegun 6.3.5, 6.3.7, 6.3.18).
OPC_HOST_DEVICE inline double digamma(double x) {
  double reflected = 0;
  if (x <= 0) {
    if (x == 0) return -1.0 / x;
    if (x == ::floor(x)) return f32::kNan64;
    // The period of tan(pi x) is 1, and the distance from the nearest integer is exact: that from the one below is
    // not.
    const double pi = 3.14159265358979323846;
    reflected = -pi / ::tan(pi * (x - ::rint(x)));
    x = 1 - x;
  }
  double sum = 0;
  for (; x < 10; x += 1) sum -= 1 / x;
  const double s = 1 / (x * x);
  const double tail =
      s *
      (1.0 / 12 - s * (1.0 / 120 - s * (1.0 / 252 - s * (1.0 / 240 - s * (1.0 / 132 - s * (691.0 / 32760 - s / 12))))));
  return reflected + sum + ::log(x) - 0.5 / x - tail;
}

/// x to the power n = 1, 2, ...
OPC_HOST_DEVICE inline double wholePower(double x, double n) {
  double p = x;
  for (double i = 1; i < n; i += 1) p *= x;
  return p;
}

/// The sum of (x + k)^-s over k = 0, 1, ... for x > 0 and s = 2, 3, ...: terms up to s + 10, the rest by Euler and
/// Maclaurin's formula.
OPC_HOST_DEVICE inline double zetaFrom(double s, double x) {
  double sum = 0;
  for (; x < s + 10; x += 1) sum += 1 / wholePower(x, s);
  // Bernoulli's B(2j) / (2j)!
  const double weights[] = {1.0 / 12,
                            -1.0 / 720,
                            1.0 / 30240,
                            -1.0 / 1209600,
                            1.0 / 47900160,
                            -691.0 / 1307674368e3,
                            1.0 / 74724249600.0,
                            -3617.0 / 10670622842880e3};
  const double down = 1 / (x * x);
  double factor = s / x, tail = 0;
  for (int j = 0; j < 8; ++j) {
    tail += weights[j] * factor;
    factor *= (s + 2 * j + 1) * (s + 2 * j + 2) * down;
  }
  return sum + 1 / ((s - 1) * wholePower(x, s - 1)) + (0.5 + tail) / wholePower(x, s);
}

/// The derivative of digamma of that order (Abramowitz and Stegun 6.4): -(-1)^n n! times the sum of (x + k)^-(n + 1)
/// over k >= 0. Infinity at the non-positive integers where n is odd; where it is even NaN, at 0 by the zero's sign.
OPC_HOST_DEVICE inline double polygamma(double order, double x) {
  if (order == 0) return digamma(x);
  if (!(order > 0 && order <= 170) || order != ::floor(order) || x != x) return f32::kNan64;
  const bool even = ::fmod(order, 2.0) == 0;
  double factorial = even ? -1 : 1;
  for (double i = 2; i <= order; i += 1) factorial *= i;
  const double s = order + 1;
  if (x > 0) return factorial * zetaFrom(s, x);
  if (x == 0) return even ? -1 / x : f32::kInf64;
  if (x == ::floor(x)) return even ? f32::kNan64 : f32::kInf64;
  // The terms above 0, and those below: what begins at the distance from 0 less what lies beyond the first term.
  const double nearest = x - ::rint(x);
  const double above = nearest > 0 ? nearest : 1 + nearest, below = nearest > 0 ? 1 - nearest : -nearest;
  const double negative = zetaFrom(s, below) - zetaFrom(s, 1 - x);
  return factorial * (zetaFrom(s, above) + (even ? -negative : negative));
}

/// The derivative of digamma; infinity at the non-positive integers.
OPC_HOST_DEVICE inline double trigamma(double x) { return polygamma(1.0, x); }

} // namespace opc::scalar::f64
