// Logic on truth values; a number is true when it is not 0.
// SPDX-License-Identifier: Apache-2.0
#include "LogicScalars.h"
#include "elementwise/ElementwiseOps.h"

namespace opc::ops {
namespace {

using namespace opc::scalar;

REGISTER_USER_OP("broadcast_logical_and")
    .With(truth<LogicalAnd>(domain(-1, 2)))
    .Doc("True where both are not 0, with broadcasting.");
REGISTER_USER_OP("scalar_logical_and")
    .With(truthByNumber<LogicalAnd>(withNumber(1).Domain(-1, 2)))
    .Doc("True where, of in and a number, both are not 0.");
REGISTER_USER_OP("broadcast_logical_or")
    .With(truth<LogicalOr>(domain(-1, 2)))
    .Doc("True where one or both are not 0, with broadcasting.");
REGISTER_USER_OP("scalar_logical_or")
    .With(truthByNumber<LogicalOr>(withNumber(1).Domain(-1, 2)))
    .Doc("True where, of in and a number, one or both are not 0.");
REGISTER_USER_OP("broadcast_logical_xor")
    .With(truth<LogicalXor>(domain(-1, 2)))
    .Doc("True where exactly one is not 0, with broadcasting.");
REGISTER_USER_OP("scalar_logical_xor")
    .With(truthByNumber<LogicalXor>(withNumber(1).Domain(-1, 2)))
    .Doc("True where, of in and a number, exactly one is not 0.");

} // namespace
} // namespace opc::ops
