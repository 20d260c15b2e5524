// tensor_scatter_nd_update_grad, and the gradient rules of the scatter_nd operators.
// SPDX-License-Identifier: Apache-2.0
#include "index/IndexOnGpu.h"
#include "support/GradientSteps.h"

namespace opc::ops {
namespace {

/// dy where each slice of updates was written, and 0 for those that a later one replaced.
class UpdateGradKernel final : public BindingKernel {
public:
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    const Tensor &dy = ctx->In("dy"), &indices = ctx->In("indices");
    const char *from = static_cast<const char *>(dy.raw_dptr());
    char *to = static_cast<char *>(ctx->Out("dx").mut_raw_dptr());
    const int64_t size = static_cast<int64_t>(elementSize(dy)), places = dy.shape().elem_cnt();
    char *seen = ctx->Tmp<char>();
    return withIndices(indices, [&](const auto *index) -> std::unique_ptr<BoundKernel> {
      const TupleRows rows(ctx, index, "dy");
      if (isOnGpu(ctx)) {
        const RowIndices at = rowIndices(ctx, rows);
        return inOrder(bindLaunch(ctx, "check_rows", rows.n, at),
                       bindWarps(ctx, kernelOf("scatter_update_grad", elementSize(dy)), rows.n, at,
                                 static_cast<const void *>(from), static_cast<void *>(to)));
      }
      return bindTask([=](DeviceCtx *dev) {
        rows.check(dev);
        const int64_t row = rows.inner * size;
        if (row == 0) return;
        std::memset(seen, 0, static_cast<size_t>(places));
        for (int64_t i = rows.n; i-- > 0;) { // backwards: the first visit of a place is the last write to it
          const int64_t at = rows.offset(0, i);
          if (at < 0 || seen[at])
            std::memset(to + i * row, 0, static_cast<size_t>(row));
          else
            std::memcpy(to + i * row, from + at * size, static_cast<size_t>(row));
          if (at >= 0) seen[at] = 1;
        }
      });
    });
  }
};

/// All updates of a place are in one piece, so that each piece knows the last.
Maybe<ShardingRule> sharding(const SbpContext &ctx) {
  const TupleFactors f(ctx.In("indices").shape(), ctx.In("dy").shape().NumAxes(), false);
  return inOrder(f.rows, withSums(f.indexed, shardingRule({f.tensor, f.indices}, {f.rows}, Linear({0}))));
}

REGISTER_USER_OP("tensor_scatter_nd_update_grad")
    .GradientOf("tensor_scatter_nd_update")
    .With(TensorArgs{{"dy", "indices"}, {"dx"}})
    .With(rules([](InferContext *ctx) { return inferTupleRows(ctx, "dy", "dx"); }, sharding))
    .Doc(kTuples +
         "The gradient of tensor_scatter_nd_update by updates: dx holds the slices of dy that the tuples address. Of "
         "equal tuples only the last one counted; the others get 0.")
    .Cases({Case("rows").In("dy", {4, 3}).In("indices", kInt64, {5, 1}, 0, 4).Types({kFloat, kDouble, kFloat16})})
    .Kernel<UpdateGradKernel>(KernelOptions().TmpSize([](InferContext *ctx) {
      return static_cast<size_t>(ctx->In("dy").shape().elem_cnt());
    }))
    .Kernel<UpdateGradKernel>(onGpu());

void sumGradient(GradientRule &g) {
  if (g.needs("params")) g.bind("params", g.dy("out"));
  if (g.needs("updates"))
    g.bind("updates", g.add("gather_nd", "updates").in("params", g.dy("out")).in("indices", g.x("indices")).out());
}
REGISTER_USER_OP_GRAD("scatter_nd").SetBackwardOpConfGenFn(gradientRule(sumGradient));
REGISTER_USER_OP_GRAD("scatter_nd_like").SetBackwardOpConfGenFn(gradientRule(sumGradient));
REGISTER_USER_OP_GRAD("tensor_scatter_nd_add").SetBackwardOpConfGenFn(gradientRule(sumGradient));

std::string updated(GradientRule &g, const std::string &params, const std::string &updates, const char *suffix) {
  return g.add("tensor_scatter_nd_update", suffix)
      .in("params", params)
      .in("updates", updates)
      .in("indices", g.x("indices"))
      .out();
}
/// Of updates for one place the last one counts; the others have no gradient.
void updateGradient(GradientRule &g) {
  if (g.needs("params")) {
    const std::string zeros = g.add("zero_like", "params_zeros").in("like", g.x("updates")).out();
    g.bind("params", updated(g, g.dy("out"), zeros, "params"));
  }
  if (g.needs("updates"))
    g.bind("updates", g.add("tensor_scatter_nd_update_grad", "updates")
                          .in("dy", g.dy("out"))
                          .in("indices", g.x("indices"))
                          .out("dx"));
}
REGISTER_USER_OP_GRAD("tensor_scatter_nd_update").SetBackwardOpConfGenFn(gradientRule(updateGradient));

/// The places that were read, written where they came from: those that were not read get zeros.
void updateGradGradient(GradientRule &g) {
  if (!g.needs("dy")) return;
  const std::string zeros = g.add("zero_like", "dy_zeros").in("like", g.x("dy")).out();
  g.bind("dy", updated(g, zeros, g.dy("dx"), "dy"));
}
REGISTER_USER_OP_GRAD("tensor_scatter_nd_update_grad").SetBackwardOpConfGenFn(gradientRule(updateGradGradient));

} // namespace
} // namespace opc::ops
