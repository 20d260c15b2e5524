// What the products of 8-bit integers share: operands, zero points and biases, checked and bound.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "IntegerProduct.h"
#include "opc/PackedInputs.h"
#include "support/Operator.h"
#include "support/SbpRules.h"

#include <algorithm>

namespace opc::ops {

inline bool isByte(DataType type) { return type == kUInt8 || type == kInt8; }

/// What finished sums can be.
inline bool isFinished(DataType type) { return isByte(type) || type == kFloat; }

inline Maybe<void> checkBytes(InferContext *ctx, const std::string &arg) {
  if (isByte(ctx->In(arg).data_type())) return Maybe<void>::Ok();
  return Error::TypeError().id("OPC0204").help("quantize_linear makes such tensors")
         << arg << " is " << ctx->In(arg).toString() << ", expected u8 or i8";
}

/// `arg`_zero_point, if given, has arg's type and is one number or one for each `what` of it.
inline Maybe<void> checkZeroPoints(InferContext *ctx, const std::string &arg, int64_t count, const char *what) {
  const std::string name = arg + "_zero_point";
  if (!ctx->Has(name)) return Maybe<void>::Ok();
  const TensorDesc zero = ctx->In(name), of = ctx->In(arg);
  if (zero.data_type() != of.data_type())
    return Error::TypeError().id("OPC0204").help("cast one of them")
           << arg << " is " << of.toString() << " and " << name << " is " << zero.toString()
           << ": their element types must be the same";
  if (zero.shape().NumAxes() > 1 || (zero.shape().elem_cnt() != 1 && zero.shape().elem_cnt() != count))
    return Error::ShapeMismatch() << name << " is " << zero.toString() << ", expected one number or a vector of "
                                  << count << ", one for each " << what;
  return Maybe<void>::Ok();
}

inline Maybe<void> checkIntegerBias(InferContext *ctx, int64_t count, const char *what) {
  if (!ctx->Has("bias") || ctx->In("bias") == TensorDesc(Shape{count}, kInt32)) return Maybe<void>::Ok();
  return Error::ShapeMismatch() << "bias is " << ctx->In("bias").toString() << ", expected i32[" << count
                                << "], one number for each " << what;
}

/// The term of an argument with one number, or one for each row, column or filter.
inline AxisFactors numberFactors(const SbpContext &ctx, const std::string &arg, const std::string &factor) {
  return {ctx.Has(arg) && ctx.In(arg).shape().NumAxes() == 1 ? factor : ".."};
}

/// scale is f32, zero_point of dtype; one number each or a vector with one for each of `count` `what`s.
inline Maybe<void> checkFinish(InferContext *ctx, int64_t count, const char *what) {
  const DataType type = ctx->Attr<DataType>("dtype");
  if (!isFinished(type))
    return Error::TypeError().id("OPC0204") << "dtype is " << dataTypeName(type) << ", expected u8, i8 or f32";
  for (const auto &[arg, of] : {std::pair{"scale", kFloat}, std::pair{"zero_point", type}}) {
    if (!ctx->Has(arg)) continue;
    const TensorDesc desc = ctx->In(arg);
    if (desc.data_type() != of)
      return Error::TypeError().id("OPC0204")
             << arg << " is " << desc.toString() << ", expected the element type " << dataTypeName(of);
    if (desc.shape().NumAxes() > 1 || (desc.shape().elem_cnt() != 1 && desc.shape().elem_cnt() != count))
      return Error::ShapeMismatch() << arg << " is " << desc.toString() << ", expected one number or a vector of "
                                    << count << ", one for each " << what;
  }
  if (type == kFloat && ctx->Has("zero_point"))
    return Error::InvalidValueError().id("OPC0205") << "dtype is f32, and real numbers have no zero_point";
  return Maybe<void>::Ok();
}

inline cpu::SumFinish finishOf(KernelBindContext *ctx) {
  cpu::SumFinish f;
  f.type = ctx->Attr<DataType>("dtype");
  f.relu = ctx->Attr<bool>("relu");
  f.scale = ctx->In("scale").dptr<float>();
  f.scales = ctx->In("scale").shape().elem_cnt();
  if (!ctx->Has("zero_point")) return f;
  f.zero = ctx->In("zero_point").raw_dptr();
  f.zeros = ctx->In("zero_point").shape().elem_cnt();
  return f;
}

inline cpu::Bytes bytesOf(KernelBindContext *ctx, const std::string &arg) {
  return {ctx->In(arg).raw_dptr(), ctx->In(arg).data_type() == kInt8};
}
inline cpu::ZeroPoints zeroPointsOf(KernelBindContext *ctx, const std::string &arg) {
  const std::string name = arg + "_zero_point";
  if (!ctx->Has(name)) return {};
  return {bytesOf(ctx, name), ctx->In(name).shape().elem_cnt()};
}

} // namespace opc::ops
