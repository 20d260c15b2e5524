// Sign, absolute value, rounding, reciprocals.
// SPDX-License-Identifier: Apache-2.0
#include "UnaryScalars.h"
#include "elementwise/ElementwiseOps.h"

namespace opc::ops {
namespace {

using namespace opc::scalar;

REGISTER_USER_OP("abs")
    .With(unary<Abs, types::Numbers>())
    .Doc("Absolute value. The most negative integer stays as it is.");
REGISTER_USER_OP("negative").With(unary<Negative, types::Numbers>()).Doc("-x. Unsigned integers wrap around.");
REGISTER_USER_OP("sign").With(unary<Sign, types::Numbers>()).Doc("-1, 0 or 1; NaN for NaN.");
REGISTER_USER_OP("square").With(unary<Square, types::Numbers>()).Doc("x * x. Integers wrap around.");
REGISTER_USER_OP("floor").With(unary<Floor>()).Doc("The largest integer not above x.");
REGISTER_USER_OP("ceil").With(unary<Ceil>()).Doc("The smallest integer not below x.");
REGISTER_USER_OP("round").With(unary<Round>()).Doc("The nearest integer, halves to even.");
REGISTER_USER_OP("rint").With(unary<Round>()).Doc("The nearest integer, halves to even.");
REGISTER_USER_OP("trunc").With(unaryInOut<Trunc>()).Doc("The integer part of x.");
REGISTER_USER_OP("frac").With(unaryInOut<Frac>()).Doc("x - trunc(x).");
REGISTER_USER_OP("reciprocal").With(unary<Reciprocal>(domain(0.3, 4))).Doc("1 / x; infinite at 0.");
REGISTER_USER_OP("reciprocal_no_nan").With(unary<ReciprocalNoNan>(domain(0.3, 4))).Doc("1 / x, and 0 where x is 0.");

} // namespace
} // namespace opc::ops
