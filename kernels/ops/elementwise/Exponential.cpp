// Exponentials, logarithms and roots.
// SPDX-License-Identifier: Apache-2.0
#include "elementwise/ElementwiseOps.h"

#include "UnaryScalars.h"

namespace opc::scalar {

OPC_UNARY_OP("exp").Doc("e to the power of each element.").Elementwise<Exp>();
OPC_UNARY_OP("exp2").Doc("2 to the power of each element.").Elementwise<Exp2>();
OPC_UNARY_OP("expm1").Doc("e^x - 1, exact for small x.").Elementwise<Expm1>();
OPC_UNARY_OP("log")
    .Doc("Natural logarithm. NaN for negative numbers, -inf for 0.")
    .Elementwise<Log>(ElementwiseOptions().Domain(0.05, 10));
OPC_UNARY_OP("log2").Doc("Logarithm to base 2.").Elementwise<Log2>(ElementwiseOptions().Domain(0.05, 10));
OPC_UNARY_OP("log10").Doc("Logarithm to base 10.").Elementwise<Log10>(ElementwiseOptions().Domain(0.05, 10));
OPC_UNARY_OP("log1p").Doc("log(1 + x), exact for small x.").Elementwise<Log1p>(ElementwiseOptions().Domain(-0.9, 5));
OPC_UNARY_OP("sqrt")
    .Doc("Square root. NaN for negative numbers.")
    .Elementwise<Sqrt>(ElementwiseOptions().Domain(0.05, 10));
OPC_UNARY_OP("rsqrt").Doc("1 / sqrt(x).").Elementwise<Rsqrt>(ElementwiseOptions().Domain(0.05, 10));

} // namespace opc::scalar
