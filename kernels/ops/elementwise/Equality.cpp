// Equality of tensors, and of a tensor and a number.
// SPDX-License-Identifier: Apache-2.0
#include "elementwise/ElementwiseOps.h"

#include "LogicScalars.h"

namespace opc::scalar {

OPC_BINARY_OP("broadcast_equal")
    .Doc("True where x equals y, with broadcasting.")
    .Elementwise<Equal, types::Computed, output::Bool>(ElementwiseOptions().Domain(-2, 2))
    .NoGrad("the result is a truth value");
OPC_SCALAR_OPERAND_OP("scalar_logical_equal")
    .SetCheckAttrFn(user_op::elementwise::checkScalarOperand)
    .Doc("True where in equals a number.")
    .Elementwise<Equal, types::Computed, output::Bool>(withOperand(1))
    .NoGrad("the result is a truth value");
OPC_BINARY_OP("broadcast_not_equal")
    .Doc("True where x differs from y, with broadcasting.")
    .Elementwise<NotEqual, types::Computed, output::Bool>(ElementwiseOptions().Domain(-2, 2))
    .NoGrad("the result is a truth value");
OPC_SCALAR_OPERAND_OP("scalar_logical_not_equal")
    .SetCheckAttrFn(user_op::elementwise::checkScalarOperand)
    .Doc("True where in differs from a number.")
    .Elementwise<NotEqual, types::Computed, output::Bool>(withOperand(1))
    .NoGrad("the result is a truth value");

} // namespace opc::scalar
