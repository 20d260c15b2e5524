// Multiplication and division: by tensors, by a number, by a one-element tensor.
// SPDX-License-Identifier: Apache-2.0
#include "ArithmeticScalars.h"
#include "elementwise/ElementwiseOps.h"

namespace opc::ops {
namespace {

using namespace opc::scalar;

REGISTER_USER_OP("broadcast_mul").With(binary<Mul>()).Doc("x * y with broadcasting. Integers wrap around.");
REGISTER_USER_OP("multiply")
    .With(TensorArgs{{"x", "y"}, {"out"}})
    .ArgAlias("z", "out")
    .Doc("x * y for tensors of equal shape. Integers wrap around.")
    .Elementwise<Mul, types::Numbers>(sameShape());
REGISTER_USER_OP("scalar_mul").With(byNumber<Mul>(withNumber(1.5))).Doc("in times a number.");
REGISTER_USER_OP("scalar_mul_by_tensor").With(byTensor<Mul>()).Doc("x times a tensor of one element.");
REGISTER_USER_OP("broadcast_div")
    .With(binary<Div>(ElementwiseOptions().Domain(1, 0.5, 4)))
    .Doc("x / y with broadcasting. Integers: rounded towards zero, 0 when y is 0.");
REGISTER_USER_OP("scalar_div")
    .With(byNumber<Div>())
    .Doc("in divided by a number. Integers: rounded towards zero, 0 when the number is 0.");
REGISTER_USER_OP("scalar_div_by_tensor")
    .With(byTensor<Div>(ElementwiseOptions().Domain(1, 0.5, 4)))
    .Doc("x divided by a tensor of one element. Integers: rounded towards zero, 0 when it is 0.");

} // namespace
} // namespace opc::ops
