// Checks of attention.
// SPDX-License-Identifier: Apache-2.0
#include "AttentionShape.h"

#include <cmath>

namespace opc::ops {

using user_op::TensorDesc;

namespace {

DimVector leadOf(const Shape &s) { return DimVector(s.begin(), s.end() - 2); }

Maybe<void> placeMask(const TensorDesc &mask, const TensorDesc &query, AttentionShape *a) {
  if (mask.data_type() != kBool && mask.data_type() != query.data_type())
    return Error::TypeError().id("OPC0204")
           << "mask is " << mask.toString() << ", expected bool or query's " << dataTypeName(query.data_type());
  DimVector full = leadOf(query.shape());
  full.push_back(a->n);
  full.push_back(a->m);
  const Shape &s = mask.shape();
  const int64_t rank = static_cast<int64_t>(full.size()), lead = rank - s.NumAxes();
  bool fits = lead >= 0;
  for (int64_t i = 0; fits && i < s.NumAxes(); ++i)
    fits = s.At(i) == 1 || s.At(i) == full[static_cast<size_t>(lead + i)];
  if (!fits)
    return Error::ShapeMismatch() << "mask is " << mask.toString() << ", which does not broadcast to the scores' "
                                  << Shape(full).ToString();
  std::vector<int64_t> strides(full.size(), 0);
  int64_t step = 1;
  for (int64_t i = s.NumAxes() - 1; i >= 0; --i) {
    if (s.At(i) != 1) strides[static_cast<size_t>(lead + i)] = step;
    step *= s.At(i);
  }
  a->maskRow = strides[full.size() - 2];
  a->maskColumn = strides[full.size() - 1];
  a->maskOffset.assign(static_cast<size_t>(a->heads), 0);
  for (int64_t h = 0; h < a->heads; ++h) {
    int64_t rest = h;
    for (size_t i = full.size() - 2; i-- > 0;) {
      a->maskOffset[static_cast<size_t>(h)] += rest % full[i] * strides[i];
      rest /= full[i];
    }
  }
  return Maybe<void>::Ok();
}

} // namespace

Maybe<AttentionShape> attentionShape(const user_op::OpContext *ctx, const TensorDesc &query, const TensorDesc &key,
                                     const TensorDesc &value, const TensorDesc *mask) {
  if (!IsFloatingDataType(query.data_type()))
    return Error::TypeError().id("OPC0204").help("cast it to f32")
           << "query is " << query.toString() << ", expected a floating type";
  const int64_t rank = query.shape().NumAxes();
  const auto all = [&] {
    return "query is " + query.toString() + ", key is " + key.toString() + ", value is " + value.toString();
  };
  if (key.data_type() != query.data_type() || value.data_type() != query.data_type())
    return Error::TypeError().id("OPC0204").help("cast them to one type") << all() << ": their element types differ";
  if (rank < 2 || key.shape().NumAxes() != rank || value.shape().NumAxes() != rank ||
      leadOf(key.shape()) != leadOf(query.shape()) || leadOf(value.shape()) != leadOf(query.shape()) ||
      key.shape().At(rank - 1) != query.shape().At(rank - 1) || value.shape().At(rank - 2) != key.shape().At(rank - 2))
    return Error::ShapeMismatch().help(
               "query is [..., n, d], key [..., m, d] and value [..., m, dv], with equal leading dimensions; expand "
               "repeats shared keys")
           << all();
  AttentionShape a;
  a.heads = query.shape().Count(0, rank - 2);
  a.n = query.shape().At(rank - 2);
  a.d = query.shape().At(rank - 1);
  a.m = key.shape().At(rank - 2);
  a.dv = value.shape().At(rank - 1);
  a.causal = ctx->Attr<bool>("causal");
  a.scale = ctx->Attr<double>("scale");
  if (!std::isfinite(a.scale)) return Error("OPC0205") << "scale is " << a.scale;
  if (a.scale == 0) a.scale = 1 / std::sqrt(static_cast<double>(std::max<int64_t>(1, a.d)));
  if (mask) JUST(placeMask(*mask, query, &a));
  return a;
}

Maybe<AttentionShape> attentionShape(user_op::InferContext *ctx) {
  const bool masked = ctx->has_input("mask", 0);
  return attentionShape(ctx, ctx->InputTensorDesc("query", 0), ctx->InputTensorDesc("key", 0),
                        ctx->InputTensorDesc("value", 0), masked ? &ctx->InputTensorDesc("mask", 0) : nullptr);
}

Maybe<void> attentionSbp(user_op::SbpContext *ctx) {
  const Shape &query = ctx->LogicalTensorDesc4InputArgNameAndIndex("query", 0).shape();
  const int64_t rank = query.NumAxes();
  for (int64_t axis = 0; axis < rank - 2; ++axis) {
    auto b = ctx->NewBuilder();
    for (const auto &[arg, i] : ctx->inputs()) {
      const Shape &s = ctx->LogicalTensorDesc4InputArgNameAndIndex(arg, i).shape();
      const int64_t own = axis - (arg == "mask" ? rank - s.NumAxes() : 0);
      if (own < 0 || (arg == "mask" && s.At(own) == 1 && query.At(axis) != 1))
        b.Broadcast(user_op::OpArg(std::string(arg), i));
      else
        b.Split(user_op::OpArg(std::string(arg), i), own);
    }
    b.Split(ctx->outputs(), axis).Build();
  }
  return Maybe<void>::Ok();
}

} // namespace opc::ops
