// Sign, absolute value, rounding, reciprocals.
// SPDX-License-Identifier: Apache-2.0
#include "elementwise/ElementwiseOps.h"

#include "UnaryScalars.h"

namespace opc::scalar {

OPC_UNARY_OP("abs").Doc("Absolute value. The most negative integer stays as it is.").Elementwise<Abs, types::Numbers>();
OPC_UNARY_OP("negative").Doc("-x. Unsigned integers wrap around.").Elementwise<Negative, types::Numbers>();
OPC_UNARY_OP("sign").Doc("-1, 0 or 1; NaN for NaN.").Elementwise<Sign, types::Numbers>();
OPC_UNARY_OP("square").Doc("x * x. Integers wrap around.").Elementwise<Square, types::Numbers>();
OPC_UNARY_OP("floor").Doc("The largest integer not above x.").Elementwise<Floor>();
OPC_UNARY_OP("ceil").Doc("The smallest integer not below x.").Elementwise<Ceil>();
OPC_UNARY_OP("round").Doc("The nearest integer, halves to even.").Elementwise<Round>();
OPC_UNARY_OP("rint").Doc("The nearest integer, halves to even.").Elementwise<Round>();
OPC_UNARY_IN_OUT_OP("trunc").Doc("The integer part of x.").Elementwise<Trunc>();
OPC_UNARY_IN_OUT_OP("frac").Doc("x - trunc(x).").Elementwise<Frac>();
OPC_UNARY_OP("reciprocal").Doc("1 / x; infinite at 0.").Elementwise<Reciprocal>(ElementwiseOptions().Domain(0.3, 4));
OPC_UNARY_OP("reciprocal_no_nan")
    .Doc("1 / x, and 0 where x is 0.")
    .Elementwise<ReciprocalNoNan>(ElementwiseOptions().Domain(0.3, 4));

} // namespace opc::scalar
