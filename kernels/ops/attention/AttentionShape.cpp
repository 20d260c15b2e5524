// Checks and definition of attention.
// SPDX-License-Identifier: Apache-2.0
#include "attention/AttentionShape.h"
#include "support/SbpRules.h"

#include <cfloat>
#include <cmath>
#include <limits>

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

/// key and value have query's leading dimensions, or fewer heads (the last of them).
bool fitsHeads(const Shape &query, const Shape &shared) {
  if (shared.NumAxes() != query.NumAxes()) return false;
  DimVector have = leadOf(shared), want = leadOf(query);
  if (have == want) return true;
  const int64_t heads = have.back(), all = want.back();
  have.pop_back(), want.pop_back();
  return have == want && heads > 0 && all % heads == 0;
}

Maybe<int64_t> distance(const OpContext &ctx, const char *name, const char *ofMinusOne) {
  const int64_t n = ctx.Attr<int64_t>(name);
  if (n < -1 || n > INT32_MAX)
    return (Error("OPC0205") << name << " is " << n << ", expected a number of keys up to " << INT32_MAX)
        .help(std::string("-1 means ") + ofMinusOne);
  return n;
}

Maybe<void> placeQueries(const OpContext &ctx, const TensorDesc &query, const TensorDesc *lengths, AttentionShape *a) {
  a->offset = JUST(distance(ctx, "offset", "that the last query stands at the last key"));
  if (a->offset < 0) a->offset = a->m - a->n;
  a->left = JUST(distance(ctx, "window_left", "all keys before"));
  a->right = JUST(distance(ctx, "window_right", "all keys behind"));
  if (ctx.Attr<bool>("causal")) a->right = 0;
  if (!lengths) return Maybe<void>::Ok();
  if (lengths->data_type() != kInt32 && lengths->data_type() != kInt64)
    return Error::TypeError().id("OPC0204").help("cast it to i32 or i64")
           << "key_lengths is " << lengths->toString() << ", expected i32 or i64";
  DimVector want = leadOf(query.shape());
  if (want.empty())
    return Error::ShapeMismatch().help("give query, key and value an axis of heads: [1, n, d]")
           << "key_lengths is " << lengths->toString() << ", and query " << query.toString() << " has no heads";
  a->sequenceHeads = std::max<int64_t>(1, want.back());
  want.pop_back();
  if (lengths->shape() != Shape(want))
    return Error::ShapeMismatch().help(
               "key_lengths has a number for each sequence: query's dimensions before its heads")
           << "key_lengths is " << lengths->toString() << ", expected " << Shape(want).ToString() << " for query "
           << query.toString();
  if (ctx.Attr<int64_t>("offset") != 0)
    return (Error("OPC0205") << "offset is " << ctx.Attr<int64_t>("offset") << " beside key_lengths")
        .help("leave offset out: with key_lengths the last query stands at the last key that counts");
  return Maybe<void>::Ok();
}

Maybe<AttentionShape> shapeOf(const OpContext &ctx, const TensorDesc &query, const TensorDesc &key,
                              const TensorDesc &value, const TensorDesc *mask, const TensorDesc *lengths) {
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
      !fitsHeads(query.shape(), key.shape()) || leadOf(key.shape()) != leadOf(value.shape()) ||
      key.shape().At(rank - 1) != query.shape().At(rank - 1) || value.shape().At(rank - 2) != key.shape().At(rank - 2))
    return Error::ShapeMismatch().help(
               "query is [..., heads, n, d], key [..., heads, m, d] and value [..., heads, m, dv], with equal leading "
               "dimensions; of the heads keys and values may have a divisor of the queries'")
           << all();
  AttentionShape a;
  a.heads = query.shape().Count(0, rank - 2);
  if (rank > 2 && key.shape().At(rank - 3) > 0) a.perKey = query.shape().At(rank - 3) / key.shape().At(rank - 3);
  a.perKey = std::max<int64_t>(1, a.perKey);
  a.n = query.shape().At(rank - 2);
  a.d = query.shape().At(rank - 1);
  a.m = key.shape().At(rank - 2);
  a.dv = value.shape().At(rank - 1);
  a.scale = ctx.Attr<double>("scale");
  // Scores are computed in f32, but for f64.
  const double most = query.data_type() == kDouble ? std::numeric_limits<double>::max() : FLT_MAX;
  if (!(std::abs(a.scale) <= most)) return Error("OPC0205") << "scale is " << a.scale << ", expected at most " << most;
  if (a.scale == 0) a.scale = 1 / std::sqrt(static_cast<double>(std::max<int64_t>(1, a.d)));
  a.softcap = ctx.Attr<double>("softcap");
  if (!(a.softcap >= 0) || a.softcap > most)
    return (Error("OPC0205") << "softcap is " << a.softcap << ", expected a number that is not negative, and at most "
                             << most)
        .help("0 means that scores are not capped");
  JUST(placeQueries(ctx, query, lengths, &a));
  if (mask) JUST(placeMask(*mask, query, &a));
  return a;
}

/// The leading dimensions split, everything that has them alike; not heads that share keys: a piece of the queries'
/// would not be beside its piece of the keys'.
ShardingRule shardingOf(const SbpContext &ctx, bool forward) {
  const int64_t rank = ctx.In("query").shape().NumAxes();
  AxisFactors whole = axisFactors(rank, {rank - 2, rank - 1});
  if (ctx.In("key").shape() != ctx.In("query").shape() && rank > 2 &&
      ctx.In("key").shape().At(rank - 3) != ctx.In("query").shape().At(rank - 3))
    whole[static_cast<size_t>(rank - 3)] = ".";
  const AxisFactors rows(whole.begin(), whole.end() - 1);
  AxisFactors mask, lengths;
  if (ctx.Has("mask")) mask.assign(whole.end() - ctx.In("mask").shape().NumAxes(), whole.end());
  if (ctx.Has("key_lengths")) lengths.assign(whole.begin(), whole.end() - 3);
  std::vector<AxisFactors> inputs{whole, whole, whole, mask, lengths};
  if (forward) return shardingRule(inputs, {whole, rows});
  inputs.insert(inputs.end(), {whole, rows, whole, rows});
  return shardingRule(inputs, {whole, whole, whole, whole});
}

/// The scores that are computed: of a window its own, half of what is before a causal edge.
double scoresOf(const AttentionShape &a) {
  const double n = static_cast<double>(a.n), m = static_cast<double>(a.m);
  double perQuery = m;
  if (a.right >= 0 && a.left >= 0) // a window
    perQuery = std::min(m, static_cast<double>(a.left) + static_cast<double>(a.right) + 1);
  else if (a.right == 0 && a.offset == 0 && !a.hasLengths())
    perQuery = 0.5 * m;
  return static_cast<double>(a.heads) * n * perQuery;
}

} // namespace

Maybe<AttentionShape> attentionShape(const InferContext *ctx) {
  return shapeOf(*ctx, ctx->In("query"), ctx->In("key"), ctx->In("value"),
                 ctx->Has("mask") ? &ctx->In("mask") : nullptr,
                 ctx->Has("key_lengths") ? &ctx->In("key_lengths") : nullptr);
}
AttentionShape attentionShape(const KernelContext *ctx) {
  return valueOf(shapeOf(*ctx, ctx->Desc("query"), ctx->Desc("key"), ctx->Desc("value"),
                         ctx->Has("mask") ? &ctx->Desc("mask") : nullptr,
                         ctx->Has("key_lengths") ? &ctx->Desc("key_lengths") : nullptr));
}

void attentionInputs(OpRegistry &op) {
  op.Input("query").Input("key").Input("value").OptionalInput("mask").OptionalInput("key_lengths");
}

std::function<void(OpRegistry &)> attentionRules(bool forward) {
  return [=](OpRegistry &op) {
    op.Attr<bool>("causal", false)
        .Attr<double>("scale", 0.0)
        .Attr<double>("softcap", 0.0)
        .Attr<int64_t>("offset", 0)
        .Attr<int64_t>("window_left", -1)
        .Attr<int64_t>("window_right", -1)
        .Sharding([=](const SbpContext &ctx) -> Maybe<ShardingRule> { return shardingOf(ctx, forward); })
        .SetComputeComplexityFn([=](InferContext *ctx) -> Maybe<double> {
          const AttentionShape a = JUST(attentionShape(ctx));
          // Backward the scores again, and the products for the gradients of query, key, value and probabilities.
          const int64_t width = forward ? a.d + a.dv : 3 * a.d + 2 * a.dv;
          return 2.0 * scoresOf(a) * static_cast<double>(width);
        })
        .Tolerance(kFloat, 2e-5, 1e-5)
        .Tolerance(kFloat16, 5e-3, 5e-3)
        .Tolerance(kBFloat16, 4e-2, 4e-2);
  };
}

} // namespace opc::ops
