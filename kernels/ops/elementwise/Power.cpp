// Powers.
// SPDX-License-Identifier: Apache-2.0
#include "ArithmeticScalars.h"
#include "elementwise/ElementwiseOps.h"

namespace opc::ops {
namespace {

using namespace opc::scalar;

REGISTER_USER_OP("broadcast_pow")
    .With(binary<Pow>(domain(0.2, 3)))
    .Doc("x^y with broadcasting. Integers wrap around; negative exponents give 0, but for x = 1 and -1.");
REGISTER_USER_OP("pow")
    .With(binary<Pow, types::Floating>(sameShape().Domain(0.2, 3)))
    .Doc("x^y for tensors of equal shape.");
/// Older graphs give `exponent` and neither flag.
std::vector<ScalarValue> readExponent(const UserOpConfWrapper &conf, DataType type) {
  if (conf.attr<bool>("has_int_operand") || conf.attr<bool>("has_float_operand")) return readNumber(conf, type);
  return {ScalarValue(conf.attr<double>("exponent"))};
}
REGISTER_USER_OP("scalar_pow")
    .With(inToOut)
    .With(numberAttrs)
    .Attr<double>("exponent", 0)
    .Doc("in to the power of a number: int_operand, float_operand or, with neither flag set, exponent.")
    .Elementwise<Pow, types::Numbers>(withNumber(2.5).Attributes(readExponent).Domain(0.2, 3));
REGISTER_USER_OP("scalar_reverse_pow")
    .With(byNumber<ReversePow, types::Floating>())
    .Doc("A number to the power of in.");

} // namespace
} // namespace opc::ops
