// The larger or smaller of two tensors. NaN in either operand gives NaN.
// SPDX-License-Identifier: Apache-2.0
#include "ArithmeticScalars.h"
#include "elementwise/ElementwiseOps.h"

namespace opc::ops {
namespace {

using namespace opc::scalar;

REGISTER_USER_OP("broadcast_maximum")
    .With(binary<Maximum>())
    .Doc("The larger of x and y with broadcasting; NaN if either is.");
REGISTER_USER_OP("broadcast_minimum")
    .With(binary<Minimum>())
    .Doc("The smaller of x and y with broadcasting; NaN if either is.");
REGISTER_USER_OP("elementwise_maximum")
    .With(binary<Maximum>(sameShape()))
    .Doc("The larger of x and y for tensors of equal shape; NaN if either is.");
REGISTER_USER_OP("elementwise_minimum")
    .With(binary<Minimum>(sameShape()))
    .Doc("The smaller of x and y for tensors of equal shape; NaN if either is.");

} // namespace
} // namespace opc::ops
