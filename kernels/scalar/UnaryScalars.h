// Scalar functions of one number.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Scalar.h"

namespace opc::scalar {

OPC_SCALAR(Abs, x) { return abs(x); }
OPC_SCALAR(Negative, x) { return -x; }
OPC_SCALAR(Sign, x) { return sign(x); }
OPC_SCALAR(Square, x) { return x * x; }
OPC_SCALAR(Exp, x) { return exp(x); }
OPC_SCALAR(Exp2, x) { return exp2(x); }
OPC_SCALAR(Expm1, x) { return expm1(x); }
OPC_SCALAR(Log, x) { return log(x); }
OPC_SCALAR(Log2, x) { return log2(x); }
OPC_SCALAR(Log10, x) { return log10(x); }
OPC_SCALAR(Log1p, x) { return log1p(x); }
OPC_SCALAR(Sqrt, x) { return sqrt(x); }
OPC_SCALAR(Rsqrt, x) { return rsqrt(x); }
OPC_SCALAR(Reciprocal, x) { return 1 / x; }
OPC_SCALAR(ReciprocalNoNan, x) { return select(x == 0, 0, 1 / x); }
OPC_SCALAR(Sin, x) { return sin(x); }
OPC_SCALAR(Cos, x) { return cos(x); }
OPC_SCALAR(Tan, x) { return tan(x); }
OPC_SCALAR(Asin, x) { return asin(x); }
OPC_SCALAR(Acos, x) { return acos(x); }
OPC_SCALAR(Atan, x) { return atan(x); }
OPC_SCALAR(Sinh, x) { return sinh(x); }
OPC_SCALAR(Cosh, x) { return cosh(x); }
OPC_SCALAR(Tanh, x) { return tanh(x); }
OPC_SCALAR(Asinh, x) { return asinh(x); }
OPC_SCALAR(Acosh, x) { return acosh(x); }
OPC_SCALAR(Atanh, x) { return atanh(x); }
OPC_SCALAR(Erf, x) { return erf(x); }
OPC_SCALAR(Erfc, x) { return erfc(x); }
OPC_SCALAR(Floor, x) { return floor(x); }
OPC_SCALAR(Ceil, x) { return ceil(x); }
OPC_SCALAR(Round, x) { return round(x); }
OPC_SCALAR(Trunc, x) { return trunc(x); }
OPC_SCALAR(Frac, x) { return x - trunc(x); }
OPC_SCALAR(Lgamma, x) { return lgamma(x); }
OPC_SCALAR(Digamma, x) { return digamma(x); }
OPC_SCALAR(Trigamma, x) { return trigamma(x); }
OPC_SCALAR(Sigmoid, x) { return sigmoid(x); }
OPC_SCALAR(LogSigmoid, x) { return -softplus(-x); }

} // namespace opc::scalar
