// Order of tensors, and of a tensor and a number. Comparisons with NaN are false.
// SPDX-License-Identifier: Apache-2.0
#include "LogicScalars.h"
#include "elementwise/ElementwiseOps.h"

namespace opc::ops {
namespace {

using namespace opc::scalar;

REGISTER_USER_OP("broadcast_greater")
    .With(truth<Greater>(domain(-2, 2)))
    .Doc("True where x is above y, with broadcasting.");
REGISTER_USER_OP("scalar_logical_greater").With(truthByNumber<Greater>()).Doc("True where in is above a number.");
REGISTER_USER_OP("broadcast_greater_equal")
    .With(truth<GreaterEqual>(domain(-2, 2)))
    .Doc("True where x is not below y, with broadcasting.");
REGISTER_USER_OP("scalar_logical_greater_equal")
    .With(truthByNumber<GreaterEqual>())
    .Doc("True where in is not below a number.");
REGISTER_USER_OP("broadcast_less").With(truth<Less>(domain(-2, 2))).Doc("True where x is below y, with broadcasting.");
REGISTER_USER_OP("scalar_logical_less").With(truthByNumber<Less>()).Doc("True where in is below a number.");
REGISTER_USER_OP("broadcast_less_equal")
    .With(truth<LessEqual>(domain(-2, 2)))
    .Doc("True where x is not above y, with broadcasting.");
REGISTER_USER_OP("scalar_logical_less_equal")
    .With(truthByNumber<LessEqual>())
    .Doc("True where in is not above a number.");

} // namespace
} // namespace opc::ops
