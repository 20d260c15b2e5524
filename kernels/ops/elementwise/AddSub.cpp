// Addition and subtraction: of tensors, of a number, of a one-element tensor.
// SPDX-License-Identifier: Apache-2.0
#include "ArithmeticScalars.h"
#include "elementwise/ElementwiseOps.h"

namespace opc::ops {
namespace {

using namespace opc::scalar;

REGISTER_USER_OP("broadcast_add").With(binary<Add>()).Doc("x + y with broadcasting. Integers wrap around.");
REGISTER_USER_OP("scalar_add").With(byNumber<Add>(withNumber(1.5))).Doc("in + a number.");
REGISTER_USER_OP("scalar_add_by_tensor").With(byTensor<Add>()).Doc("x + a tensor of one element.");
REGISTER_USER_OP("broadcast_sub").With(binary<Sub>()).Doc("x - y with broadcasting. Integers wrap around.");
REGISTER_USER_OP("scalar_sub_by_tensor").With(byTensor<Sub>()).Doc("x - a tensor of one element.");

} // namespace
} // namespace opc::ops
