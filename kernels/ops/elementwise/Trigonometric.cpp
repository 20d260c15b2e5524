// Trigonometric and hyperbolic functions and their inverses.
// SPDX-License-Identifier: Apache-2.0
#include "elementwise/ElementwiseOps.h"

#include "UnaryScalars.h"

namespace opc::scalar {

OPC_UNARY_OP("sin").Doc("Sine; x in radians.").Elementwise<Sin>();
OPC_UNARY_OP("cos").Doc("Cosine; x in radians.").Elementwise<Cos>();
OPC_UNARY_OP("tan").Doc("Tangent; x in radians.").Elementwise<Tan>(ElementwiseOptions().Domain(-1.4, 1.4));
OPC_UNARY_OP("asin")
    .Doc("Inverse sine, in radians. NaN outside [-1, 1].")
    .Elementwise<Asin>(ElementwiseOptions().Domain(-0.95, 0.95));
OPC_UNARY_OP("acos")
    .Doc("Inverse cosine, in radians. NaN outside [-1, 1].")
    .Elementwise<Acos>(ElementwiseOptions().Domain(-0.95, 0.95));
OPC_UNARY_OP("atan").Doc("Inverse tangent, in radians.").Elementwise<Atan>();
OPC_UNARY_OP("sinh").Doc("Hyperbolic sine.").Elementwise<Sinh>();
OPC_UNARY_OP("cosh").Doc("Hyperbolic cosine.").Elementwise<Cosh>();
OPC_UNARY_OP("tanh").Doc("Hyperbolic tangent.").Elementwise<Tanh>();
OPC_UNARY_OP("asinh").Doc("Inverse hyperbolic sine.").Elementwise<Asinh>();
OPC_UNARY_OP("acosh")
    .Doc("Inverse hyperbolic cosine. NaN below 1.")
    .Elementwise<Acosh>(ElementwiseOptions().Domain(1.1, 6));
OPC_UNARY_OP("atanh")
    .Doc("Inverse hyperbolic tangent. NaN outside [-1, 1].")
    .Elementwise<Atanh>(ElementwiseOptions().Domain(-0.95, 0.95));

} // namespace opc::scalar
