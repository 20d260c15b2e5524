// Multiplication and division: by tensors, by a number, by a one-element tensor.
// SPDX-License-Identifier: Apache-2.0
#include "elementwise/ElementwiseOps.h"

#include "ArithmeticScalars.h"

namespace opc::scalar {

OPC_BINARY_OP("broadcast_mul").Doc("x * y with broadcasting. Integers wrap around.").Elementwise<Mul, types::Numbers>();
REGISTER_USER_OP("multiply")
    .Input("x")
    .Input("y")
    .Output("out")
    .ArgAlias("z", "out")
    .Doc("x * y for tensors of equal shape. Integers wrap around.")
    .Elementwise<Mul, types::Numbers>(ElementwiseOptions().SameShape());
OPC_SCALAR_OPERAND_OP("scalar_mul")
    .SetCheckAttrFn(user_op::elementwise::checkScalarOperand)
    .Doc("in times a number.")
    .Elementwise<Mul, types::Numbers>(withOperand(1.5));
REGISTER_USER_OP("scalar_mul_by_tensor")
    .Input("x")
    .Input("scalar")
    .Output("y")
    .Doc("x times a tensor of one element.")
    .Elementwise<Mul, types::Numbers>();
OPC_BINARY_OP("broadcast_div")
    .Doc("x / y with broadcasting. Integers: rounded towards zero, 0 when y is 0.")
    .Elementwise<Div, types::Numbers>(ElementwiseOptions().Domain(1, 0.5, 4));
OPC_SCALAR_OPERAND_OP("scalar_div")
    .SetCheckAttrFn(user_op::elementwise::checkScalarOperand)
    .Doc("in divided by a number. Integers: rounded towards zero, 0 when the number is 0.")
    .Elementwise<Div, types::Numbers>(withOperand());
REGISTER_USER_OP("scalar_div_by_tensor")
    .Input("x")
    .Input("scalar")
    .Output("y")
    .Doc("x divided by a tensor of one element. Integers: rounded towards zero, 0 when it is 0.")
    .Elementwise<Div, types::Numbers>(ElementwiseOptions().Domain(1, 0.5, 4));

} // namespace opc::scalar
