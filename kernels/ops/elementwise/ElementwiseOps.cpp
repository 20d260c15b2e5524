// Arguments of elementwise operators; the convention by which OneFlow's scalar_* operators carry one number.
// SPDX-License-Identifier: Apache-2.0
#include "elementwise/ElementwiseOps.h"

namespace opc::ops {

void xToY(OpRegistry &op) { op.Input("x").ArgAlias("in", "x").Output("y").ArgAlias("out", "y"); }
void inToOut(OpRegistry &op) { op.Input("in").ArgAlias("x", "in").Output("out").ArgAlias("y", "out"); }
void xyToZ(OpRegistry &op) { op.Input("x").Input("y").Output("z").ArgAlias("out", "z"); }
void byTensorToY(OpRegistry &op) { op.Input("x").Input("scalar").Output("y"); }
void inNumberToOut(OpRegistry &op) { op.With(inToOut).With(numberAttrs).SetCheckAttrFn(checkNumber); }

void numberAttrs(OpRegistry &op) {
  op.Attr<bool>("has_int_operand", false)
      .Attr<bool>("has_float_operand", false)
      .Attr<int64_t>("int_operand", 0)
      .Attr<double>("float_operand", 0);
}

Maybe<void> checkNumber(const UserOpDefWrapper &, const UserOpConfWrapper &conf) {
  const bool isInt = conf.attr<bool>("has_int_operand"), isFloat = conf.attr<bool>("has_float_operand");
  if (isInt != isFloat) return Maybe<void>::Ok();
  return (Error::InvalidValueError() << (isInt ? "has_int_operand and has_float_operand are both true"
                                               : "neither has_int_operand nor has_float_operand is true"))
      .help("set has_int_operand and int_operand, or has_float_operand and float_operand");
}

std::vector<scalar::ScalarValue> readNumber(const UserOpConfWrapper &conf, DataType) {
  if (conf.attr<bool>("has_int_operand")) return {scalar::ScalarValue(conf.attr<int64_t>("int_operand"))};
  return {scalar::ScalarValue(conf.attr<double>("float_operand"))};
}

ElementwiseOptions withNumber(double caseOperand) {
  return ElementwiseOptions()
      .Attributes(readNumber)
      .CaseAttr("has_float_operand", true)
      .CaseAttr("float_operand", caseOperand);
}

} // namespace opc::ops
