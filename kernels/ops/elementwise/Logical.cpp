// Logic on truth values; a number is true when it is not 0.
// SPDX-License-Identifier: Apache-2.0
#include "elementwise/ElementwiseOps.h"

#include "LogicScalars.h"

namespace opc::scalar {

OPC_BINARY_OP("broadcast_logical_and")
    .Doc("True where both are not 0, with broadcasting.")
    .Elementwise<LogicalAnd, types::Computed, output::Bool>(ElementwiseOptions().Domain(-1, 2))
    .NoGrad("the result is a truth value");
OPC_SCALAR_OPERAND_OP("scalar_logical_and")
    .SetCheckAttrFn(user_op::elementwise::checkScalarOperand)
    .Doc("True where, of in and a number, both are not 0.")
    .Elementwise<LogicalAnd, types::Computed, output::Bool>(withOperand(1).Domain(-1, 2))
    .NoGrad("the result is a truth value");
OPC_BINARY_OP("broadcast_logical_or")
    .Doc("True where one or both are not 0, with broadcasting.")
    .Elementwise<LogicalOr, types::Computed, output::Bool>(ElementwiseOptions().Domain(-1, 2))
    .NoGrad("the result is a truth value");
OPC_SCALAR_OPERAND_OP("scalar_logical_or")
    .SetCheckAttrFn(user_op::elementwise::checkScalarOperand)
    .Doc("True where, of in and a number, one or both are not 0.")
    .Elementwise<LogicalOr, types::Computed, output::Bool>(withOperand(1).Domain(-1, 2))
    .NoGrad("the result is a truth value");
OPC_BINARY_OP("broadcast_logical_xor")
    .Doc("True where exactly one is not 0, with broadcasting.")
    .Elementwise<LogicalXor, types::Computed, output::Bool>(ElementwiseOptions().Domain(-1, 2))
    .NoGrad("the result is a truth value");
OPC_SCALAR_OPERAND_OP("scalar_logical_xor")
    .SetCheckAttrFn(user_op::elementwise::checkScalarOperand)
    .Doc("True where, of in and a number, exactly one is not 0.")
    .Elementwise<LogicalXor, types::Computed, output::Bool>(withOperand(1).Domain(-1, 2))
    .NoGrad("the result is a truth value");

} // namespace opc::scalar
