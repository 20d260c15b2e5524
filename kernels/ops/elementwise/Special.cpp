// Error, gamma and logistic functions.
// SPDX-License-Identifier: Apache-2.0
#include "UnaryScalars.h"
#include "elementwise/ElementwiseOps.h"

namespace opc::ops {
namespace {

using namespace opc::scalar;

REGISTER_USER_OP("erf")
    .With(unary<Erf>())
    .Doc("The error function, 2/sqrt(pi) times the integral of e^(-t^2) from 0 to x.");
REGISTER_USER_OP("erfc").With(unary<Erfc>()).Doc("1 - erf(x), exact for large x.");
REGISTER_USER_OP("lgamma")
    .With(unary<Lgamma>(domain(0.2, 8)))
    .Doc("The logarithm of |Gamma(x)|; +inf at 0 and at negative integers.");
REGISTER_USER_OP("digamma")
    .With(unary<Digamma>(domain(0.2, 8)))
    .Doc("The derivative of lgamma. NaN at negative integers.");
REGISTER_USER_OP("trigamma")
    .With(unary<Trigamma>(domain(0.2, 8)))
    .Doc("The derivative of digamma; +inf at 0 and at negative integers.");
REGISTER_USER_OP("sigmoid").With(unary<Sigmoid>(domain(-8, 8))).Doc("The logistic function, 1 / (1 + e^-x).");
REGISTER_USER_OP("log_sigmoid")
    .With(unary<LogSigmoid>(domain(-8, 8)))
    .Doc("log(1 / (1 + e^-x)), without overflow for large |x|.");

} // namespace
} // namespace opc::ops
