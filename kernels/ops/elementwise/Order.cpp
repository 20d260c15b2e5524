// Order of tensors, and of a tensor and a number. Comparisons with NaN are false.
// SPDX-License-Identifier: Apache-2.0
#include "elementwise/ElementwiseOps.h"

#include "LogicScalars.h"

namespace opc::scalar {

OPC_BINARY_OP("broadcast_greater")
    .Doc("True where x is above y, with broadcasting.")
    .Elementwise<Greater, types::Computed, output::Bool>(ElementwiseOptions().Domain(-2, 2))
    .NoGrad("the result is a truth value");
OPC_SCALAR_OPERAND_OP("scalar_logical_greater")
    .SetCheckAttrFn(user_op::elementwise::checkScalarOperand)
    .Doc("True where in is above a number.")
    .Elementwise<Greater, types::Computed, output::Bool>(withOperand(1))
    .NoGrad("the result is a truth value");
OPC_BINARY_OP("broadcast_greater_equal")
    .Doc("True where x is not below y, with broadcasting.")
    .Elementwise<GreaterEqual, types::Computed, output::Bool>(ElementwiseOptions().Domain(-2, 2))
    .NoGrad("the result is a truth value");
OPC_SCALAR_OPERAND_OP("scalar_logical_greater_equal")
    .SetCheckAttrFn(user_op::elementwise::checkScalarOperand)
    .Doc("True where in is not below a number.")
    .Elementwise<GreaterEqual, types::Computed, output::Bool>(withOperand(1))
    .NoGrad("the result is a truth value");
OPC_BINARY_OP("broadcast_less")
    .Doc("True where x is below y, with broadcasting.")
    .Elementwise<Less, types::Computed, output::Bool>(ElementwiseOptions().Domain(-2, 2))
    .NoGrad("the result is a truth value");
OPC_SCALAR_OPERAND_OP("scalar_logical_less")
    .SetCheckAttrFn(user_op::elementwise::checkScalarOperand)
    .Doc("True where in is below a number.")
    .Elementwise<Less, types::Computed, output::Bool>(withOperand(1))
    .NoGrad("the result is a truth value");
OPC_BINARY_OP("broadcast_less_equal")
    .Doc("True where x is not above y, with broadcasting.")
    .Elementwise<LessEqual, types::Computed, output::Bool>(ElementwiseOptions().Domain(-2, 2))
    .NoGrad("the result is a truth value");
OPC_SCALAR_OPERAND_OP("scalar_logical_less_equal")
    .SetCheckAttrFn(user_op::elementwise::checkScalarOperand)
    .Doc("True where in is not above a number.")
    .Elementwise<LessEqual, types::Computed, output::Bool>(withOperand(1))
    .NoGrad("the result is a truth value");

} // namespace opc::scalar
