// The convention by which OneFlow's scalar_* operators carry one number.
// SPDX-License-Identifier: Apache-2.0
#include "elementwise/ElementwiseOps.h"

namespace opc::user_op::elementwise {

Maybe<void> checkScalarOperand(const UserOpDefWrapper &, const UserOpConfWrapper &conf) {
  const bool isInt = conf.attr<bool>("has_int_operand"), isFloat = conf.attr<bool>("has_float_operand");
  if (isInt != isFloat) return Maybe<void>::Ok();
  return (Error::InvalidValueError() << (isInt ? "has_int_operand and has_float_operand are both true"
                                               : "neither has_int_operand nor has_float_operand is true"))
      .help("set has_int_operand and int_operand, or has_float_operand and float_operand");
}

std::vector<scalar::ScalarValue> scalarOperand(const UserOpConfWrapper &conf, DataType) {
  if (conf.attr<bool>("has_int_operand")) return {scalar::ScalarValue(conf.attr<int64_t>("int_operand"))};
  return {scalar::ScalarValue(conf.attr<double>("float_operand"))};
}

} // namespace opc::user_op::elementwise
