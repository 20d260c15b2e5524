// The larger or smaller of two tensors. NaN in either operand gives NaN.
// SPDX-License-Identifier: Apache-2.0
#include "elementwise/ElementwiseOps.h"

#include "ArithmeticScalars.h"

namespace opc::scalar {

OPC_BINARY_OP("broadcast_maximum")
    .Doc("The larger of x and y with broadcasting; NaN if either is.")
    .Elementwise<Maximum, types::Numbers>();
OPC_BINARY_OP("broadcast_minimum")
    .Doc("The smaller of x and y with broadcasting; NaN if either is.")
    .Elementwise<Minimum, types::Numbers>();
OPC_BINARY_OP("elementwise_maximum")
    .Doc("The larger of x and y for tensors of equal shape; NaN if either is.")
    .Elementwise<Maximum, types::Numbers>(ElementwiseOptions().SameShape());
OPC_BINARY_OP("elementwise_minimum")
    .Doc("The smaller of x and y for tensors of equal shape; NaN if either is.")
    .Elementwise<Minimum, types::Numbers>(ElementwiseOptions().SameShape());

} // namespace opc::scalar
