// Remainders and rounded quotients. An integer division by zero gives 0.
// SPDX-License-Identifier: Apache-2.0
#include "ArithmeticScalars.h"
#include "elementwise/ElementwiseOps.h"

namespace opc::ops {
namespace {

using namespace opc::scalar;

REGISTER_USER_OP("broadcast_fmod")
    .With(binary<Fmod>(domain(-9, 9).Domain(1, 1, 5)))
    .Doc("The remainder of x / y with the sign of x (C); 0 for an integer y of 0.");
REGISTER_USER_OP("scalar_fmod")
    .With(byNumber<Fmod>(withNumber().Domain(-9, 9)))
    .Doc("The remainder of in divided by a number, with the sign of in (C).");
REGISTER_USER_OP("broadcast_floor_mod")
    .With(binary<FloorMod>(domain(-9, 9).Domain(1, 1, 5)))
    .Doc("The remainder of x / y with the sign of y (Python); 0 for an integer y of 0.");
REGISTER_USER_OP("floordiv")
    .With(binary<FloorDiv>(sameShape().Domain(-9, 9).Domain(1, 1, 5)))
    .Doc("x / y rounded down, for tensors of equal shape: of floats the exact quotient, so that floordiv * y + "
         "broadcast_floor_mod is x (1 by 0.1 gives 9); 0 for an integer y of 0.");
REGISTER_USER_OP("scalar_floordiv")
    .With(byNumber<FloorDiv>(withNumber().Domain(-9, 9)))
    .Doc("in divided by a number, rounded down.");
REGISTER_USER_OP("truncdiv")
    .With(binary<TruncDiv>(sameShape().Domain(-9, 9).Domain(1, 1, 5)))
    .Doc("x / y rounded towards zero, for tensors of equal shape: of floats the exact quotient, so that truncdiv * y "
         "+ broadcast_fmod is x; 0 for an integer y of 0.");
REGISTER_USER_OP("scalar_truncdiv")
    .With(byNumber<TruncDiv>(withNumber().Domain(-9, 9)))
    .Doc("in divided by a number, rounded towards zero.");

} // namespace
} // namespace opc::ops
