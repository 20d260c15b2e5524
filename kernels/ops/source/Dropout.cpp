// dropout: an element is dropped or kept by its place in the whole, on every device alike.
// SPDX-License-Identifier: Apache-2.0
#include "source/RandomElements.h"

namespace opc::ops {
namespace {

/// This device's piece of a tensor as runs of neighbours in the whole: run i begins at element start(i) of the whole
/// and at element i * length of the piece.
struct PieceRuns {
  int64_t count = 1, length = 0;
  bool whole = true;
  DimVector sizes, strides; // of the axes before the run, outermost first
  int64_t offset = 0;

  PieceRuns(const KernelContext *ctx, const std::string &arg) {
    const Shape &piece = ctx->Desc(arg).shape(), &all = ctx->LogicalTensorDesc4ArgNameAndIndex(arg, 0)->shape();
    int64_t last = piece.NumAxes() - 1;
    while (last >= 0 && piece.At(last) == all.At(last)) --last;
    whole = last < 0;
    length = piece.Count(std::max<int64_t>(0, last));
    for (int64_t a = 0; a < last; ++a) {
      sizes.push_back(piece.At(a));
      strides.push_back(all.Count(a + 1));
      count *= piece.At(a);
    }
    for (int64_t a = 0; a <= last; ++a) offset += ctx->ShardBegin(arg, 0, a) * all.Count(a + 1);
  }
  int64_t start(int64_t i) const {
    int64_t at = offset;
    for (size_t a = sizes.size(); a-- > 0; i /= sizes[a]) at += i % sizes[a] * strides[a];
    return at;
  }
};

/// forEachBlock for a piece: each element gets the number that it has in the whole.
template <class Body>
void forEachBlockOf(DeviceCtx *dev, const PieceRuns &runs, const RandomBlocks &random, Body body) {
  if (runs.whole) return forEachBlock<float>(dev, runs.length, random, body);
  constexpr int64_t per = kPerBlock<float>, piece = kPerBatch<float>;
  const int64_t grain = std::max<int64_t>(1, 16384 / std::max<int64_t>(1, runs.length));
  dev->parallelFor(runs.count, grain, [&](int64_t b, int64_t e) {
    for (int64_t r = b; r < e; ++r) {
      const int64_t begin = runs.start(r), end = begin + runs.length;
      for (int64_t block = begin / per; block * per < end; block += RandomBlocks::kBatch) {
        float u[piece];
        drawBatch(random, block, u);
        const int64_t first = std::max(begin, block * per), stop = std::min(end, block * per + piece);
        body(r * runs.length + first - begin, stop - first, u + (first - block * per));
      }
    }
  });
}

Maybe<void> infer(InferContext *ctx) {
  const TensorDesc in = ctx->In("in");
  if (ctx->Has("_add_to_output") && ctx->In("_add_to_output") != in)
    return Error::ShapeMismatch() << "_add_to_output is " << ctx->In("_add_to_output").toString() << ", in is "
                                  << in.toString();
  ctx->Out("out") = in;
  ctx->Out("mask") = TensorDesc(in.shape(), kBool);
  return Maybe<void>::Ok();
}

template <class T> class DropoutKernel final : public RandomKernel {
public:
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    using F = ComputeType<T>;
    const T *from = ctx->In("in").dptr<T>();
    const T *add = ctx->Has("_add_to_output") ? ctx->In("_add_to_output").dptr<T>() : nullptr;
    T *to = ctx->Out("out").mut_dptr<T>();
    bool *mask = ctx->Out("mask").mut_dptr<bool>();
    const PieceRuns runs(ctx, "in");
    const float rate = ctx->Attr<float>("rate");
    const F scale = rate < 1 ? F(1) / (F(1) - static_cast<F>(rate)) : F(0);
    return bindTask([=, random = draws(ctx)](DeviceCtx *dev) {
      forEachBlockOf(dev, runs, random(), [&](int64_t at, int64_t count, const float *u) {
        for (int64_t k = 0; k < count; ++k) {
          const int64_t i = at + k;
          mask[i] = u[k] >= rate;
          F v = mask[i] ? static_cast<F>(from[i]) * scale : F(0);
          if (add) v += static_cast<F>(add[i]);
          to[i] = T(v);
        }
      });
    });
  }
};

/// Listed: the mask of partial sums is whole.
Maybe<void> listSignatures(SbpContext *ctx) {
  JUST(GetSbpFnUtil::SplitForEachAxis(ctx));
  ctx->NewBuilder().PartialSum(ctx->inputs()).PartialSum(OpArg("out", 0)).Build();
  return Maybe<void>::Ok();
}

REGISTER_USER_OP("dropout")
    .Input("in")
    .OptionalInput("_add_to_output")
    .Output("out")
    .Output("mask")
    .Attr<float>("rate", 0.0f)
    .Attr<int64_t>("seed", 0)
    .SetCheckAttrFn(checkRate)
    .SetTensorDescInferFn(infer)
    .SetGetSbpFn(listSignatures)
    .Pure(false)
    .Doc("Each element of in is dropped (made 0) with probability rate, the others are scaled by 1 / (1 - rate); "
         "mask (bool) says which were kept. _add_to_output is added to the result. rate 1 drops everything.")
    .Cases({Case("half").In("in", {4, 5}).Attr("rate", 0.5f), Case("none").In("in", {7}).Attr("rate", 0.0f)})
    .Kernel<DropoutKernel, types::Floating>("in", KernelOptions().Inplace("out", "in"));

} // namespace
} // namespace opc::ops
