// The fused attention and its gradient as ONNX: products and a softmax.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxEmitters.h"

#include <cmath>
#include <limits>

namespace opc::onnx_export {
namespace {

Wire swapped(Emission &e, const Wire &x) {
  std::vector<int64_t> perm;
  for (int64_t k = 0; k + 2 < x.rank(); ++k) perm.push_back(k);
  perm.insert(perm.end(), {x.rank() - 1, x.rank() - 2});
  return e.transpose(x, perm);
}

double scaleOf(Emission &e, const Wire &query) {
  const double scale = e.f("scale");
  return scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(query.dim(-1)));
}

/// Scores with the mask: minus infinity where a query does not look.
Wire scoresOf(Emission &e) {
  const Wire query = e.in("query"), key = e.in("key");
  Wire scores = e.scaled(e.matmul(query, swapped(e, key)), scaleOf(e, query));
  const Wire never = e.number(scores, -std::numeric_limits<double>::infinity());
  if (e.has("mask")) {
    const Wire mask = e.raw("mask");
    scores = mask.type == kBool ? e.select(mask, scores, never) : e.add(scores, e.in("mask"));
  }
  if (!e.b("causal")) return scores;
  std::vector<double> seen;
  for (int64_t q = 0; q < scores.dim(-2); ++q)
    for (int64_t k = 0; k < scores.dim(-1); ++k) seen.push_back(k <= q);
  return e.select(e.constant(kBool, Shape({scores.dim(-2), scores.dim(-1)}), seen), scores, never);
}

void convertAttention(Emission &e) {
  const Wire scores = scoresOf(e), value = e.in("value");
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
  const Wire scores = scoresOf(e), dout = e.in("dout"), query = e.in("query"), key = e.in("key");
  const auto perQuery = [&](const char *arg) {
    const Wire x = e.in(arg);
    std::vector<int64_t> dims(x.shape.begin(), x.shape.end());
    dims.push_back(1);
    return e.reshape(x, dims);
  };
  const Wire p = e.unary("Exp", e.sub(scores, perQuery("log_sum")));
  Wire along = e.reduce("ReduceSum", e.mul(dout, e.in("out")), {dout.rank() - 1});
  if (e.has("dlog_sum")) along = e.sub(along, perQuery("dlog_sum"));
  const Wire ds = e.mul(p, e.sub(e.matmul(dout, swapped(e, e.in("value"))), along));
  const double scale = scaleOf(e, query);
  e.out("dvalue", e.summedTo(e.matmul(swapped(e, p), dout), e.made("dvalue").shape()));
  e.out("dquery", e.summedTo(e.scaled(e.matmul(ds, key), scale), e.made("dquery").shape()));
  e.out("dkey", e.summedTo(e.scaled(e.matmul(swapped(e, ds), query), scale), e.made("dkey").shape()));
  if (e.wants("dscores")) e.out("dscores", e.summedTo(ds, e.made("dscores").shape()));
}

} // namespace

void addAttention(EmitterTable *t) {
  t->add("scaled_dot_product_attention", Types::kWide, convertAttention, "MatMul, ReduceMax, Exp, ReduceSum, Div");
  t->add("scaled_dot_product_attention_grad", Types::kWide, convertAttentionGrad, "MatMul, Exp, ReduceSum, Mul");
}

} // namespace opc::onnx_export
