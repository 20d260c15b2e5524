// Tests of single numbers, and logical and bitwise negation.
// SPDX-License-Identifier: Apache-2.0
#include "elementwise/ElementwiseOps.h"

#include "LogicScalars.h"

namespace opc::scalar {

OPC_UNARY_OP("logical_not")
    .Doc("True where x is 0.")
    .Elementwise<LogicalNot, types::Computed, output::Bool>()
    .NoGrad("the result is a truth value");
OPC_UNARY_OP("not_equal_zero")
    .Doc("1 where x is not 0, in the type of x.")
    .Elementwise<NotEqualZero, types::Computed>()
    .NoGrad("the result is a truth value");
OPC_UNARY_IN_OUT_OP("isnan")
    .Doc("True where x is NaN; never for integers.")
    .Elementwise<IsNan, types::Numbers, output::Bool>()
    .NoGrad("the result is a truth value");
OPC_UNARY_IN_OUT_OP("isinf")
    .Doc("True where x is infinite; never for integers.")
    .Elementwise<IsInf, types::Numbers, output::Bool>()
    .NoGrad("the result is a truth value");
OPC_UNARY_IN_OUT_OP("isfinite")
    .Doc("True where x is neither infinite nor NaN; always for integers.")
    .Elementwise<IsFinite, types::Numbers, output::Bool>()
    .NoGrad("the result is a truth value");
OPC_UNARY_OP("bitwise_not")
    .Doc("Every bit inverted; the logical negation of bool.")
    .Elementwise<BoolNot, types::Bool>()
    .Elementwise<BitwiseNot, types::Integers>()
    .NoGrad("integers have no gradient");

} // namespace opc::scalar
