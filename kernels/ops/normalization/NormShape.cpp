// Checks and rules that the normalisations share.
// SPDX-License-Identifier: Apache-2.0
#include "normalization/NormShape.h"

namespace opc::ops::norm {

NormShape shapeAroundAxis(const KernelContext *ctx, const char *x) {
  const Shape &shape = ctx->Desc(x).shape();
  return NormShape::aroundAxis(shape, valueOf(axisOf<int32_t>(ctx, "axis", shape)));
}

Maybe<void> checkParameter(InferContext *ctx, const std::string &arg, const Shape &shape, const std::string &why) {
  if (!ctx->Has(arg)) return Maybe<void>::Ok();
  const TensorDesc &d = ctx->In(arg), &x = ctx->In("x");
  const DataType statistics = statisticsType(x.data_type());
  if (d.shape() != shape)
    return Error::ShapeMismatch() << arg << " is " << d.toString() << ", expected the shape " << shape.ToString()
                                  << ", " << why << "; x is " << x.toString();
  if (d.data_type() != x.data_type() && d.data_type() != statistics) {
    Error e = Error::TypeError().id("OPC0204") << arg << " is " << d.toString() << " and x is " << x.toString()
                                               << ": expected " << dataTypeName(x.data_type());
    if (statistics != x.data_type()) e << " or " << dataTypeName(statistics);
    return e;
  }
  return Maybe<void>::Ok();
}

Maybe<void> checkFloating(const std::string &arg, const TensorDesc &desc) {
  if (IsFloatingDataType(desc.data_type())) return Maybe<void>::Ok();
  return Error::TypeError().id("OPC0204").help("cast it to f32")
         << arg << " is " << desc.toString() << ", expected a floating type";
}

Maybe<void> checkLikeX(InferContext *ctx, const char *arg) {
  if (!ctx->Has(arg) || ctx->In(arg) == ctx->In("x")) return Maybe<void>::Ok();
  return Error::ShapeMismatch() << arg << " is " << ctx->In(arg).toString() << ", expected x's type, "
                                << ctx->In("x").toString();
}

Maybe<void> checkStatistics(InferContext *ctx, const Shape &shape, const std::string &why) {
  const TensorDesc expected(shape, statisticsType(ctx->In("x").data_type()));
  for (const char *s : {"mean", "inv_variance"}) JUST(expectIn(ctx, s, expected, ", one element for each " + why));
  return Maybe<void>::Ok();
}

Maybe<void> checkSwitch(InferContext *ctx, const std::string &attr, const std::string &arg) {
  const bool on = ctx->Attr<bool>(attr), given = ctx->Has(arg);
  if (on == given) return Maybe<void>::Ok();
  return Error::InvalidValueError().id("OPC0205").help(on ? "give " + arg + ", or set " + attr + ": false"
                                                          : "set " + attr + ": true")
         << attr << " is " << (on ? "true" : "false") << ", but " << arg << " is " << (given ? "given" : "not given");
}

Maybe<void> checkEpsilon(double epsilon) {
  if (epsilon >= 0) return Maybe<void>::Ok();
  return Error::InvalidValueError().id("OPC0205") << "epsilon is " << epsilon << ", expected 0 or more";
}

void setStatistics(InferContext *ctx, std::initializer_list<const char *> outputs, const Shape &shape) {
  const TensorDesc desc(shape, statisticsType(ctx->In("x").data_type()));
  for (const char *s : outputs)
    if (ctx->Has(s)) ctx->Out(s) = desc;
}

void halfTolerances(OpRegistry &op) { op.Tolerance(kFloat16, 5e-3, 5e-3).Tolerance(kBFloat16, 4e-2, 4e-2); }

Case &addStatistic(Case &c, const char *arg, const Shape &shape, double lo, double hi, bool half) {
  return half ? c.In(arg, kFloat, shape, lo, hi) : c.In(arg, shape, lo, hi);
}
std::vector<DataType> caseTypes(bool half) {
  if (half) return {kFloat16, kBFloat16};
  return {kFloat, kDouble};
}

} // namespace opc::ops::norm
