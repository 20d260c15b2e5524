// Checks that the rules of the normalisations share.
// SPDX-License-Identifier: Apache-2.0
#include "NormRules.h"

namespace opc::ops {

using user_op::InferContext;
using user_op::TensorDesc;

Maybe<void> checkParameter(InferContext *ctx, const std::string &arg, const Shape &shape, const std::string &why,
                           const std::string &input) {
  if (!ctx->has_input(arg, 0)) return Maybe<void>::Ok();
  const TensorDesc &d = ctx->InputTensorDesc(arg, 0), &x = ctx->InputTensorDesc(input, 0);
  if (d.shape() != shape)
    return Error::ShapeMismatch() << arg << " is " << d.toString() << ", expected the shape " << shape.ToString()
                                  << ", " << why << "; " << input << " is " << x.toString();
  if (d.data_type() != x.data_type() && d.data_type() != statisticsType(x.data_type())) {
    Error e = Error::TypeError().id("OPC0204") << arg << " is " << d.toString() << " and " << input << " is "
                                               << x.toString() << ": expected " << dataTypeName(x.data_type());
    if (statisticsType(x.data_type()) != x.data_type()) e << " or " << dataTypeName(statisticsType(x.data_type()));
    return e;
  }
  return Maybe<void>::Ok();
}

Maybe<void> checkFloating(const std::string &arg, const TensorDesc &desc) {
  if (IsFloatingDataType(desc.data_type())) return Maybe<void>::Ok();
  return Error::TypeError().id("OPC0204").help("cast it to f32")
         << arg << " is " << desc.toString() << ", expected a floating type";
}

Maybe<void> checkSwitch(InferContext *ctx, const std::string &attr, const std::string &arg) {
  const bool on = ctx->Attr<bool>(attr), given = ctx->has_input(arg, 0);
  if (on == given) return Maybe<void>::Ok();
  return Error::InvalidValueError().id("OPC0205").help(on ? "give " + arg + ", or set " + attr + ": false"
                                                          : "set " + attr + ": true")
         << attr << " is " << (on ? "true" : "false") << ", but " << arg << " is " << (given ? "given" : "not given");
}

Maybe<void> checkEpsilon(double epsilon) {
  if (epsilon >= 0) return Maybe<void>::Ok();
  return Error::InvalidValueError().id("OPC0205") << "epsilon is " << epsilon << ", expected 0 or more";
}

} // namespace opc::ops
