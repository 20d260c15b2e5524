// Scales, zero points and their checks.
// SPDX-License-Identifier: Apache-2.0
#include "Quantized.h"

#include "opc/Dispatch.h"

namespace opc::ops {
namespace {

Maybe<int64_t> axisOf(int32_t axis, const Shape &shape) {
  const int64_t rank = shape.NumAxes(), at = axis < 0 ? axis + rank : axis;
  if (at < 0 || at >= rank)
    return Error::InvalidValueError().id("OPC0205")
           << "axis " << axis << " is outside in, which has " << rank << " dimensions";
  return at;
}

/// "u8, s8": the types by name.
std::string quantizedNames() {
  std::string names;
  for (DataType t : dataTypes<QuantizedTypes>()) names += (names.empty() ? "" : ", ") + std::string(dataTypeName(t));
  return names;
}

} // namespace

void quantizationArgs(OpRegistry &op) { op.OptionalInput("zero_point").Attr<int32_t>("axis", 1); }

Maybe<void> checkQuantizedType(const std::string &arg, const TensorDesc &desc) {
  if (contains<QuantizedTypes>(desc.data_type())) return Maybe<void>::Ok();
  return Error::TypeError().id("OPC0204")
         << arg << " is " << desc.toString() << ", expected one of the types " << quantizedNames();
}

Maybe<void> checkAlongAxis(InferContext *ctx, const std::string &arg, const Shape &shape) {
  if (!ctx->Has(arg)) return Maybe<void>::Ok();
  const TensorDesc desc = ctx->In(arg);
  if (desc.shape().elem_cnt() == 1 && desc.shape().NumAxes() <= 1) return Maybe<void>::Ok();
  const int64_t axis = JUST(axisOf(ctx->Attr<int32_t>("axis"), shape));
  if (desc.shape() == Shape{shape.At(axis)}) return Maybe<void>::Ok();
  return Error::ShapeMismatch() << arg << " is " << desc.toString() << ", expected one number or a vector of "
                                << shape.At(axis) << ", one for each element of dimension " << axis;
}

ScaleRuns::ScaleRuns(const Shape &shape, const Shape &scale, int32_t axis) {
  scales = scale.elem_cnt();
  if (scales == 1) {
    length = shape.elem_cnt();
    return;
  }
  const int64_t at = axis < 0 ? axis + shape.NumAxes() : axis;
  runs = shape.Count(0, at + 1);
  length = shape.Count(at + 1);
}

Maybe<ShardingRule> quantizationSharding(const SbpContext &ctx) {
  const Shape &shape = ctx.In("in").shape();
  const AxisFactors factors = axisFactors(shape.NumAxes());
  std::vector<AxisFactors> inputs = {factors};
  for (const auto &[arg, index] : ctx.inputs()) {
    if (inputs.size() == 1 && arg == ctx.inputs()[0].first) continue; // in itself
    const Shape &own = ctx.In(arg).shape();
    AxisFactors term;
    if (own.NumAxes() == 1) {
      const int32_t axis = ctx.Attr<int32_t>("axis");
      const auto at = static_cast<size_t>(axis < 0 ? axis + shape.NumAxes() : axis);
      term.push_back(own.elem_cnt() == 1 ? "." : factors.at(at));
    }
    inputs.push_back(term);
  }
  return shardingRule(inputs, {factors});
}

int32_t zeroPointAt(const Tensor *zero, int64_t i) {
  if (!zero) return 0;
  int32_t value = 0;
  visit<QuantizedTypes>(zero->data_type(), [&](auto tag) {
    using Z = typename decltype(tag)::type;
    value = static_cast<int32_t>(zero->dptr<Z>()[zero->shape().elem_cnt() == 1 ? 0 : i]);
  });
  return value;
}

} // namespace opc::ops
