// Bitwise operations on integers and bool.
// SPDX-License-Identifier: Apache-2.0
#include "LogicScalars.h"
#include "elementwise/ElementwiseOps.h"

namespace opc::ops {
namespace {

using namespace opc::scalar;

using BitTypes = Join<types::Integers, types::Bool>;

template <class F> auto bits() {
  return [](OpRegistry &op) { op.With(binary<F, BitTypes>(domain(-9, 9))).NoGrad("integers have no gradient"); };
}
/// The number is an integer, too; beside truth values it is one of them.
std::vector<ScalarValue> readBits(const UserOpConfWrapper &conf, DataType type) {
  const std::vector<ScalarValue> number = readNumber(conf, type);
  return type == DataType::kBool ? std::vector<ScalarValue>{ScalarValue(int64_t{number[0].real != 0})} : number;
}
template <class F> auto bitsByNumber() {
  return [](OpRegistry &op) {
    const ElementwiseOptions options =
        domain(-9, 9).Attributes(readBits).CaseAttr("has_int_operand", true).CaseAttr("int_operand", int64_t{1});
    op.With(byNumber<F, BitTypes>(options)).NoGrad("integers have no gradient");
  };
}

REGISTER_USER_OP("broadcast_bitwise_and").With(bits<BitwiseAnd>()).Doc("Bitwise and with broadcasting.");
REGISTER_USER_OP("scalar_bitwise_and").With(bitsByNumber<BitwiseAnd>()).Doc("Bitwise and with a number.");
REGISTER_USER_OP("broadcast_bitwise_or").With(bits<BitwiseOr>()).Doc("Bitwise or with broadcasting.");
REGISTER_USER_OP("scalar_bitwise_or").With(bitsByNumber<BitwiseOr>()).Doc("Bitwise or with a number.");
REGISTER_USER_OP("broadcast_bitwise_xor").With(bits<BitwiseXor>()).Doc("Bitwise xor with broadcasting.");
REGISTER_USER_OP("scalar_bitwise_xor").With(bitsByNumber<BitwiseXor>()).Doc("Bitwise xor with a number.");

} // namespace
} // namespace opc::ops
