// Exponentials, logarithms and roots.
// SPDX-License-Identifier: Apache-2.0
#include "UnaryScalars.h"
#include "elementwise/ElementwiseOps.h"

namespace opc::ops {
namespace {

using namespace opc::scalar;

REGISTER_USER_OP("exp").With(unary<Exp>()).Doc("e to the power of each element.");
REGISTER_USER_OP("exp2").With(unary<Exp2>()).Doc("2 to the power of each element.");
REGISTER_USER_OP("expm1").With(unary<Expm1>()).Doc("e^x - 1, exact for small x.");
REGISTER_USER_OP("log")
    .With(unary<Log>(domain(0.05, 10)))
    .Doc("Natural logarithm. NaN for negative numbers, -inf for 0.");
REGISTER_USER_OP("log2").With(unary<Log2>(domain(0.05, 10))).Doc("Logarithm to base 2.");
REGISTER_USER_OP("log10").With(unary<Log10>(domain(0.05, 10))).Doc("Logarithm to base 10.");
REGISTER_USER_OP("log1p").With(unary<Log1p>(domain(-0.9, 5))).Doc("log(1 + x), exact for small x.");
REGISTER_USER_OP("sqrt").With(unary<Sqrt>(domain(0.05, 10))).Doc("Square root. NaN for negative numbers.");
REGISTER_USER_OP("rsqrt").With(unary<Rsqrt>(domain(0.05, 10))).Doc("1 / sqrt(x).");

} // namespace
} // namespace opc::ops
