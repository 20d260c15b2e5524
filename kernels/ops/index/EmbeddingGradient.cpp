// embedding_grad, which adds up the gradients of looked-up entries where they were looked up, and the gradient rules of
// both ops.
// SPDX-License-Identifier: Apache-2.0
#include "index/IndexOnGpu.h"
#include "support/LinearGradient.h"
#include "support/SbpRules.h"

namespace opc::ops {
namespace {

REGISTER_USER_OP_GRAD("embedding")
    .SetBackwardOpConfGenFn(linearGradient({"weight", "out"}, "embedding_grad", {"dy", "dx"},
                                           {"padding_idx", "scale_grad_by_freq"},
                                           {{"weight", "weight"}, {"indices", "indices"}}));

Maybe<void> infer(InferContext *ctx) {
  JUST(checkIndexType(ctx, "indices"));
  const TensorDesc weight = ctx->In("weight");
  if (weight.shape().NumAxes() != 2)
    return Error::ShapeMismatch() << "weight is " << weight.toString() << ", it should be (entries, width)";
  DimVector dims = ctx->In("indices").shape().dim_vec();
  dims.push_back(weight.shape().At(1));
  JUST(expectIn(ctx, "dy", TensorDesc(Shape(dims), weight.data_type()), ", an entry of weight for each index"));
  return setOut(ctx, "dx", weight);
}

/// Added in the order of the indices; threads share out the columns (Accumulated::addRows). With scale_grad_by_freq the
/// sum of an entry is divided by how often it was looked up.
template <class T> class EmbeddingGradKernel final : public BindingKernel {
public:
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    const int64_t width = ctx->Desc("weight").shape().At(1), entries = ctx->Desc("weight").shape().At(0);
    if (isOnGpu(ctx)) return bindOnGpu(ctx);
    const Accumulated<T> out(ctx, "dx", nullptr);
    const T *values = ctx->In("dy").dptr<T>();
    const int64_t padding = ctx->Attr<int64_t>("padding_idx");
    std::vector<int64_t> counts(ctx->Attr<bool>("scale_grad_by_freq") ? static_cast<size_t>(entries) : 0);
    return withIndices(ctx->In("indices"), [&](const auto *index) {
      const AxisRows rows(ctx, index, "indices", "weight", 0, "the entries of weight");
      const int64_t padded = padding < 0 ? -1 : rows.range.place(padding);
      return bindTask([=, counts = std::move(counts)](DeviceCtx *dev) mutable {
        using Acc = typename Accumulated<T>::Acc;
        rows.check(dev);
        out.begin(dev);
        out.addRows(dev, values, rows);
        if (padded >= 0 && padded < entries)
          for (int64_t c = 0; c < width; ++c) out.data()[padded * width + c] = Acc(0);
        if (!counts.empty()) {
          std::fill(counts.begin(), counts.end(), 0);
          for (int64_t i = 0; i < rows.n; ++i)
            if (const int64_t place = rows.range.place(index[i]); rows.range.holds(place))
              ++counts[static_cast<size_t>(place)];
          for (int64_t e = 0; e < entries; ++e) {
            const int64_t times = counts[static_cast<size_t>(e)];
            for (int64_t c = 0; times > 1 && c < width; ++c) out.data()[e * width + c] /= static_cast<Acc>(times);
          }
        }
        out.end(dev);
      });
    });
  }

private:
  static std::unique_ptr<BoundKernel> bindOnGpu(KernelBindContext *ctx) {
    return withIndices(ctx->In("indices"), [&](const auto *index) {
      const AxisRows rows(ctx, index, "indices", "weight", 0, "the entries of weight");
      const int64_t padding = ctx->Attr<int64_t>("padding_idx");
      const ScatterForm form{"scatter_add", true, padding < 0 ? -1 : rows.range.place(padding),
                             ctx->Attr<bool>("scale_grad_by_freq")};
      return bindScatterOnGpu(ctx, form, nullptr, ctx->In("dy"), ctx->Out("dx"), rowIndices(ctx, rows));
    });
  }
};

/// The values of weight are not read. With scale_grad_by_freq a part of the indices does not know the whole's counts.
Maybe<ShardingRule> sharding(const SbpContext &ctx) {
  const bool addsUp = !ctx.Attr<bool>("scale_grad_by_freq");
  const int64_t rank = ctx.In("indices").shape().NumAxes();
  const AxisFactors weight{"entries", "d"};
  const AxisFactors indices = addsUp ? axisFactors(rank) : AxisFactors(static_cast<size_t>(rank), ".");
  AxisFactors dy = indices;
  dy.push_back("d");
  const ShardingRule rule = shardingRule({dy, unread(weight), indices}, {weight}, Linear({0}));
  return inOrder({"d", "entries"}, withSums(addsUp ? indices : AxisFactors{}, rule));
}

REGISTER_USER_OP("embedding_grad")
    .GradientOf("embedding")
    .With(TensorArgs{{"dy", "weight", "indices"}, {"dx"}})
    .Attr<int64_t>("padding_idx", -1)
    .Attr<bool>("scale_grad_by_freq", false)
    .With(rules(infer, sharding))
    .Doc("The gradient of embedding: dx has the shape of weight, whose values are not read; dx[e, :] is the sum of "
         "dy[i, :] over the indices[i] that are e, in order, 0 for e = padding_idx, and divided by their number with "
         "scale_grad_by_freq.")
    .Cases({Case("sentence").In("dy", {2, 3, 4}).In("weight", {7, 4}).In("indices", kInt64, {2, 3}, 0, 7),
            Case("padded")
                .In("dy", {9, 4})
                .In("weight", {3, 4})
                .In("indices", kInt32, {9}, 0, 3)
                .Attr<int64_t>("padding_idx", 1)
                .Attr("scale_grad_by_freq", true)})
    .With(accumulating<EmbeddingGradKernel, types::Floating>("dy", "dx"));

/// Linear in dy: each index reads its entry, which the padding entry's zeros cut off; with scale_grad_by_freq divided
/// by how often the entry was looked up.
void embeddingGradGradient(GradientRule &g) {
  if (!g.needs("dy")) return;
  std::string read = g.dy("dx");
  const DataType type = g.desc("weight").data_type();
  const int64_t padding = g.attr<int64_t>("padding_idx"), width = g.shape("weight").At(1),
                entries = g.shape("weight").At(0);
  const auto filled = [&](const Shape &shape, double value, const char *suffix) {
    return g.add("constant", suffix)
        .attr("shape", shape)
        .attr("dtype", type)
        .attr("is_floating_value", true)
        .attr("floating_value", value)
        .out();
  };
  const auto looked = [&](const std::string &a, const char *suffix) {
    return g.add("gather", suffix).in("in", a).in("indices", g.x("indices")).attr("axis", int64_t{0}).out();
  };
  if (padding >= 0 && padding < entries)
    read = g.add("slice_update", "dy_padding")
               .in("ref", read)
               .in("value", filled(Shape{1, width}, 0, "dy_zeros"))
               .attr("start", std::vector<int64_t>{padding, 0})
               .attr("stop", std::vector<int64_t>{padding + 1, width})
               .attr("step", std::vector<int64_t>{1, 1})
               .out("y");
  std::string dy = looked(read, "dy_read");
  if (g.attr<bool>("scale_grad_by_freq")) {
    const Shape &indices = g.shape("indices");
    const std::string counts = g.add("unsorted_segment_sum", "dy_counts")
                                   .in("data", filled(indices, 1, "dy_ones"))
                                   .in("segment_ids", g.x("indices"))
                                   .attr("num_segments", entries)
                                   .out();
    DimVector kept = indices.dim_vec();
    kept.push_back(1);
    dy = binary(g, "broadcast_div", dy, reshaped(g, looked(counts, "dy_times"), indices, Shape(kept), "dy_kept"), "dy");
  }
  g.bind("dy", dy);
}
REGISTER_USER_OP_GRAD("embedding_grad").SetBackwardOpConfGenFn(gradientRule(embeddingGradGradient));

} // namespace
} // namespace opc::ops
