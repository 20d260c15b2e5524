// scaled_dot_product_attention_grad: probabilities computed again, block by block.
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

Maybe<void> infer(InferContext *ctx) {
  const AttentionShape a = JUST(attentionShape(ctx));
  const TensorDesc query = ctx->InputTensorDesc("query", 0);
  DimVector rows(query.shape().begin(), query.shape().end() - 1);
  const TensorDesc sums(Shape(rows), scoreType(query.data_type()));
  rows.push_back(a.dv);
  const TensorDesc out(Shape(rows), query.data_type());
  for (const auto &[arg, want] : {std::pair{"out", out}, {"dout", out}, {"log_sum", sums}})
    if (ctx->InputTensorDesc(arg, 0) != want)
      return Error::ShapeMismatch() << arg << " is " << ctx->InputTensorDesc(arg, 0).toString() << ", expected "
                                    << want.toString();
  for (const char *arg : {"query", "key", "value"}) {
    const TensorDesc in = ctx->InputTensorDesc(arg, 0);
    *ctx->MutOutputTensorDesc(std::string("d") + arg, 0) = in;
  }
  if (ctx->has_input("dlog_sum", 0) && ctx->InputTensorDesc("dlog_sum", 0) != sums)
    return Error::ShapeMismatch() << "dlog_sum is " << ctx->InputTensorDesc("dlog_sum", 0).toString() << ", expected "
                                  << sums.toString();
  if (ctx->has_output("dscores", 0)) {
    rows.back() = a.m;
    *ctx->MutOutputTensorDesc("dscores", 0) = TensorDesc(Shape(rows), query.data_type());
  }
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

REGISTER_USER_OP("scaled_dot_product_attention_grad")
    .GradientOf("scaled_dot_product_attention")
    .Input("query")
    .Input("key")
    .Input("value")
    .OptionalInput("mask")
    .Input("out")
    .Input("log_sum")
    .Input("dout")
    .OptionalInput("dlog_sum")
    .Output("dquery")
    .Output("dkey")
    .Output("dvalue")
    .OptionalOutput("dscores")
    .Attr<bool>("causal", false)
    .Attr<double>("scale", 0.0)
    .SetTensorDescInferFn(infer)
    .SetGetSbpFn(attentionSbp)
    // The scores again, and the products for the gradients of query, key, value and of the probabilities.
    .SetComputeComplexityFn([](InferContext *ctx) -> Maybe<double> {
      const AttentionShape a = JUST(attentionShape(ctx));
      return 2.0 * static_cast<double>(a.heads * a.n) * static_cast<double>(a.m) *
             static_cast<double>(3 * a.d + 2 * a.dv) * (a.causal ? 0.5 : 1.0);
    })
    .Doc("The gradients of scaled_dot_product_attention. With P = exp(scale * query key^T + mask - log_sum), which "
         "is computed again for a block of queries at a time, and S = P * (dout value^T - sum over the last axis of "
         "dout * out + dlog_sum): dvalue = P^T dout, dquery = scale * S key, dkey = scale * S^T query; dscores, when "
         "asked for, is S, the gradient of a mask that is added.")
    .Tolerance(kFloat, 2e-5, 1e-5)
    .Tolerance(kFloat16, 5e-3, 5e-3)
    .Tolerance(kBFloat16, 4e-2, 4e-2)
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
            gradCase("half", {2, 3, 5, 8}, {2, 3, 7, 8}, {2, 3, 7, 4}, true)});

template <class T> class AttentionGradKernel final : public user_op::OpKernel {
public:
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
  std::unique_ptr<user_op::BoundKernel> Bind(user_op::KernelBindContext *ctx) const override {
    const auto shape =
        attentionShape(ctx, *ctx->TensorDesc4ArgNameAndIndex("query", 0), *ctx->TensorDesc4ArgNameAndIndex("key", 0),
                       *ctx->TensorDesc4ArgNameAndIndex("value", 0), ctx->TensorDesc4ArgNameAndIndex("mask", 0));
    if (!shape.IsOk()) throw ContractError(shape.status().message());
    AttentionShape a = shape.value();
    StagedTensors<T> tensors(ctx);
    const T *query = tensors.in("query"), *key = tensors.in("key"), *value = tensors.in("value"),
            *out = tensors.in("out"), *logSum = tensors.in("log_sum"), *dout = tensors.in("dout"),
            *dlogSum = tensors.in("dlog_sum");
    const AttentionMask<T> mask(ctx, tensors);
    T *dquery = tensors.out("dquery"), *dkey = tensors.out("dkey"), *dvalue = tensors.out("dvalue"),
      *dscores = tensors.out("dscores");
    const int64_t group = a.group(), rows = a.rows();
    std::vector<Block> blocks;
    for (int64_t i = 0; i < a.n; i += rows) {
      const int64_t many = std::min(rows, a.n - i), keys = a.keysBefore(i + many);
      const auto batch = [&](int64_t x, int64_t y, int64_t z) {
        GemmBatch b;
        b.a.clear(), b.b.clear(), b.c.clear();
        for (int64_t h = 0; h < group; ++h) {
          b.a.push_back(h * x);
          b.b.push_back(h * y);
          b.c.push_back(h * z);
        }
        return b;
      };
      const int64_t block = many * keys, q = a.n * a.d, k = a.m * a.d, v = a.m * a.dv, o = a.n * a.dv;
      blocks.push_back({i, many, keys,
                        // scores = scale query key^T; dprob = dout value^T
                        Gemm<T>(GemmShape{many, keys, a.d, false, true, a.scale, false}, batch(q, k, block)),
                        Gemm<T>(GemmShape{many, keys, a.dv, false, true, 1, false}, batch(o, v, block)),
                        // dvalue += prob^T dout; dquery = scale S key; dkey += scale S^T query
                        Gemm<T>(GemmShape{keys, a.dv, many, true, false, 1, true}, batch(block, o, v)),
                        Gemm<T>(GemmShape{many, a.d, keys, false, false, a.scale, false}, batch(block, k, q)),
                        Gemm<T>(GemmShape{keys, a.d, many, true, false, a.scale, true}, batch(block, q, k))});
    }
    Scratch<T> first(group * rows * a.m), second(group * rows * a.m);
    return user_op::bindTask([=, a = std::move(a), tensors = std::move(tensors), blocks = std::move(blocks),
                              first = std::move(first), second = std::move(second)](DeviceCtx *d) {
      tensors.load(d);
      T *prob = first.get(), *slope = second.get();
      std::fill_n(dkey, a.heads * a.m * a.d, T(0));
      std::fill_n(dvalue, a.heads * a.m * a.dv, T(0));
      for (int64_t h0 = 0; h0 < a.heads; h0 += group)
        for (const Block &b : blocks) {
          const int64_t q = (h0 * a.n + b.first) * a.d, o = (h0 * a.n + b.first) * a.dv, k = h0 * a.m * a.d,
                        v = h0 * a.m * a.dv;
          b.scores.run(d, query + q, key + k, prob);
          b.dprob.run(d, dout + o, value + v, slope);
          d->parallelFor(group * b.rows, rowGrain(b.keys), [&](int64_t begin, int64_t end) {
            for (int64_t r = begin; r < end; ++r) {
              const int64_t h = h0 + r / b.rows, i = b.first + r % b.rows, seen = seenKeys(a, i, b.keys);
              const int64_t at = h * a.n + i;
              T *p = prob + r * b.keys, *s = slope + r * b.keys;
              mask.apply(a, h, i, p, seen);
              if (std::isinf(logSum[at]) && logSum[at] < 0)
                std::fill_n(p, seen, T(0)); // it saw nothing
              else
                probabilities(p, seen, logSum[at]);
              T along = 0;
              for (int64_t c = 0; c < a.dv; ++c) along += dout[at * a.dv + c] * out[at * a.dv + c];
              if (dlogSum) along -= dlogSum[at];
              for (int64_t j = 0; j < seen; ++j) s[j] = p[j] * (s[j] - along);
              std::fill(p + seen, p + b.keys, T(0));
              std::fill(s + seen, s + b.keys, T(0));
              if (dscores) {
                std::copy_n(s, b.keys, dscores + at * a.m);
                std::fill(dscores + at * a.m + b.keys, dscores + (at + 1) * a.m, T(0));
              }
            }
          });
          b.dvalue.run(d, prob, dout + o, dvalue + v);
          b.dquery.run(d, slope, key + k, dquery + q);
          b.dkey.run(d, slope, query + q, dkey + k);
        }
      tensors.store(d);
    });
  }

private:
  struct Block {
    int64_t first, rows, keys;
    Gemm<T> scores, dprob, dvalue, dquery, dkey;
  };
  /// exp(score - log_sum), which is at most 1 for scores that log_sum was computed of, and anything for others.
  static void probabilities(float *row, int64_t n, float sum) {
    using S = Simd<float>;
    const auto by = S::set1(sum);
    for (int64_t j = 0; j < n; j += 8) {
      const auto m = S::mask(n - j);
      S::store(row + j, simdExp(S::sub(S::load(row + j, m), by)), m);
    }
  }
  static void probabilities(double *row, int64_t n, double sum) { expRow(row, n, sum); }
};
/// An error, and not NoGrad: a gradient that silently left this path out would be wrong.
void attentionGradGradient(GradientRule &) {
  throw ContractError("second derivatives of the fused attention are not provided; write it as matmul, softmax and "
                      "matmul, which have them");
}
REGISTER_USER_OP_GRAD("scaled_dot_product_attention_grad").SetBackwardOpConfGenFn(gradientRule(attentionGradGradient));

OPC_REGISTER_FLOATING_CPU_KERNELS("scaled_dot_product_attention_grad", AttentionGradKernel, "query");

} // namespace
} // namespace opc::ops
