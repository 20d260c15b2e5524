// gather, embedding and batch_gather: slices of a tensor along one axis, chosen by indices.
// SPDX-License-Identifier: Apache-2.0
#include "index/IndexOnGpu.h"
#include "opc/UnalignedInputs.h"
#include "support/SbpRules.h"

namespace opc::ops {
namespace {

Maybe<void> inferGather(InferContext *ctx) {
  const Shape &in = ctx->In("in").shape(), &indices = ctx->In("indices").shape();
  JUST(checkIndexType(ctx, "indices"));
  const int64_t axis = JUST(resolveAxis(ctx->Attr<int64_t>("axis"), in.NumAxes()));
  DimVector dims(in.begin(), in.begin() + axis);
  dims.insert(dims.end(), indices.begin(), indices.end());
  dims.insert(dims.end(), in.begin() + axis + 1, in.end());
  return setOut(ctx, "out", TensorDesc(Shape(dims), ctx->In("in").data_type()));
}

Maybe<void> inferEmbedding(InferContext *ctx) {
  const Shape &weight = ctx->In("weight").shape();
  JUST(checkIndexType(ctx, "indices"));
  if (weight.NumAxes() != 2)
    return (Error::ShapeMismatch() << "weight is " << weight.ToString() << ", it should be (entries, width)")
        .help("reshape weight to two axes, or use gather");
  DimVector dims = ctx->In("indices").shape().dim_vec();
  dims.push_back(weight.At(1));
  return setOut(ctx, "out", TensorDesc(Shape(dims), ctx->In("weight").data_type()));
}

Maybe<void> inferBatchGather(InferContext *ctx) {
  JUST(checkIndexType(ctx, "indices"));
  const Shape in = ctx->In("in").shape(), indices = ctx->In("indices").shape();
  bool fits = indices.NumAxes() > 0 && indices.NumAxes() <= in.NumAxes();
  for (int64_t a = 0; fits && a + 1 < indices.NumAxes(); ++a) fits = indices.At(a) == in.At(a);
  if (!fits)
    return (Error::ShapeMismatch() << "indices is " << indices.ToString() << ", in is " << in.ToString())
        .help("all axes of indices but the last are batch axes, which in has too");
  DimVector dims = indices.dim_vec();
  dims.insert(dims.end(), in.begin() + indices.NumAxes(), in.end());
  return setOut(ctx, "out", TensorDesc(Shape(dims), ctx->In("in").data_type()));
}

enum class Form { kAxis, kEmbedding, kBatch };

template <Form kForm> class GatherKernel final : public BindingKernel, public UnalignedInputs {
public:
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    const Tensor &in = ctx->In(inArg), &indices = ctx->In("indices");
    const int64_t axis = axisOf(*ctx);
    return withIndices(indices, [&](const auto *index) {
      const char *into = kForm == Form::kEmbedding ? "the entries of weight" : "the gathered axis";
      const AxisRows rows(ctx, index, "indices", inArg, axis, into, kForm == Form::kBatch);
      if (isOnGpu(ctx)) return bindGatherOnGpu(ctx, in, ctx->Out("out"), rowIndices(ctx, rows));
      return bindGather(in, ctx->Out("out"), rows);
    });
  }
  bool MayBeUnaligned(const KernelContext &ctx, const std::string &arg) const override {
    return arg == inArg && ctx.device_type() == DeviceType::kCPU;
  }

private:
  static constexpr const char *inArg = kForm == Form::kEmbedding ? "weight" : "in";
  static int64_t axisOf(const KernelContext &ctx) {
    if (kForm == Form::kEmbedding) return 0;
    if (kForm == Form::kBatch) return ctx.Desc("indices").shape().NumAxes() - 1;
    return valueOf(resolveAxis(ctx.Attr<int64_t>("axis"), ctx.Desc(inArg).shape().NumAxes()));
  }
};

/// The axes of the indices take the place of the one that they index, which may be split, too.
Maybe<ShardingRule> gatherSharding(const SbpContext &ctx) {
  const int64_t rank = ctx.In("in").shape().NumAxes();
  const int64_t axis = JUST(resolveAxis(ctx.Attr<int64_t>("axis"), rank));
  const AxisFactors in = axisFactors(rank), indices = axisFactors(ctx.In("indices").shape().NumAxes(), {}, "i");
  AxisFactors out = in;
  out.erase(out.begin() + axis);
  AxisFactors first = out;
  first.insert(first.end(), indices.begin(), indices.end());
  out.insert(out.begin() + axis, indices.begin(), indices.end());
  return inOrder(first, withSums({in[static_cast<size_t>(axis)]}, shardingRule({in, indices}, {out}, Linear({0}))));
}
Maybe<ShardingRule> batchGatherSharding(const SbpContext &ctx) {
  const int64_t axis = ctx.In("indices").shape().NumAxes() - 1;
  const AxisFactors in = axisFactors(ctx.In("in").shape().NumAxes());
  AxisFactors indices(in.begin(), in.begin() + axis), first = in, out = in;
  indices.push_back("i");
  out[static_cast<size_t>(axis)] = "i";
  first.erase(first.begin() + axis);
  return inOrder(first, withSums({in[static_cast<size_t>(axis)]}, shardingRule({in, indices}, {out}, Linear({0}))));
}

Case sample(const char *name, const char *in, Shape shape, DataType index, Shape indices, int64_t limit) {
  return Case(name).In(in, shape).In("indices", index, indices, 0, static_cast<double>(limit));
}
const std::vector<DataType> kMoved = {kFloat, kDouble, kFloat16, kUInt8, kInt64};

REGISTER_USER_OP("gather")
    .With(TensorArgs{{"in", "indices"}, {"out"}})
    .Attr<int64_t>("axis", 0)
    .With(rules(inferGather, gatherSharding))
    .Doc("out[..., i, ...] = in[..., indices[i], ...]: axis `axis` of in is replaced by the axes of indices (i32 or "
         "i64). An index outside [0, dimension) is an error at run time.")
    .Cases({sample("rows", "in", {5, 3}, kInt64, {4}, 5).Types(kMoved),
            sample("columns", "in", {2, 6, 3}, kInt32, {2, 2}, 6).Attr<int64_t>("axis", 1).Types(kMoved),
            sample("scalar_index", "in", {4, 3}, kInt64, {}, 3).Attr<int64_t>("axis", -1).Types(kMoved)})
    .With(onCpuAndGpu<GatherKernel<Form::kAxis>>());

REGISTER_USER_OP("embedding")
    .With(TensorArgs{{"weight", "indices"}, {"out"}})
    .Attr<int64_t>("padding_idx", -1)
    .Attr<bool>("scale_grad_by_freq", false)
    .With(rules(inferEmbedding, "... d: entries d, ... -> ... d", Sum("entries"), Linear({0})))
    .Doc("out[i, :] = weight[indices[i], :]. padding_idx (an entry that gets no gradient; -1: none) and "
         "scale_grad_by_freq matter to the gradient only. An index outside [0, entries) is an error at run time.")
    .Cases({sample("sentence", "weight", {7, 4}, kInt64, {2, 3}, 7).Types({kFloat, kDouble, kFloat16})})
    .With(onCpuAndGpu<GatherKernel<Form::kEmbedding>>());

REGISTER_USER_OP("batch_gather")
    .With(TensorArgs{{"in", "indices"}, {"out"}})
    .With(rules(inferBatchGather, batchGatherSharding))
    .Doc("out[b, i, ...] = in[b, indices[b, i], ...]: all axes of indices (i32 or i64) but the last are batch axes. "
         "An index outside the axis is an error at run time.")
    .Cases({sample("batch", "in", {2, 5, 3}, kInt64, {2, 4}, 5).Types(kMoved),
            sample("vector", "in", {5}, kInt32, {4}, 5).Types({kFloat, kInt64})})
    .With(onCpuAndGpu<GatherKernel<Form::kBatch>>());

} // namespace
} // namespace opc::ops
