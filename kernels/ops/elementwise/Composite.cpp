// Functions of two or three tensors that combine several steps.
// SPDX-License-Identifier: Apache-2.0
#include "elementwise/ElementwiseOps.h"

#include "ArithmeticScalars.h"

namespace opc::scalar {

OPC_BINARY_OP("atan2")
    .Doc("The angle of the point (y, x), that is atan(x / y) in the right quadrant, for tensors of equal shape. x is "
         "the numerator.")
    .Elementwise<Atan2, types::Floating>(ElementwiseOptions().SameShape());
OPC_BINARY_OP("xlogy")
    .Doc("x * log(y), and 0 where x is 0 (unless y is NaN), for tensors of equal shape.")
    .Elementwise<Xlogy, types::Floating>(ElementwiseOptions().SameShape().Domain(0.3, 4));
OPC_BINARY_OP("xdivy")
    .Doc("x / y, and 0 where x is 0 (unless y is NaN), for tensors of equal shape.")
    .Elementwise<Xdivy, types::Floating>(ElementwiseOptions().SameShape().Domain(0.3, 4));
REGISTER_USER_OP("lerp")
    .Input("start")
    .Input("end")
    .Input("weight")
    .Output("out")
    .Doc("start + weight * (end - start), with broadcasting.")
    .Elementwise<Lerp>();
REGISTER_USER_OP("scalar_lerp")
    .Input("start")
    .Input("end")
    .Output("out")
    .Attr<bool>("has_int_operand", false)
    .Attr<bool>("has_float_operand", false)
    .Attr<int64_t>("int_operand", 0)
    .Attr<double>("float_operand", 0)
    .SetCheckAttrFn(user_op::elementwise::checkScalarOperand)
    .Doc("start + number * (end - start), with broadcasting.")
    .Elementwise<Lerp>(withOperand(0.3));

} // namespace opc::scalar
