// The fragments of which elementwise operators are made: argument names, scalar operands, the function.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Elementwise.h"
#include "support/Operator.h"

namespace opc::ops {

namespace scalar = ::opc::scalar;

/// Inputs are uniform in [lo, hi) in the sample cases.
inline ElementwiseOptions domain(double lo, double hi) { return ElementwiseOptions().Domain(lo, hi); }
/// The tensors have one shape.
inline ElementwiseOptions sameShape() { return ElementwiseOptions().SameShape(); }

/// The attributes of a number beside the tensors: int_operand or float_operand, as has_int_operand or has_float_operand
/// says; it is converted to the tensors' type (f32 for f16 and bf16).
void numberAttrs(OpRegistry &op);
/// Exactly one of has_int_operand and has_float_operand is set.
Maybe<void> checkNumber(const UserOpDefWrapper &def, const UserOpConfWrapper &conf);
/// Reads int_operand or float_operand.
std::vector<scalar::ScalarValue> readNumber(const UserOpConfWrapper &conf, DataType type);
/// Options of ops with numberAttrs.
ElementwiseOptions withNumber(double caseOperand = 2);

/// `arguments`, then the function F; where it gives truth values there is no gradient.
template <class F, class Types, class Output>
std::function<void(OpRegistry &)> elementwiseOp(void (*arguments)(OpRegistry &), const ElementwiseOptions &options) {
  return [=](OpRegistry &op) {
    op.With(arguments).template Elementwise<F, Types, Output>(options);
    if (std::is_same_v<Output, output::Bool>) op.NoGrad("the result is a truth value");
  };
}

// The arguments, in OneFlow's names.
void xToY(OpRegistry &op);          // with in -> out as aliases: OneFlow spells some so in some versions
void inToOut(OpRegistry &op);       // with x -> y as aliases
void xyToZ(OpRegistry &op);         // with out as an alias
void byTensorToY(OpRegistry &op);   // x and a tensor of one element, scalar
void inNumberToOut(OpRegistry &op); // inToOut with a number, checked

/// Functions of one tensor. The numeric attributes that the definition has before are F's further parameters.
template <class F, class Types = types::Floating, class Output = output::Same>
auto unary(const ElementwiseOptions &options = {}) {
  return elementwiseOp<F, Types, Output>(xToY, options);
}
/// The same with the arguments in and out.
template <class F, class Types = types::Floating, class Output = output::Same>
auto unaryInOut(const ElementwiseOptions &options = {}) {
  return elementwiseOp<F, Types, Output>(inToOut, options);
}
/// Of two tensors.
template <class F, class Types = types::Numbers, class Output = output::Same>
auto binary(const ElementwiseOptions &options = {}) {
  return elementwiseOp<F, Types, Output>(xyToZ, options);
}
/// Of a tensor and a tensor of one element.
template <class F, class Types = types::Numbers, class Output = output::Same>
auto byTensor(const ElementwiseOptions &options = {}) {
  return elementwiseOp<F, Types, Output>(byTensorToY, options);
}
/// Of a tensor and a number.
template <class F, class Types = types::Numbers, class Output = output::Same>
auto byNumber(const ElementwiseOptions &options = withNumber()) {
  return elementwiseOp<F, Types, Output>(inNumberToOut, options);
}

/// Functions that give truth values, of all types.
template <class F> auto truth(const ElementwiseOptions &options) {
  return binary<F, types::Computed, output::Bool>(options);
}
template <class F> auto truthByNumber(const ElementwiseOptions &options = withNumber(1)) {
  return byNumber<F, types::Computed, output::Bool>(options);
}

} // namespace opc::ops
