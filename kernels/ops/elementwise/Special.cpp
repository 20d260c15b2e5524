// Error, gamma and logistic functions.
// SPDX-License-Identifier: Apache-2.0
#include "elementwise/ElementwiseOps.h"

#include "UnaryScalars.h"

namespace opc::scalar {

OPC_UNARY_OP("erf")
    .Doc("The error function, 2/sqrt(pi) times the integral of e^(-t^2) from 0 to x.")
    .Elementwise<Erf>();
OPC_UNARY_OP("erfc").Doc("1 - erf(x), exact for large x.").Elementwise<Erfc>();
OPC_UNARY_OP("lgamma")
    .Doc("The logarithm of |Gamma(x)|; +inf at 0 and at negative integers.")
    .Elementwise<Lgamma>(ElementwiseOptions().Domain(0.2, 8));
OPC_UNARY_OP("digamma")
    .Doc("The derivative of lgamma. NaN at negative integers.")
    .Elementwise<Digamma>(ElementwiseOptions().Domain(0.2, 8));
OPC_UNARY_OP("trigamma")
    .Doc("The derivative of digamma; +inf at 0 and at negative integers.")
    .Elementwise<Trigamma>(ElementwiseOptions().Domain(0.2, 8))
    .NoGrad("the derivative of trigamma is not a function of this library");
OPC_UNARY_OP("sigmoid")
    .Doc("The logistic function, 1 / (1 + e^-x).")
    .Elementwise<Sigmoid>(ElementwiseOptions().Domain(-8, 8));
OPC_UNARY_OP("log_sigmoid")
    .Doc("log(1 / (1 + e^-x)), without overflow for large |x|.")
    .Elementwise<LogSigmoid>(ElementwiseOptions().Domain(-8, 8));

} // namespace opc::scalar
