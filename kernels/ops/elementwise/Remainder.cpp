// Remainders and rounded quotients. An integer division by zero gives 0.
// SPDX-License-Identifier: Apache-2.0
#include "elementwise/ElementwiseOps.h"

#include "ArithmeticScalars.h"

namespace opc::scalar {

OPC_BINARY_OP("broadcast_fmod")
    .Doc("The remainder of x / y with the sign of x (C); 0 for an integer y of 0.")
    .Elementwise<Fmod, types::Numbers>(ElementwiseOptions().Domain(-9, 9).Domain(1, 1, 5));
OPC_SCALAR_OPERAND_OP("scalar_fmod")
    .SetCheckAttrFn(user_op::elementwise::checkScalarOperand)
    .Doc("The remainder of in divided by a number, with the sign of in (C).")
    .Elementwise<Fmod, types::Numbers>(withOperand().Domain(-9, 9));
OPC_BINARY_OP("broadcast_floor_mod")
    .Doc("The remainder of x / y with the sign of y (Python); 0 for an integer y of 0.")
    .Elementwise<FloorMod, types::Numbers>(ElementwiseOptions().Domain(-9, 9).Domain(1, 1, 5));
OPC_BINARY_OP("floordiv")
    .Doc("x / y rounded down, for tensors of equal shape; 0 for an integer y of 0.")
    .Elementwise<FloorDiv, types::Numbers>(ElementwiseOptions().SameShape().Domain(-9, 9).Domain(1, 1, 5));
OPC_SCALAR_OPERAND_OP("scalar_floordiv")
    .SetCheckAttrFn(user_op::elementwise::checkScalarOperand)
    .Doc("in divided by a number, rounded down.")
    .Elementwise<FloorDiv, types::Numbers>(withOperand().Domain(-9, 9));
OPC_BINARY_OP("truncdiv")
    .Doc("x / y rounded towards zero, for tensors of equal shape; 0 for an integer y of 0.")
    .Elementwise<TruncDiv, types::Numbers>(ElementwiseOptions().SameShape().Domain(-9, 9).Domain(1, 1, 5));
OPC_SCALAR_OPERAND_OP("scalar_truncdiv")
    .SetCheckAttrFn(user_op::elementwise::checkScalarOperand)
    .Doc("in divided by a number, rounded towards zero.")
    .Elementwise<TruncDiv, types::Numbers>(withOperand().Domain(-9, 9));

} // namespace opc::scalar
