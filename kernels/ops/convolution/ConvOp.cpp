// Attributes and checks of the convolution operators.
// SPDX-License-Identifier: Apache-2.0
#include "ConvOp.h"

namespace opc::ops {

void convArgs(OpRegistry &op) {
  op.Attr<Ints>("padding_before", {})
      .Attr<std::string>("data_format", "channels_first")
      .Attr<Ints>("kernel_size", {})
      .Attr<Ints>("strides", {})
      .Attr<Ints>("dilation_rate", {})
      .Attr<int32_t>("groups", 1);
}

void filteringArg(OpRegistry &op) { op.Attr<bool>("winograd", false); }

ComputeComplexityFn convOperations(const char *arg, const char *weight) {
  return [=](InferContext *ctx) -> Maybe<double> {
    return 2.0 * static_cast<double>(ctx->In(arg).shape().elem_cnt()) *
           static_cast<double>(ctx->In(weight).shape().Count(1));
  };
}

Maybe<void> checkTypes(InferContext *ctx, const std::vector<std::string> &args) {
  const TensorDesc first = ctx->In(args[0]);
  if (!IsFloatingDataType(first.data_type()))
    return Error::TypeError().id("OPC0204").help("cast it to f32")
           << args[0] << " is " << first.toString() << ", expected a floating type";
  for (const std::string &arg : args)
    if (ctx->Has(arg) && ctx->In(arg).data_type() != first.data_type())
      return Error::TypeError().id("OPC0204").help("cast one of them")
             << args[0] << " is " << first.toString() << " and " << arg << " is " << ctx->In(arg).toString()
             << ": their element types must be the same";
  return Maybe<void>::Ok();
}

Maybe<void> checkFilterVector(InferContext *ctx, const std::string &arg, const ConvGeometry &g) {
  if (ctx->Has(arg) && ctx->In(arg).shape() != Shape{g.filters})
    return Error::ShapeMismatch() << arg << " is " << ctx->In(arg).toString()
                                  << ", expected one element for each of the " << g.filters << " filters";
  return Maybe<void>::Ok();
}

Maybe<void> checkAddend(InferContext *ctx, const TensorDesc &out) {
  if (ctx->Has("_add_to_output") && ctx->In("_add_to_output") != out)
    return Error::ShapeMismatch() << "_add_to_output is " << ctx->In("_add_to_output").toString()
                                  << ", the convolution gives " << out.toString();
  return Maybe<void>::Ok();
}

Maybe<int> numSpatialDims(InferContext *ctx) {
  const int32_t n = ctx->Attr<int32_t>("num_spatial_dims");
  if (n >= 1 && n <= 3) return static_cast<int>(n);
  return Error::InvalidValueError().id("OPC0205") << "num_spatial_dims is " << n << ", expected 1, 2 or 3";
}

} // namespace opc::ops
