// embedding_grad: gradients of looked-up entries added up where they were looked up.
// SPDX-License-Identifier: Apache-2.0
#include "support/Accumulate.h"
#include "support/Axes.h"
#include "support/GradientSteps.h"
#include "support/IndexCheck.h"

namespace opc::ops {
namespace {

Maybe<void> infer(InferContext *ctx) {
  JUST(checkIndexType(ctx, "indices"));
  const TensorDesc dy = ctx->InputTensorDesc("dy", 0), weight = ctx->InputTensorDesc("weight", 0);
  if (weight.shape().NumAxes() != 2)
    return Error::ShapeMismatch() << "weight is " << weight.toString() << ", it should be (entries, width)";
  DimVector dims = ctx->InputShape("indices", 0).dim_vec();
  dims.push_back(weight.shape().At(1));
  if (dy != TensorDesc(Shape(dims), weight.data_type()))
    return Error::ShapeMismatch() << "dy is " << dy.toString() << ", expected "
                                  << TensorDesc(Shape(dims), weight.data_type()).toString()
                                  << ", an entry of weight for each index";
  *ctx->MutOutputTensorDesc("dx", 0) = weight;
  return Maybe<void>::Ok();
}

/// Added in the order of the indices; threads share out the columns (Accumulated::addRows). With scale_grad_by_freq the
/// sum of an entry is divided by how often it was looked up.
template <class T> class EmbeddingGradKernel final : public BindingKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    const Tensor *dy = ctx->Tensor4ArgNameAndIndex("dy", 0), *indices = ctx->Tensor4ArgNameAndIndex("indices", 0);
    const Shape indexShape = indices->shape(), weight = ctx->TensorDesc4ArgNameAndIndex("weight", 0)->shape();
    const int64_t n = indexShape.elem_cnt(), width = weight.At(1), entries = weight.At(0);
    const IndexRange range = indexRange(ctx, "weight", 0);
    const int64_t padded = ctx->Attr<int64_t>("padding_idx"), padding = padded < 0 ? -1 : range.place(padded);
    const bool byFrequency = ctx->Attr<bool>("scale_grad_by_freq");
    Accumulated<T> out(ctx, "dx", nullptr);
    const T *rows = dy->template dptr<T>();
    std::vector<int64_t> counts(byFrequency ? static_cast<size_t>(entries) : 0);
    return withIndexType(indices->data_type(), [&](auto tag) -> std::unique_ptr<user_op::BoundKernel> {
      using I = decltype(tag);
      const I *index = indices->dptr<I>();
      return user_op::bindTask([=, counts = std::move(counts)](DeviceCtx *dev) mutable {
        using Acc = typename Accumulated<T>::Acc;
        checkIndices(dev, index, indexShape, range.whole, "indices", "the entries of weight");
        out.begin(dev);
        out.addRows(dev, rows, 1, n, width, [&](int64_t, int64_t i) {
          const int64_t place = range.place(index[i]);
          return range.holds(place) ? place * width : int64_t{-1};
        });
        if (padding >= 0 && padding < entries)
          for (int64_t c = 0; c < width; ++c) out.data()[padding * width + c] = Acc(0);
        if (byFrequency) {
          std::fill(counts.begin(), counts.end(), 0);
          for (int64_t i = 0; i < n; ++i)
            if (const int64_t place = range.place(index[i]); range.holds(place)) ++counts[static_cast<size_t>(place)];
          for (int64_t e = 0; e < entries; ++e) {
            const int64_t times = counts[static_cast<size_t>(e)];
            for (int64_t c = 0; times > 1 && c < width; ++c) out.data()[e * width + c] /= static_cast<Acc>(times);
          }
        }
        out.end(dev);
      });
    });
  }
};

REGISTER_USER_OP("embedding_grad")
    .GradientOf("embedding")
    .Input("dy")
    .Input("weight")
    .Input("indices")
    .Output("dx")
    .Attr<int64_t>("padding_idx", -1)
    .Attr<bool>("scale_grad_by_freq", false)
    .SetTensorDescInferFn(infer)
    .SetGetSbpFn([](user_op::SbpContext *ctx) -> Maybe<void> {
      const int64_t rank = ctx->LogicalTensorDesc4InputArgNameAndIndex("indices", 0).shape().NumAxes();
      const user_op::OpArg dy("dy", 0), weight("weight", 0), indices("indices", 0), dx("dx", 0);
      ctx->NewBuilder().Split(dy, rank).Split(weight, 1).Broadcast(indices).Split(dx, 1).Build();
      ctx->NewBuilder().Broadcast(dy).Split(weight, 0).Broadcast(indices).Split(dx, 0).Build();
      ctx->NewBuilder().PartialSum(dy).Broadcast(weight).Broadcast(indices).PartialSum(dx).Build();
      if (ctx->Attr<bool>("scale_grad_by_freq")) return Maybe<void>::Ok(); // a part does not know the whole's counts
      for (int64_t a = 0; a < rank; ++a)
        ctx->NewBuilder().Split(dy, a).Broadcast(weight).Split(indices, a).PartialSum(dx).Build();
      return Maybe<void>::Ok();
    })
    .Doc("The gradient of embedding: dx has the shape of weight, whose values are not read; dx[e, :] is the sum of "
         "dy[i, :] over the indices[i] that are e, in order, 0 for e = padding_idx, and divided by their number with "
         "scale_grad_by_freq.")
    .Cases({user_op::Case("sentence").In("dy", {2, 3, 4}).In("weight", {7, 4}).In("indices", kInt64, {2, 3}, 0, 7),
            user_op::Case("padded")
                .In("dy", {9, 4})
                .In("weight", {3, 4})
                .In("indices", kInt32, {9}, 0, 3)
                .Attr<int64_t>("padding_idx", 1)
                .Attr("scale_grad_by_freq", true)});

const CpuKernelOptions kSums{accumulatorSize("dx"), nullptr};
OPC_CPU_KERNELS_WITH("embedding_grad", "dy", kSums, EmbeddingGradKernel, float, double, float16, bfloat16);

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
