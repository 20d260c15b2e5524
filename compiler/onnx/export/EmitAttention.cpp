// The fused attention and its gradient as ONNX: products and a softmax.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxEmitters.h"

#include <cmath>
#include <limits>
#include <optional>

namespace opc::onnx_export {
namespace {

double scaleOf(Emission &e, const Wire &query) {
  const double scale = e.f("scale");
  return scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(query.dim(-1)));
}

/// Keys or values, each head as often as heads of queries share it; and sums over those that share one.
Wire perHead(Emission &e, const Wire &x, const Wire &query) {
  if (x.rank() == 2 || x.dim(-3) == query.dim(-3) || x.dim(-3) == 0) return x;
  std::vector<int64_t> column(x.shape.begin(), x.shape.end());
  column.insert(column.end() - 2, 1);
  DimVector each(column.begin(), column.end()), heads(x.shape.begin(), x.shape.end());
  each[each.size() - 3] = query.dim(-3) / x.dim(-3);
  heads[heads.size() - 3] = query.dim(-3);
  return e.reshape(e.expand(e.reshape(x, column), Shape(each)), Shape(heads));
}
Wire ofShared(Emission &e, const Wire &x, const Shape &shape) {
  if (x.shape == shape || shape.NumAxes() < 3 || shape.At(shape.NumAxes() - 3) == 0) return e.summedTo(x, shape);
  DimVector each(shape.begin(), shape.end());
  each.insert(each.end() - 2, x.dim(-3) / shape.At(shape.NumAxes() - 3));
  const Wire sums = e.reduce("ReduceSum", e.reshape(x, Shape(each)), {static_cast<int64_t>(each.size()) - 3});
  return e.reshape(sums, shape);
}

/// How far each key is from its query's place, and whether it counts; `lengths` is [..., 1, 1, 1] or unused.
Wire seenByPlace(Emission &e, int64_t queries, int64_t keys) {
  const int64_t left = e.i("window_left"), right = e.b("causal") ? 0 : e.i("window_right");
  const bool hasLengths = e.has("key_lengths");
  const int64_t given = e.i("offset"), offset = hasLengths ? -queries : given < 0 ? keys - queries : given;
  if (!hasLengths) {
    std::vector<double> seen;
    for (int64_t q = 0; q < queries; ++q)
      for (int64_t k = 0; k < keys; ++k) {
        const int64_t ahead = k - q - offset;
        seen.push_back(!(right >= 0 && ahead > right) && !(left >= 0 && -ahead > left));
      }
    return e.constant(kBool, Shape({queries, keys}), seen);
  }
  const Wire lengths = e.cast(e.raw("key_lengths"), kInt64);
  DimVector column(lengths.shape.begin(), lengths.shape.end());
  column.insert(column.end(), {1, 1, 1});
  const Wire ends = e.binary("Min", e.binary("Max", e.reshape(lengths, Shape(column)), e.integers({0}, Shape())),
                             e.integers({keys}, Shape()));
  std::vector<int64_t> ahead, places;
  for (int64_t q = 0; q < queries; ++q)
    for (int64_t k = 0; k < keys; ++k) ahead.push_back(k - q - offset);
  for (int64_t k = 0; k < keys; ++k) places.push_back(k);
  Wire seen = e.test("Less", e.integers(places), ends);
  const Wire from = e.sub(e.integers(ahead, Shape({queries, keys})), ends);
  const auto both = [&](const Wire &more) { seen = e.node("And", {seen, more}, {}, kBool, more.shape); };
  if (right >= 0) both(e.test("LessOrEqual", from, e.integers({right}, Shape())));
  if (left >= 0) both(e.test("GreaterOrEqual", from, e.integers({-left}, Shape())));
  return seen;
}

struct EmittedScores {
  Wire masked;               // minus infinity where a query does not look
  std::optional<Wire> slope; // of a cap
};

EmittedScores scoresOf(Emission &e) {
  EmittedScores made;
  const Wire query = e.in("query"), key = perHead(e, e.in("key"), query);
  Wire scores = e.scaled(e.matmul(query, e.swapped(key)), scaleOf(e, query));
  if (const double cap = e.f("softcap"); cap > 0) {
    const Wire t = e.unary("Tanh", e.scaled(scores, 1 / cap));
    scores = e.scaled(t, cap);
    made.slope = e.sub(e.number(t, 1), e.mul(t, t));
  }
  const Wire never = e.number(scores, -std::numeric_limits<double>::infinity());
  if (e.has("mask")) {
    const Wire mask = e.raw("mask");
    scores = mask.type == kBool ? e.select(mask, scores, never) : e.add(scores, e.in("mask"));
  }
  if (e.b("causal") || e.has("key_lengths") || e.i("window_left") >= 0 || e.i("window_right") >= 0)
    scores = e.select(seenByPlace(e, scores.dim(-2), scores.dim(-1)), scores, never);
  made.masked = scores;
  return made;
}

void convertAttention(Emission &e) {
  const Wire scores = scoresOf(e).masked, value = perHead(e, e.in("value"), e.in("query"));
  const int64_t last = scores.rank() - 1;
  // A query that looks nowhere has only minus infinity: its row is 0.
  const Wire top = e.reduce("ReduceMax", scores, {last});
  const Wire finite = e.select(e.node("IsInf", {top}, {}, kBool, top.shape), e.number(top, 0), top);
  const Wire powers = e.unary("Exp", e.sub(scores, finite)), sum = e.reduce("ReduceSum", powers, {last});
  const Wire safe = e.select(e.test("Equal", sum, e.number(sum, 0)), e.number(sum, 1), sum);
  e.out("out", e.matmul(e.div(powers, safe), value));
  if (e.wants("log_sum")) e.out("log_sum", e.reshape(e.add(e.unary("Log", sum), finite), e.made("log_sum").shape()));
}

void convertAttentionGrad(Emission &e) {
  const auto [scores, slope] = scoresOf(e);
  const Wire dout = e.in("dout"), query = e.in("query"), key = perHead(e, e.in("key"), query),
             value = perHead(e, e.in("value"), query);
  const auto perQuery = [&](const char *arg) {
    const Wire x = e.in(arg);
    std::vector<int64_t> dims(x.shape.begin(), x.shape.end());
    dims.push_back(1);
    return e.reshape(x, dims);
  };
  const Wire p = e.unary("Exp", e.sub(scores, perQuery("log_sum")));
  Wire along = e.reduce("ReduceSum", e.mul(dout, e.in("out")), {dout.rank() - 1});
  if (e.has("dlog_sum")) along = e.sub(along, perQuery("dlog_sum"));
  const Wire ds = e.mul(p, e.sub(e.matmul(dout, e.swapped(value)), along)), sloped = slope ? e.mul(ds, *slope) : ds;
  const double scale = scaleOf(e, query);
  e.out("dvalue", ofShared(e, e.matmul(e.swapped(p), dout), e.made("dvalue").shape()));
  e.out("dquery", e.summedTo(e.scaled(e.matmul(sloped, key), scale), e.made("dquery").shape()));
  e.out("dkey", ofShared(e, e.scaled(e.matmul(e.swapped(sloped), query), scale), e.made("dkey").shape()));
  if (e.wants("dscores")) e.out("dscores", e.summedTo(ds, e.made("dscores").shape()));
}

} // namespace

void addAttention(EmitterTable *t) {
  t->add("scaled_dot_product_attention", Types::kWide, convertAttention, "MatMul, ReduceMax, Exp, ReduceSum, Div");
  t->add("scaled_dot_product_attention_grad", Types::kWide, convertAttentionGrad, "MatMul, Exp, ReduceSum, Mul");
}

} // namespace opc::onnx_export
