// Bitwise operations on integers and bool.
// SPDX-License-Identifier: Apache-2.0
#include "elementwise/ElementwiseOps.h"

#include "LogicScalars.h"

namespace opc::scalar {

using BitTypes = Join<types::Integers, types::Bool>;

/// A bitwise operand is an integer.
static user_op::ElementwiseOptions bits() {
  return ElementwiseOptions()
      .Attributes(user_op::elementwise::scalarOperand)
      .CaseAttr("has_int_operand", true)
      .CaseAttr("int_operand", int64_t{1})
      .Domain(-9, 9);
}

OPC_BINARY_OP("broadcast_bitwise_and")
    .Doc("Bitwise and with broadcasting.")
    .Elementwise<BitwiseAnd, BitTypes>(ElementwiseOptions().Domain(-9, 9))
    .NoGrad("integers have no gradient");
OPC_SCALAR_OPERAND_OP("scalar_bitwise_and")
    .SetCheckAttrFn(user_op::elementwise::checkScalarOperand)
    .Doc("Bitwise and with a number.")
    .Elementwise<BitwiseAnd, BitTypes>(bits())
    .NoGrad("integers have no gradient");
OPC_BINARY_OP("broadcast_bitwise_or")
    .Doc("Bitwise or with broadcasting.")
    .Elementwise<BitwiseOr, BitTypes>(ElementwiseOptions().Domain(-9, 9))
    .NoGrad("integers have no gradient");
OPC_SCALAR_OPERAND_OP("scalar_bitwise_or")
    .SetCheckAttrFn(user_op::elementwise::checkScalarOperand)
    .Doc("Bitwise or with a number.")
    .Elementwise<BitwiseOr, BitTypes>(bits())
    .NoGrad("integers have no gradient");
OPC_BINARY_OP("broadcast_bitwise_xor")
    .Doc("Bitwise xor with broadcasting.")
    .Elementwise<BitwiseXor, BitTypes>(ElementwiseOptions().Domain(-9, 9))
    .NoGrad("integers have no gradient");
OPC_SCALAR_OPERAND_OP("scalar_bitwise_xor")
    .SetCheckAttrFn(user_op::elementwise::checkScalarOperand)
    .Doc("Bitwise xor with a number.")
    .Elementwise<BitwiseXor, BitTypes>(bits())
    .NoGrad("integers have no gradient");

} // namespace opc::scalar
