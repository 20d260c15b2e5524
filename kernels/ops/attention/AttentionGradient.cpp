// scaled_dot_product_attention_grad: probabilities computed again, block by block; the gradient rule of the forward op.
// SPDX-License-Identifier: Apache-2.0
#include "attention/AttentionScores.h"
#include "support/GradientSteps.h"

namespace opc::ops {
namespace {

using namespace opc::cpu;

Maybe<void> infer(InferContext *ctx) {
  const AttentionShape a = JUST(attentionShape(ctx));
  const TensorDesc query = ctx->In("query"), sums = sumsOf(query), out = rowsLike(query, a.dv);
  for (const auto &[arg, want] : {std::pair{"out", out}, {"dout", out}, {"log_sum", sums}, {"dlog_sum", sums}})
    JUST(expectIn(ctx, arg, want));
  for (const char *arg : {"query", "key", "value"}) {
    const TensorDesc in = ctx->In(arg);
    ctx->Out(std::string("d") + arg) = in;
  }
  if (ctx->Has("dscores")) ctx->Out("dscores") = rowsLike(query, a.m);
  return Maybe<void>::Ok();
}

/// The statistics of a case are whatever is drawn: the op is a function of them.
Case gradCase(const char *name, Shape query, Shape key, Shape value, bool half) {
  Shape out = query, sums(DimVector(query.begin(), query.end() - 1));
  out.Set(out.NumAxes() - 1, value.At(value.NumAxes() - 1));
  Case c(name);
  c.In("query", query).In("key", key).In("value", value).In("out", out).In("dout", out);
  if (half)
    c.In("log_sum", kFloat, sums, 1, 2).Types({kFloat16, kBFloat16});
  else
    c.In("log_sum", sums, 1, 2).Types({kFloat, kDouble});
  return c;
}

template <class T> class AttentionGradKernel final : public StagedKernel<T> {
public:
  std::unique_ptr<BoundKernel> BindStaged(KernelBindContext *ctx, StagedTensors<T> &staged) const override {
    const Attention<T> a(ctx, staged);
    const T *out = staged.in("out"), *logSum = staged.in("log_sum"), *dout = staged.in("dout"),
            *dlogSum = staged.in("dlog_sum");
    T *dquery = staged.out("dquery"), *dkey = staged.out("dkey"), *dvalue = staged.out("dvalue"),
      *dscores = staged.out("dscores");
    auto blocks = a.blocks(a.m, [&](QueryBlock b) {
      const int64_t many = b.rows, keys = b.keys, block = many * keys;
      const int64_t q = a.n * a.d, k = a.m * a.d, v = a.m * a.dv, o = a.n * a.dv;
      return Block{b, a.scoreProduct(b),
                   // dprob = dout value^T; dvalue += prob^T dout; dquery = scale S key; dkey += scale S^T query
                   a.product({many, keys, a.dv, false, true, 1, false}, o, v, block),
                   a.product({keys, a.dv, many, true, false, 1, true}, block, o, v),
                   a.product({many, a.d, keys, false, false, a.scale, false}, block, k, q),
                   a.product({keys, a.d, many, true, false, a.scale, true}, block, q, k)};
    });
    return bindTask([=, blocks = std::move(blocks), first = a.scores(), second = a.scores(),
                     third = a.softcap > 0 ? a.scores() : Scratch<T>()](DeviceCtx *dev) {
      T *prob = first.get(), *slope = second.get(), *capped = a.softcap > 0 ? third.get() : nullptr;
      std::fill_n(dkey, a.keyHeads() * a.m * a.d, T(0));
      std::fill_n(dvalue, a.keyHeads() * a.m * a.dv, T(0));
      for (int64_t h0 = 0; h0 < a.heads; h0 += a.group())
        for (const Block &b : blocks) {
          const int64_t q = a.queryAt(h0, b), o = a.outAt(h0, b), k = a.keyAt(h0, b), v = a.valueAt(h0, b);
          b.scores.run(dev, a.query + q, a.key + k, prob);
          b.dprob.run(dev, dout + o, a.value + v, slope);
          a.forEachRow(dev, h0, b, prob, capped, [&](int64_t at, T *row, KeyRange seen) {
            T *p = row + seen.begin, *s = slope + (p - prob);
            if (T again; std::isinf(logSum[at]) && logSum[at] < 0)
              std::fill_n(p, seen.count(), T(0)); // it saw nothing
            else if (std::abs(logSum[at]) > T(kRoughSum))
              softmaxScores(p, &again, seen.count(), 1);
            else
              probabilities(p, seen.count(), logSum[at]);
            T along = 0;
            for (int64_t c = 0; c < a.dv; ++c) along += dout[at * a.dv + c] * out[at * a.dv + c];
            if (dlogSum) along -= dlogSum[at];
            for (int64_t j = 0; j < seen.count(); ++j) s[j] = p[j] * (s[j] - along);
            a.clearUnseen(row, b, seen);
            a.clearUnseen(s - seen.begin, b, seen);
            if (dscores) {
              T *to = dscores + at * a.m;
              std::fill_n(to, a.m, T(0));
              std::copy_n(s, seen.count(), to + b.firstKey + seen.begin);
            }
            if (!capped) return;
            const T *c = capped + (p - prob);
            for (int64_t j = 0; j < seen.count(); ++j) s[j] *= c[j];
          });
          b.dvalue.run(dev, prob, dout + o, dvalue + v);
          b.dquery.run(dev, slope, a.key + k, dquery + q);
          b.dkey.run(dev, slope, a.query + q, dkey + k);
        }
    });
  }

private:
  struct Block : QueryBlock {
    Gemm<T> scores, dprob, dvalue, dquery, dkey;
  };
  /// exp(score - log_sum), which is at most 1 for scores that log_sum was computed of, and anything for others.
  static void probabilities(float *row, int64_t n, float sum) { rowMath().exponentials(row, row, n, sum); }
  static void probabilities(double *row, int64_t n, double sum) {
    for (int64_t j = 0; j < n; ++j) row[j] = std::exp(row[j] - sum);
  }
};

REGISTER_USER_OP("scaled_dot_product_attention_grad")
    .GradientOf("scaled_dot_product_attention")
    .With(attentionInputs)
    .With(TensorArgs{{"out", "log_sum", "dout"}, {"dquery", "dkey", "dvalue"}})
    .OptionalInput("dlog_sum")
    .OptionalOutput("dscores")
    .With(attentionRules(false))
    .SetTensorDescInferFn(infer)
    .Doc("The gradients of scaled_dot_product_attention. With P = exp(scale * query key^T + mask - log_sum), which "
         "is computed again for a block of queries at a time, and S = P * (dout value^T - sum over the last axis of "
         "dout * out + dlog_sum): dvalue = P^T dout, dquery = scale * S key, dkey = scale * S^T query; dscores, when "
         "asked for, is S, the gradient of a mask that is added. With softcap, scores in P are capped, and S in dquery "
         "and dkey is multiplied by 1 - tanh(score / softcap)^2. Heads of keys that several heads of queries share get "
         "the sum. The rest is as in scaled_dot_product_attention.")
    .Cases({gradCase("plain", {2, 3, 5, 8}, {2, 3, 7, 8}, {2, 3, 7, 4}, false),
            gradCase("causal", {3, 50, 4}, {3, 50, 4}, {3, 50, 4}, false).Attr("causal", true).Attr("scale", 0.3),
            gradCase("added", {2, 2, 4, 3}, {2, 2, 6, 3}, {2, 2, 6, 5}, false)
                .In("mask", {2, 1, 4, 6}, -2, 2)
                .In("dlog_sum", {2, 2, 4})
                .Out("dscores"),
            gradCase("seen", {2, 4, 3}, {2, 9, 3}, {2, 9, 3}, false)
                .In("mask", kBool, {1, 9}, 0, 2)
                .Attr("causal", true)
                .Out("dscores"),
            gradCase("grouped", {2, 4, 3, 4}, {2, 2, 7, 4}, {2, 2, 7, 3}, false)
                .In("mask", {4, 1, 7}, -2, 2)
                .Attr("causal", true)
                .Attr("offset", int64_t{3})
                .Out("dscores"),
            gradCase("capped", {2, 3, 4}, {1, 6, 4}, {1, 6, 3}, false).Attr("softcap", 0.6).Out("dscores"),
            gradCase("window", {2, 230, 3}, {1, 240, 3}, {1, 240, 2}, false)
                .Attr("window_left", int64_t{20})
                .Attr("window_right", int64_t{3})
                .Attr("offset", int64_t{8}),
            gradCase("lengths", {3, 4, 2, 4}, {3, 2, 6, 4}, {3, 2, 6, 4}, false)
                .In("key_lengths", kInt32, {3}, 2, 7)
                .Attr("causal", true)
                .Out("dscores"),
            gradCase("half", {2, 3, 5, 8}, {2, 3, 7, 8}, {2, 3, 7, 4}, true)})
    .Kernel<AttentionGradKernel, types::Floating>("query");

void attentionGradient(GradientRule &g) {
  const bool mask = g.needs("mask");
  if (!g.needs("query") && !g.needs("key") && !g.needs("value") && !mask) return;
  auto grad = g.add("scaled_dot_product_attention_grad", "query");
  grad.in("query", g.x("query")).in("key", g.x("key")).in("value", g.x("value"));
  if (g.hasInput("mask")) grad.in("mask", g.x("mask"));
  if (g.hasInput("key_lengths")) grad.in("key_lengths", g.x("key_lengths"));
  grad.in("out", g.y("out")).in("log_sum", g.y("log_sum")).in("dout", g.dy("out")).same(kAttentionAttributes);
  if (g.hasDy("log_sum")) grad.in("dlog_sum", g.dy("log_sum"));
  if (mask) grad.output("dscores");
  for (const char *arg : {"query", "key", "value"}) g.bind(arg, grad.out(std::string("d") + arg));
  if (!mask) return;
  Shape scores = g.shape("query");
  scores.Set(scores.NumAxes() - 1, g.shape("key").At(scores.NumAxes() - 2));
  g.bind("mask", g.reduceLike(grad.out("dscores"), scores, g.x("mask"), g.shape("mask"), "mask"));
}
REGISTER_USER_OP_GRAD("scaled_dot_product_attention").SetBackwardOpConfGenFn(gradientRule(attentionGradient));

} // namespace
} // namespace opc::ops
