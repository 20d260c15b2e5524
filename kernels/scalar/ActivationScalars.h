// Scalar functions of neural networks. Comparisons are written so that NaN stays NaN, and so that the derivative at a
// kink is the one PyTorch gives.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Scalar.h"

namespace opc::scalar {

OPC_SCALAR(Relu, x) { return select(x <= 0, 0, x); }
OPC_SCALAR(SquareRelu, x) { return select(x <= 0, 0, x * x); }
OPC_SCALAR(LeakyRelu, x, alpha) { return select(x > 0, x, alpha * x); }
// Gaussian error linear unit: x times the normal distribution function (Hendrycks and Gimpel, 2016).
OPC_SCALAR(Gelu, x) { return 0.5 * x * (1 + erf(x * 0.7071067811865476)); }
OPC_SCALAR(FastGelu, x) { return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))); }
OPC_SCALAR(QuickGelu, x) { return x * sigmoid(1.702 * x); }
OPC_SCALAR(Silu, x) { return x * sigmoid(x); }
OPC_SCALAR(Elu, x, alpha) { return select(x > 0, x, alpha * expm1(x)); }
OPC_SCALAR(Celu, x, alpha) { return select(x > 0, x, alpha * expm1(x / alpha)); }
// The constants make mean 0 and variance 1 a fixed point (Klambauer et al., 2017).
OPC_SCALAR(Selu, x) { return 1.0507009873554805 * select(x > 0, x, 1.6732632423543772 * expm1(x)); }
// x tanh(log(1 + e^x)); with n = e^x (e^x + 2) the tanh is n / (n + 2), which needs one exponential. From 20 on it is
// x.
OPC_SCALAR(Mish, x) {
  auto e = exp(min(x, 20));
  auto n = e * (e + 2);
  return x * (n / (n + 2));
}
OPC_SCALAR(Softplus, x, beta, threshold) {
  auto t = beta * x;
  return select(t > threshold, x, softplus(t) / beta);
}
OPC_SCALAR(Softsign, x) { return x / (1 + abs(x)); }
OPC_SCALAR(Softshrink, x, alpha) { return select(x >= -alpha && x <= alpha, 0, select(x > 0, x - alpha, x + alpha)); }
OPC_SCALAR(Hardshrink, x, lambd) { return select(x >= -lambd && x <= lambd, 0, x); }
OPC_SCALAR(Hardswish, x) { return select(x <= -3, 0, select(x >= 3, x, x * (x + 3) / 6)); }
OPC_SCALAR(Hardsigmoid, x) { return select(x <= -3, 0, select(x >= 3, 1, (x + 3) / 6)); }
OPC_SCALAR(Hardtanh, x, min_val, max_val) { return select(x <= min_val, min_val, select(x >= max_val, max_val, x)); }
OPC_SCALAR(Threshold, x, threshold, value) { return select(x <= threshold, value, x); }

} // namespace opc::scalar
