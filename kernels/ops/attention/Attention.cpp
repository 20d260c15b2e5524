// scaled_dot_product_attention: softmax(query key^T * scale + mask) value, block by block.
// SPDX-License-Identifier: Apache-2.0
#include "AttentionScores.h"
#include "Gemm.h"
#include "support/GradientSteps.h"
#include "support/RegisterFloating.h"

namespace opc::ops {
namespace {

using namespace opc::cpu;
using user_op::Case;
using user_op::InferContext;
using user_op::TensorDesc;

REGISTER_USER_OP("scaled_dot_product_attention")
    .Input("query")
    .Input("key")
    .Input("value")
    .OptionalInput("mask")
    .Output("out")
    .Output("log_sum")
    .Attr<bool>("causal", false)
    .Attr<double>("scale", 0.0)
    .SetTensorDescInferFn([](InferContext *ctx) -> Maybe<void> {
      const AttentionShape a = JUST(attentionShape(ctx));
      const TensorDesc query = ctx->InputTensorDesc("query", 0);
      DimVector rows(query.shape().begin(), query.shape().end() - 1);
      *ctx->MutOutputTensorDesc("log_sum", 0) = TensorDesc(Shape(rows), scoreType(query.data_type()));
      rows.push_back(a.dv);
      *ctx->MutOutputTensorDesc("out", 0) = TensorDesc(Shape(rows), query.data_type());
      return Maybe<void>::Ok();
    })
    .SetGetSbpFn(attentionSbp)
    .SetComputeComplexityFn([](InferContext *ctx) -> Maybe<double> {
      const AttentionShape a = JUST(attentionShape(ctx));
      return 2.0 * static_cast<double>(a.heads * a.n) * static_cast<double>(a.m) * static_cast<double>(a.d + a.dv) *
             (a.causal ? 0.5 : 1.0);
    })
    .Doc("Attention (Vaswani et al., 2017): out = softmax(scale * query key^T + mask) value over the keys, for query "
         "[..., n, d], key [..., m, d] and value [..., m, dv]; scale 0 means 1 / sqrt(d). mask broadcasts to [..., "
         "n, m]: of query's type it is added to the scores, as bool it says which keys a query sees. With causal, "
         "query i sees keys 0 to i. A query that sees no key gets 0. log_sum [..., n] (f32 for f16 and bf16) is the "
         "logarithm of the sum of exponentials, which the gradient needs. The scores are never kept whole: a block "
         "of queries at a time.")
    .Tolerance(kFloat, 2e-5, 1e-5)
    .Tolerance(kFloat16, 5e-3, 5e-3)
    .Tolerance(kBFloat16, 4e-2, 4e-2)
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
         Case("no_heads").In("query", {0, 3, 2}).In("key", {0, 3, 2}).In("value", {0, 3, 2})});

template <class T> class AttentionKernel final : public user_op::OpKernel {
public:
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
  std::unique_ptr<user_op::BoundKernel> Bind(user_op::KernelBindContext *ctx) const override {
    const auto shape =
        attentionShape(ctx, *ctx->TensorDesc4ArgNameAndIndex("query", 0), *ctx->TensorDesc4ArgNameAndIndex("key", 0),
                       *ctx->TensorDesc4ArgNameAndIndex("value", 0), ctx->TensorDesc4ArgNameAndIndex("mask", 0));
    if (!shape.IsOk()) throw ContractError(shape.status().message());
    AttentionShape a = shape.value();
    StagedTensors<T> tensors(ctx);
    const T *query = tensors.in("query"), *key = tensors.in("key"), *value = tensors.in("value");
    const AttentionMask<T> mask(ctx, tensors);
    T *out = tensors.out("out"), *logSum = tensors.out("log_sum");
    const int64_t group = a.group(), rows = a.rows();
    std::vector<Block> blocks;
    for (int64_t i = 0; i < a.n; i += rows) {
      const int64_t many = std::min(rows, a.n - i), keys = a.keysBefore(i + many);
      GemmBatch scores, values;
      for (auto *list : {&scores.a, &scores.b, &scores.c, &values.a, &values.b, &values.c}) list->clear();
      for (int64_t h = 0; h < group; ++h) {
        scores.a.push_back(h * a.n * a.d);
        scores.b.push_back(h * a.m * a.d);
        scores.c.push_back(h * many * keys);
        values.a.push_back(h * many * keys);
        values.b.push_back(h * a.m * a.dv);
        values.c.push_back(h * a.n * a.dv);
      }
      blocks.push_back({i, many, keys,
                        Gemm<T>(GemmShape{many, keys, a.d, false, true, a.scale, false}, std::move(scores)),
                        Gemm<T>(GemmShape{many, a.dv, keys, false, false, 1, false}, std::move(values))});
    }
    Scratch<T> buffer(group * rows * a.m);
    return user_op::bindTask([=, a = std::move(a), tensors = std::move(tensors), blocks = std::move(blocks),
                              buffer = std::move(buffer)](DeviceCtx *d) {
      tensors.load(d);
      T *scores = buffer.get();
      for (int64_t h0 = 0; h0 < a.heads; h0 += group)
        for (const Block &b : blocks) {
          b.scores.run(d, query + (h0 * a.n + b.first) * a.d, key + h0 * a.m * a.d, scores);
          d->parallelFor(group * b.rows, rowGrain(b.keys), [&](int64_t begin, int64_t end) {
            for (int64_t r = begin; r < end; ++r) {
              const int64_t h = h0 + r / b.rows, i = b.first + r % b.rows, seen = seenKeys(a, i, b.keys);
              T *row = scores + r * b.keys;
              mask.apply(a, h, i, row, seen);
              logSum[h * a.n + i] = softmaxScores(row, seen);
              std::fill(row + seen, row + b.keys, T(0));
            }
          });
          b.values.run(d, scores, value + h0 * a.m * a.dv, out + (h0 * a.n + b.first) * a.dv);
        }
      tensors.store(d);
    });
  }

private:
  struct Block {
    int64_t first, rows, keys;
    Gemm<T> scores, values;
  };
};
OPC_REGISTER_FLOATING_CPU_KERNELS("scaled_dot_product_attention", AttentionKernel, "query");

void attentionGradient(GradientRule &g) {
  const bool mask = g.needs("mask");
  if (!g.needs("query") && !g.needs("key") && !g.needs("value") && !mask) return;
  auto grad = g.add("scaled_dot_product_attention_grad", "query");
  grad.in("query", g.x("query")).in("key", g.x("key")).in("value", g.x("value"));
  if (g.hasInput("mask")) grad.in("mask", g.x("mask"));
  grad.in("out", g.y("out")).in("log_sum", g.y("log_sum")).in("dout", g.dy("out")).same({"causal", "scale"});
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
