// scaled_dot_product_attention: softmax(query key^T * scale + mask) value, block by block.
// SPDX-License-Identifier: Apache-2.0
#include "attention/AttentionScores.h"

namespace opc::ops {
namespace {

using namespace opc::cpu;
Maybe<void> infer(InferContext *ctx) {
  const AttentionShape a = JUST(attentionShape(ctx));
  const TensorDesc query = ctx->In("query");
  ctx->Out("log_sum") = sumsOf(query);
  return setOut(ctx, "out", rowsLike(query, a.dv));
}

template <class T> class AttentionKernel final : public StagedKernel<T> {
public:
  std::unique_ptr<BoundKernel> BindStaged(KernelBindContext *ctx, StagedTensors<T> &staged) const override {
    const Attention<T> a(ctx, staged);
    T *out = staged.out("out"), *logSum = staged.out("log_sum");
    std::vector<std::vector<Block>> steps;
    for (int64_t step = 0; step < a.steps(); ++step)
      steps.push_back(a.blocks(a.keysOfStep(step), [&](QueryBlock b) {
        return Block{
            b, a.scoreProduct(b),
            a.product({b.rows, a.dv, b.keys, false, false, 1, false}, b.rows * b.keys, a.m * a.dv, a.n * a.dv)};
      }));
    return bindTask([=, steps = std::move(steps), buffer = a.scores()](DeviceCtx *dev) {
      T *scores = buffer.get();
      for (int64_t h0 = 0; h0 < a.heads; h0 += a.group())
        for (const Block &b : steps[static_cast<size_t>(a.stepOf(h0))]) {
          b.scores.run(dev, a.query + a.queryAt(h0, b), a.key + a.keyAt(h0, b), scores);
          a.soften(dev, h0, b, scores, logSum);
          b.values.run(dev, scores, a.value + a.valueAt(h0, b), out + a.outAt(h0, b));
        }
    });
  }

private:
  struct Block : QueryBlock {
    Gemm<T> scores, values;
  };
};

/// Shared heads, caps, windows and lengths.
std::vector<Case> casesOfPlaces() {
  return {Case("grouped").In("query", {2, 6, 5, 4}).In("key", {2, 2, 7, 4}).In("value", {2, 2, 7, 3}),
          Case("grouped_mask")
              .In("query", {4, 3, 2})
              .In("key", {1, 9, 2})
              .In("value", {1, 9, 2})
              .In("mask", {4, 3, 9}, -2, 2)
              .Attr("causal", true)
              .Attr("offset", int64_t{5}),
          Case("aligned_at_the_end")
              .In("query", {2, 3, 4})
              .In("key", {2, 8, 4})
              .In("value", {2, 8, 4})
              .Attr("causal", true)
              .Attr("offset", int64_t{-1}),
          Case("capped")
              .In("query", {2, 3, 4}, -3, 3)
              .In("key", {2, 6, 4}, -3, 3)
              .In("value", {2, 6, 3})
              .In("mask", {3, 6}, -1, 1)
              .Attr("softcap", 1.5),
          Case("window")
              .In("query", {2, 230, 3})
              .In("key", {2, 240, 3})
              .In("value", {2, 240, 2})
              .Attr("window_left", int64_t{20})
              .Attr("window_right", int64_t{3})
              .Attr("offset", int64_t{8}),
          Case("causal_window")
              .In("query", {1, 4, 7, 4})
              .In("key", {1, 2, 7, 4})
              .In("value", {1, 2, 7, 4})
              .Attr("causal", true)
              .Attr("window_left", int64_t{2}),
          Case("lengths")
              .In("query", {3, 4, 2, 4})
              .In("key", {3, 2, 6, 4})
              .In("value", {3, 2, 6, 4})
              .In("key_lengths", kInt32, {3}, 2, 7)
              .Attr("causal", true),
          Case("lengths_of_keys")
              .In("query", {3, 2, 5, 4})
              .In("key", {3, 2, 6, 4})
              .In("value", {3, 2, 6, 4})
              .In("key_lengths", kInt64, {3}, 1, 7),
          Case("window_of_lengths")
              .In("query", {2, 2, 3, 4})
              .In("key", {2, 1, 9, 4})
              .In("value", {2, 1, 9, 4})
              .In("mask", {3, 9}, -2, 2)
              .In("key_lengths", kInt64, {2}, 3, 10)
              .Attr("window_left", int64_t{3})
              .Attr("causal", true)
              .Attr("softcap", 2.0)};
}

REGISTER_USER_OP("scaled_dot_product_attention")
    .With(attentionInputs)
    .Output("out")
    .Output("log_sum")
    .With(attentionRules(true))
    .SetTensorDescInferFn(infer)
    .Doc(
        "Attention (Vaswani et al., 2017): out = softmax(scale * query key^T + mask) value over the keys, for query "
        "[..., heads, n, d], key [..., heads, m, d] and value [..., heads, m, dv]; scale 0 means 1 / sqrt(d). Keys and "
        "values may have fewer heads, a divisor of the queries' (grouped-query attention): the queries' heads share "
        "them, each as many that lie one after another. softcap > 0 makes softcap * tanh(score / softcap) of the "
        "scores before they are masked. mask broadcasts to [..., heads, n, m]: of query's type it is added to the "
        "scores (what is -1e30 or less stands in their place), as bool it says which keys a query sees. Query i stands at place i + offset among the keys, where "
        "offset counts the keys of the past, and -1 stands for m - n. With causal it sees the keys up to its place; window_left and "
        "window_right are how many before and behind its place it sees (-1: all; with causal none behind it). "
        "key_lengths [...], i32 or i64, says for each sequence how many of its keys count; the last query stands at "
        "the last of them; below 0 is 0, and above m is m. A query that sees no key gets 0. log_sum [..., heads, n] "
        "(f32 for f16 and bf16) is the logarithm of the sum of exponentials, which the gradient needs. The scores are "
        "never kept whole: a block of queries at a time, of the keys that it can see.")
    .Cases(
        {Case("plain").In("query", {2, 3, 5, 8}).In("key", {2, 3, 7, 8}).In("value", {2, 3, 7, 4}),
         Case("causal")
             .In("query", {3, 50, 4}, -3, 3)
             .In("key", {3, 50, 4}, -3, 3)
             .In("value", {3, 50, 4})
             .Attr("causal", true)
             .Attr("scale", 0.7),
         Case("added")
             .In("query", {2, 2, 4, 3})
             .In("key", {2, 2, 6, 3})
             .In("value", {2, 2, 6, 5})
             .In("mask", {2, 1, 4, 6}, -2, 2),
         Case("rows_mask").In("query", {2, 4, 3}).In("key", {2, 6, 3}).In("value", {2, 6, 5}).In("mask", {4, 1}, -2, 2),
         Case("seen")
             .In("query", {2, 2, 4, 3})
             .In("key", {2, 2, 9, 3})
             .In("value", {2, 2, 9, 3})
             .In("mask", kBool, {2, 1, 1, 9}, 0, 2),
         Case("matrix").In("query", {30, 6}).In("key", {11, 6}).In("value", {11, 3}).Attr("causal", true),
         Case("no_heads").In("query", {0, 3, 2}).In("key", {0, 3, 2}).In("value", {0, 3, 2})})
    .Cases(casesOfPlaces())
    .Kernel<AttentionKernel, types::Floating>("query");

} // namespace
} // namespace opc::ops
