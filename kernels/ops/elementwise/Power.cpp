// Powers.
// SPDX-License-Identifier: Apache-2.0
#include "elementwise/ElementwiseOps.h"

#include "ArithmeticScalars.h"

namespace opc::scalar {

OPC_BINARY_OP("broadcast_pow")
    .Doc("x^y with broadcasting. Integers wrap around; negative exponents give 0, but for x = 1 and -1.")
    .Elementwise<Pow, types::Numbers>(ElementwiseOptions().Domain(0.2, 3));
OPC_BINARY_OP("pow")
    .Doc("x^y for tensors of equal shape.")
    .Elementwise<Pow, types::Floating>(ElementwiseOptions().SameShape().Domain(0.2, 3));
/// Older graphs give `exponent` and neither flag.
static std::vector<ScalarValue> exponentOperand(const user_op::UserOpConfWrapper &conf, DataType type) {
  if (conf.attr<bool>("has_int_operand") || conf.attr<bool>("has_float_operand"))
    return user_op::elementwise::scalarOperand(conf, type);
  return {ScalarValue(conf.attr<double>("exponent"))};
}
OPC_SCALAR_OPERAND_OP("scalar_pow")
    .Attr<double>("exponent", 0)
    .Doc("in to the power of a number: int_operand, float_operand or, with neither flag set, exponent.")
    .Elementwise<Pow, types::Numbers>(withOperand(2.5).Attributes(exponentOperand).Domain(0.2, 3));
OPC_SCALAR_OPERAND_OP("scalar_reverse_pow")
    .SetCheckAttrFn(user_op::elementwise::checkScalarOperand)
    .Doc("A number to the power of in.")
    .Elementwise<ReversePow, types::Floating>(withOperand());

} // namespace opc::scalar
