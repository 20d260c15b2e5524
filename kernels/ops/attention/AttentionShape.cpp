// Checks and definition of attention.
// SPDX-License-Identifier: Apache-2.0
#include "attention/AttentionShape.h"
#include "support/SbpRules.h"

#include <cmath>

namespace opc::ops {

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

Maybe<AttentionShape> shapeOf(const OpContext &ctx, const TensorDesc &query, const TensorDesc &key,
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
  a.causal = ctx.Attr<bool>("causal");
  a.scale = ctx.Attr<double>("scale");
  if (!std::isfinite(a.scale)) return Error("OPC0205") << "scale is " << a.scale;
  if (a.scale == 0) a.scale = 1 / std::sqrt(static_cast<double>(std::max<int64_t>(1, a.d)));
  if (mask) JUST(placeMask(*mask, query, &a));
  return a;
}

/// The leading dimensions split, everything that has them alike.
ShardingRule shardingOf(const SbpContext &ctx, bool forward) {
  const int64_t rank = ctx.In("query").shape().NumAxes();
  const AxisFactors whole = axisFactors(rank, {rank - 2, rank - 1}), rows(whole.begin(), whole.end() - 1);
  AxisFactors mask;
  if (ctx.Has("mask")) mask.assign(whole.end() - ctx.In("mask").shape().NumAxes(), whole.end());
  if (forward) return shardingRule({whole, whole, whole, mask}, {whole, rows});
  return shardingRule({whole, whole, whole, mask, whole, rows, whole, rows}, {whole, whole, whole, whole});
}

} // namespace

Maybe<AttentionShape> attentionShape(const InferContext *ctx) {
  return shapeOf(*ctx, ctx->In("query"), ctx->In("key"), ctx->In("value"),
                 ctx->Has("mask") ? &ctx->In("mask") : nullptr);
}
AttentionShape attentionShape(const KernelContext *ctx) {
  return valueOf(shapeOf(*ctx, ctx->Desc("query"), ctx->Desc("key"), ctx->Desc("value"),
                         ctx->Has("mask") ? &ctx->Desc("mask") : nullptr));
}

void attentionInputs(OpRegistry &op) { op.Input("query").Input("key").Input("value").OptionalInput("mask"); }

std::function<void(OpRegistry &)> attentionRules(bool forward) {
  return [=](OpRegistry &op) {
    op.Attr<bool>("causal", false)
        .Attr<double>("scale", 0.0)
        .Sharding([=](const SbpContext &ctx) -> Maybe<ShardingRule> { return shardingOf(ctx, forward); })
        .SetComputeComplexityFn([=](InferContext *ctx) -> Maybe<double> {
          const AttentionShape a = JUST(attentionShape(ctx));
          // Backward the scores again, and the products for the gradients of query, key, value and probabilities.
          const int64_t width = forward ? a.d + a.dv : 3 * a.d + 2 * a.dv;
          return 2.0 * static_cast<double>(a.heads * a.n) * static_cast<double>(a.m) * static_cast<double>(width) *
                 (a.causal ? 0.5 : 1.0);
        })
        .Tolerance(kFloat, 2e-5, 1e-5)
        .Tolerance(kFloat16, 5e-3, 5e-3)
        .Tolerance(kBFloat16, 4e-2, 4e-2);
  };
}

} // namespace opc::ops
