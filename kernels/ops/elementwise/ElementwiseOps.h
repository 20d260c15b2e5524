// The declarations that families of elementwise operators share: argument names, scalar operands.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Elementwise.h"

/// x -> y. OneFlow spells the arguments of some of these in -> out, in some versions: both are taken.
#define OPC_UNARY_OP(name) REGISTER_USER_OP(name).Input("x").ArgAlias("in", "x").Output("y").ArgAlias("out", "y")
/// in -> out, with x -> y as aliases.
#define OPC_UNARY_IN_OUT_OP(name)                                                                                      \
  REGISTER_USER_OP(name).Input("in").ArgAlias("x", "in").Output("out").ArgAlias("y", "out")
/// x, y -> z.
#define OPC_BINARY_OP(name) REGISTER_USER_OP(name).Input("x").Input("y").Output("z").ArgAlias("out", "z")
/// in and a number -> out. The number is int_operand or float_operand, as has_int_operand or has_float_operand says; it
/// is converted to the tensor's type (f32 for f16 and bf16).
#define OPC_SCALAR_OPERAND_OP(name)                                                                                    \
  REGISTER_USER_OP(name)                                                                                               \
      .Input("in")                                                                                                     \
      .ArgAlias("x", "in")                                                                                             \
      .Output("out")                                                                                                   \
      .ArgAlias("y", "out")                                                                                            \
      .Attr<bool>("has_int_operand", false)                                                                            \
      .Attr<bool>("has_float_operand", false)                                                                          \
      .Attr<int64_t>("int_operand", 0)                                                                                 \
      .Attr<double>("float_operand", 0)

namespace opc::user_op::elementwise {

/// Checks that exactly one of has_int_operand and has_float_operand is set.
Maybe<void> checkScalarOperand(const UserOpDefWrapper &def, const UserOpConfWrapper &conf);
/// Reads int_operand or float_operand.
std::vector<scalar::ScalarValue> scalarOperand(const UserOpConfWrapper &conf, DataType type);

/// Options of ops made with OPC_SCALAR_OPERAND_OP.
inline ElementwiseOptions withOperand(double caseOperand = 2) {
  return ElementwiseOptions()
      .Attributes(scalarOperand)
      .CaseAttr("has_float_operand", true)
      .CaseAttr("float_operand", caseOperand);
}

} // namespace opc::user_op::elementwise

namespace opc {
using user_op::ElementwiseOptions;
using user_op::elementwise::withOperand;
namespace output = user_op::output;
} // namespace opc
