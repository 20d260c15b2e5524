// dropout: an element is dropped or kept by its place in the whole, on every device alike.
// SPDX-License-Identifier: Apache-2.0
#include "source/RandomElements.h"

#include "opc/PositionedRows.h"

namespace opc::ops {
namespace {

Maybe<void> infer(InferContext *ctx) {
  const TensorDesc in = ctx->In("in");
  if (ctx->Has("_add_to_output") && ctx->In("_add_to_output") != in)
    return Error::ShapeMismatch() << "_add_to_output is " << ctx->In("_add_to_output").toString() << ", in is "
                                  << in.toString();
  ctx->Out("out") = in;
  return setOut(ctx, "mask", TensorDesc(in.shape(), kBool));
}

/// What becomes of elements for their uniform numbers.
template <class T> struct Dropping {
  using F = ComputeType<T>;
  explicit Dropping(const OpContext *ctx) : rate(ctx->Attr<float>("rate")) {
    if (rate < 1) scale = F(1) / (F(1) - static_cast<F>(rate));
  }
  void operator()(const T *from, const T *add, T *to, bool *mask, int64_t n, const float *u) const {
    for (int64_t i = 0; i < n; ++i) {
      mask[i] = u[i] >= rate;
      F v = mask[i] ? static_cast<F>(from[i]) * scale : F(0);
      if (add) v += static_cast<F>(add[i]);
      to[i] = T(v);
    }
  }
  float rate;
  F scale = 0;
};

/// Rows of the last axis: an element's number is that of its place in the tensor.
template <class T> class DropoutRows final : public PositionedRows {
public:
  explicit DropoutRows(const KernelContext &ctx) : key_(randomKey(&ctx)), drop_(&ctx) {
    const Shape &shape = ctx.Desc("out").shape();
    size = shape.At(shape.NumAxes() - 1);
    rows = shape.Count(0, shape.NumAxes() - 1);
    inputs.assign(ctx.inputs().size(), RowPart::kRow);
    outputs.assign(2, RowPart::kRow);
  }
  void RunAt(const RunPosition &at, const void *const *in, void *const *out, int64_t first, int64_t count,
             void *) const override {
    constexpr int64_t per = kPerBlock<float>, batch = kPerBatch<float>;
    const RandomBlocks random = RandomStream::of(key_, at);
    const T *from = static_cast<const T *>(in[0]), *add = inputs.size() > 1 ? static_cast<const T *>(in[1]) : nullptr;
    T *to = static_cast<T *>(out[0]);
    bool *mask = static_cast<bool *>(out[1]);
    const int64_t begin = first * size, end = begin + count * size;
    for (int64_t block = begin / per; block * per < end; block += RandomBlocks::kBatch) {
      float u[batch];
      drawBatch(random, block, u);
      const int64_t low = std::max(begin, block * per), k = low - begin;
      drop_(from + k, add ? add + k : nullptr, to + k, mask + k, std::min(end, block * per + batch) - low,
            u + (low - block * per));
    }
  }

private:
  uint64_t key_;
  Dropping<T> drop_;
};

template <class T> class DropoutKernel final : public RandomKernel, public RowsKernel {
public:
  Status MakeRows(const KernelContext &ctx, std::unique_ptr<RowsLoop> *loop) const override {
    if (ctx.Desc("out").shape().NumAxes() > 0 && PieceRuns(&ctx, "out").whole)
      *loop = std::make_unique<DropoutRows<T>>(ctx);
    return Status::ok();
  }
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    const T *from = ctx->In("in").dptr<T>();
    const T *add = ctx->Has("_add_to_output") ? ctx->In("_add_to_output").dptr<T>() : nullptr;
    T *to = ctx->Out("out").mut_dptr<T>();
    bool *mask = ctx->Out("mask").mut_dptr<bool>();
    const PieceRuns runs(ctx, "out");
    const Dropping<T> drop(ctx);
    if (isOnGpu(ctx)) {
      RandomArguments a{};
      a.in = from;
      a.add = add;
      a.out = to;
      a.mask = mask;
      a.a = static_cast<double>(drop.scale);
      a.rate = drop.rate;
      return bindOnGpu(ctx, kernelOf("dropout", GetDataType<T>::value), "out", a);
    }
    return bindTask([=, random = draws(ctx)](DeviceCtx *dev) {
      forEachBlock<float>(dev, runs, random(dev), [&](int64_t at, int64_t count, const float *u) {
        drop(from + at, add ? add + at : nullptr, to + at, mask + at, count, u);
      });
    });
  }
};

REGISTER_USER_OP("dropout")
    .With(TensorArgs{{"in"}, {"out", "mask"}})
    .OptionalInput("_add_to_output")
    .Attr<float>("rate", 0.0f)
    .Attr<int64_t>("seed", 0)
    .SetCheckAttrFn(checkRate)
    .SetTensorDescInferFn(infer)
    .Sharding("..., ... -> ..., ? ...", Linear({0, 1})) // the mask of partial sums is whole
    .Pure(false)
    .Doc("Each element of in is dropped (made 0) with probability rate, the others are scaled by 1 / (1 - rate); "
         "mask (bool) says which were kept. _add_to_output is added to the result. rate 1 drops everything.")
    .Cases({Case("half").In("in", {4, 5}).Attr("rate", 0.5f), Case("none").In("in", {7}).Attr("rate", 0.0f)})
    .With(onCpuAndGpu<DropoutKernel, types::Floating>("in", KernelOptions().Inplace("out", "in")));

} // namespace
} // namespace opc::ops
