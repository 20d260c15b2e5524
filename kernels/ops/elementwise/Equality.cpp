// Equality of tensors, and of a tensor and a number.
// SPDX-License-Identifier: Apache-2.0
#include "LogicScalars.h"
#include "elementwise/ElementwiseOps.h"

namespace opc::ops {
namespace {

using namespace opc::scalar;

REGISTER_USER_OP("broadcast_equal").With(truth<Equal>(domain(-2, 2))).Doc("True where x equals y, with broadcasting.");
REGISTER_USER_OP("scalar_logical_equal").With(truthByNumber<Equal>()).Doc("True where in equals a number.");
REGISTER_USER_OP("broadcast_not_equal")
    .With(truth<NotEqual>(domain(-2, 2)))
    .Doc("True where x differs from y, with broadcasting.");
REGISTER_USER_OP("scalar_logical_not_equal")
    .With(truthByNumber<NotEqual>())
    .Doc("True where in differs from a number.");

} // namespace
} // namespace opc::ops
