// Trigonometric and hyperbolic functions and their inverses.
// SPDX-License-Identifier: Apache-2.0
#include "UnaryScalars.h"
#include "elementwise/ElementwiseOps.h"

namespace opc::ops {
namespace {

using namespace opc::scalar;

REGISTER_USER_OP("sin").With(unary<Sin>()).Doc("Sine; x in radians.");
REGISTER_USER_OP("cos").With(unary<Cos>()).Doc("Cosine; x in radians.");
REGISTER_USER_OP("tan").With(unary<Tan>(domain(-1.4, 1.4))).Doc("Tangent; x in radians.");
REGISTER_USER_OP("asin").With(unary<Asin>(domain(-0.95, 0.95))).Doc("Inverse sine, in radians. NaN outside [-1, 1].");
REGISTER_USER_OP("acos").With(unary<Acos>(domain(-0.95, 0.95))).Doc("Inverse cosine, in radians. NaN outside [-1, 1].");
REGISTER_USER_OP("atan").With(unary<Atan>()).Doc("Inverse tangent, in radians.");
REGISTER_USER_OP("sinh").With(unary<Sinh>()).Doc("Hyperbolic sine.");
REGISTER_USER_OP("cosh").With(unary<Cosh>()).Doc("Hyperbolic cosine.");
REGISTER_USER_OP("tanh").With(unary<Tanh>()).Doc("Hyperbolic tangent.");
REGISTER_USER_OP("asinh").With(unary<Asinh>()).Doc("Inverse hyperbolic sine.");
REGISTER_USER_OP("acosh").With(unary<Acosh>(domain(1.1, 6))).Doc("Inverse hyperbolic cosine. NaN below 1.");
REGISTER_USER_OP("atanh")
    .With(unary<Atanh>(domain(-0.95, 0.95)))
    .Doc("Inverse hyperbolic tangent. NaN outside [-1, 1].");

} // namespace
} // namespace opc::ops
