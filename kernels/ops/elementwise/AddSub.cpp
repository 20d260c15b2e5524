// Addition and subtraction: of tensors, of a number, of a one-element tensor.
// SPDX-License-Identifier: Apache-2.0
#include "elementwise/ElementwiseOps.h"

#include "ArithmeticScalars.h"

namespace opc::scalar {

OPC_BINARY_OP("broadcast_add").Doc("x + y with broadcasting. Integers wrap around.").Elementwise<Add, types::Numbers>();
OPC_SCALAR_OPERAND_OP("scalar_add")
    .SetCheckAttrFn(user_op::elementwise::checkScalarOperand)
    .Doc("in + a number.")
    .Elementwise<Add, types::Numbers>(withOperand(1.5));
REGISTER_USER_OP("scalar_add_by_tensor")
    .Input("x")
    .Input("scalar")
    .Output("y")
    .Doc("x + a tensor of one element.")
    .Elementwise<Add, types::Numbers>();
OPC_BINARY_OP("broadcast_sub").Doc("x - y with broadcasting. Integers wrap around.").Elementwise<Sub, types::Numbers>();
REGISTER_USER_OP("scalar_sub_by_tensor")
    .Input("x")
    .Input("scalar")
    .Output("y")
    .Doc("x - a tensor of one element.")
    .Elementwise<Sub, types::Numbers>();

} // namespace opc::scalar
