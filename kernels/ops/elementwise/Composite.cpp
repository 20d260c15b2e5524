// Functions of two or three tensors that combine several steps.
// SPDX-License-Identifier: Apache-2.0
#include "ArithmeticScalars.h"
#include "elementwise/ElementwiseOps.h"

namespace opc::ops {
namespace {

using namespace opc::scalar;

REGISTER_USER_OP("atan2")
    .With(binary<Atan2, types::Floating>(sameShape()))
    .Doc("The angle of the point (y, x), that is atan(x / y) in the right quadrant, for tensors of equal shape. x is "
         "the numerator.");
REGISTER_USER_OP("xlogy")
    .With(binary<Xlogy, types::Floating>(sameShape().Domain(0.3, 4)))
    .Doc("x * log(y), and 0 where x is 0 (unless y is NaN), for tensors of equal shape. "
         "The gradient by x is log(y), also at 0.");
REGISTER_USER_OP("xdivy")
    .With(binary<Xdivy, types::Floating>(sameShape().Domain(0.3, 4)))
    .Doc("x / y, and 0 where x is 0 (unless y is NaN), for tensors of equal shape. The gradient by x is 1 / y, also at "
         "0.");
REGISTER_USER_OP("lerp")
    .With(TensorArgs{{"start", "end", "weight"}, {"out"}})
    .Doc("start + weight * (end - start), with broadcasting.")
    .Elementwise<Lerp>();
REGISTER_USER_OP("scalar_lerp")
    .With(TensorArgs{{"start", "end"}, {"out"}})
    .With(numberAttrs)
    .SetCheckAttrFn(checkNumber)
    .Doc("start + number * (end - start), with broadcasting.")
    .Elementwise<Lerp>(withNumber(0.3));

} // namespace
} // namespace opc::ops
