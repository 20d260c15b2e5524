// Tests of single numbers, and logical and bitwise negation.
// SPDX-License-Identifier: Apache-2.0
#include "LogicScalars.h"
#include "elementwise/ElementwiseOps.h"

namespace opc::ops {
namespace {

using namespace opc::scalar;

REGISTER_USER_OP("logical_not").With(unary<LogicalNot, types::Computed, output::Bool>()).Doc("True where x is 0.");
REGISTER_USER_OP("not_equal_zero")
    .With(unary<NotEqualZero, types::Computed>())
    .Doc("1 where x is not 0, in the type of x.")
    .NoGrad("the result is a truth value");
REGISTER_USER_OP("isnan")
    .With(unaryInOut<IsNan, types::Numbers, output::Bool>())
    .Doc("True where x is NaN; never for integers.");
REGISTER_USER_OP("isinf")
    .With(unaryInOut<IsInf, types::Numbers, output::Bool>())
    .Doc("True where x is infinite; never for integers.");
REGISTER_USER_OP("isfinite")
    .With(unaryInOut<IsFinite, types::Numbers, output::Bool>())
    .Doc("True where x is neither infinite nor NaN; always for integers.");
REGISTER_USER_OP("bitwise_not")
    .With(unary<BoolNot, types::Bool>())
    .Elementwise<BitwiseNot, types::Integers>()
    .Doc("Every bit inverted; the logical negation of bool.")
    .NoGrad("integers have no gradient");

} // namespace
} // namespace opc::ops
