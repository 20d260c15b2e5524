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
  ctx->Out("out") = rowsLike(query, a.dv);
  return Maybe<void>::Ok();
}

template <class T> class AttentionKernel final : public StagedKernel<T> {
public:
  std::unique_ptr<BoundKernel> BindStaged(KernelBindContext *ctx, StagedTensors<T> &staged) const override {
    const Attention<T> a(ctx, staged);
    T *out = staged.out("out"), *logSum = staged.out("log_sum");
    auto blocks = a.blocks([&](QueryBlock b) {
      return Block{b, a.scoreProduct(b),
                   a.product({b.rows, a.dv, b.keys, false, false, 1, false}, b.rows * b.keys, a.m * a.dv, a.n * a.dv)};
    });
    return bindTask([=, blocks = std::move(blocks), buffer = a.scores()](DeviceCtx *dev) {
      T *scores = buffer.get();
      for (int64_t h0 = 0; h0 < a.heads; h0 += a.group())
        for (const Block &b : blocks) {
          b.scores.run(dev, a.query + (h0 * a.n + b.first) * a.d, a.key + h0 * a.m * a.d, scores);
          a.forEachRow(dev, h0, b, scores, [&](int64_t q, T *row, int64_t seen) {
            logSum[q] = softmaxScores(row, seen);
            std::fill(row + seen, row + b.keys, T(0));
          });
          b.values.run(dev, scores, a.value + h0 * a.m * a.dv, out + (h0 * a.n + b.first) * a.dv);
        }
    });
  }

private:
  struct Block : QueryBlock {
    Gemm<T> scores, values;
  };
};

REGISTER_USER_OP("scaled_dot_product_attention")
    .With(attentionInputs)
    .Output("out")
    .Output("log_sum")
    .With(attentionRules(true))
    .SetTensorDescInferFn(infer)
    .Doc("Attention (Vaswani et al., 2017): out = softmax(scale * query key^T + mask) value over the keys, for query "
         "[..., n, d], key [..., m, d] and value [..., m, dv]; scale 0 means 1 / sqrt(d). mask broadcasts to [..., "
         "n, m]: of query's type it is added to the scores, as bool it says which keys a query sees. With causal, "
         "query i sees keys 0 to i. A query that sees no key gets 0. log_sum [..., n] (f32 for f16 and bf16) is the "
         "logarithm of the sum of exponentials, which the gradient needs. The scores are never kept whole: a block "
         "of queries at a time.")
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
    .Kernel<AttentionKernel, types::Floating>("query");

} // namespace
} // namespace opc::ops
