// tril and triu: the triangles beside a diagonal.
// SPDX-License-Identifier: Apache-2.0
#include "shape/Moves.h"
#include "support/CudaTask.h"
#include "support/ElementBytes.h"
#include "support/SbpRules.h"

namespace opc::ops {
namespace {

Maybe<void> infer(InferContext *ctx) {
  const TensorDesc in = ctx->In("in");
  if (in.shape().NumAxes() < 2)
    return Error::ShapeMismatch() << "the input " << in.shape().ToString() << " has fewer than two axes";
  return setOut(ctx, "out", in);
}

/// Copies the kept part of each row and fills the rest with the element that has these bytes.
template <bool lower> std::unique_ptr<BoundKernel> bindTriangle(KernelBindContext *ctx, uint64_t fill) {
  const Tensor &in = ctx->In("in");
  const Shape &shape = in.shape();
  const int64_t rank = shape.NumAxes();
  // Column c of row i of a piece is on the piece's diagonal c - i: the whole's, less what the piece's rows lie below
  // it.
  const int64_t k =
      ctx->Attr<int64_t>("diagonal") + ctx->ShardBegin("in", 0, rank - 2) - ctx->ShardBegin("in", 0, rank - 1);
  const int64_t rows = shape.At(rank - 2), cols = shape.At(rank - 1), all = shape.Count(0, rank - 1);
  const void *from = in.raw_dptr();
  void *to = ctx->Out("out").mut_raw_dptr();
  if (isOnGpu(ctx))
    return bindLaunch(ctx, kernelOf("triangle", elementSize(in)), all * cols, from, to, fill, all * cols, rows, cols, k,
                      static_cast<int32_t>(!lower));
  return withElementSize(elementSize(in), [&](auto tag) {
    using T = decltype(tag);
    const T value = static_cast<T>(fill);
    return bindTask([=](DeviceCtx *dev) {
      dev->parallelFor(all, std::max<int64_t>(1, 16384 / std::max<int64_t>(1, cols)), [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          const T *src = static_cast<const T *>(from) + r * cols;
          T *dst = static_cast<T *>(to) + r * cols;
          // tril keeps c - i <= k, triu c - i >= k.
          const int64_t i = r % rows, edge = std::clamp<int64_t>(lower ? i + k + 1 : i + k, 0, cols);
          if (lower) {
            if (src != dst) std::copy(src, src + edge, dst);
            std::fill(dst + edge, dst + cols, value);
          } else {
            std::fill(dst, dst + edge, value);
            if (src != dst) std::copy(src + edge, src + cols, dst + edge);
          }
        }
      });
    });
  });
}
std::unique_ptr<BoundKernel> bindTril(KernelBindContext *ctx) {
  const DataType type = ctx->In("in").data_type();
  return bindTriangle<true>(ctx, ctx->Attr<bool>("is_floating_fill_value")
                                     ? elementBits(type, ctx->Attr<double>("floating_fill_value"))
                                     : elementBits(type, ctx->Attr<int64_t>("integer_fill_value")));
}
std::unique_ptr<BoundKernel> bindTriu(KernelBindContext *ctx) { return bindTriangle<false>(ctx, 0); }

/// Sums stay sums when what is filled in is 0.
Maybe<ShardingRule> trilSharding(const SbpContext &ctx) {
  const bool zero = ctx.Attr<bool>("is_floating_fill_value") ? ctx.Attr<double>("floating_fill_value") == 0
                                                             : ctx.Attr<int64_t>("integer_fill_value") == 0;
  return alikeRule(ctx, ctx.In("in").shape().NumAxes(), {}, zero);
}

Maybe<void> checkDiagonal(const UserOpDefWrapper &, const UserOpConfWrapper &conf) {
  const int64_t k = conf.attr<int64_t>("diagonal");
  // i + k must not overflow; no tensor has a diagonal this far out.
  if (k < -(int64_t{1} << 62) || k > (int64_t{1} << 62))
    return Error("OPC0205") << "diagonal is " << k << ", beyond any matrix";
  return Maybe<void>::Ok();
}

/// The definition of tril and triu.
void triangle(OpRegistry &op) {
  op.Input("in").Output("out").Attr<int64_t>("diagonal", 0).SetTensorDescInferFn(infer).SetCheckAttrFn(checkDiagonal);
}
const KernelOptions kInplace = KernelOptions().Inplace("out", "in");

REGISTER_USER_OP("tril")
    .With(triangle)
    .Attr<double>("floating_fill_value", 0.0)
    .Attr<int64_t>("integer_fill_value", 0)
    .Attr<bool>("is_floating_fill_value", false)
    .Sharding(trilSharding)
    .Doc("The last two axes are matrices: entries on and below the given diagonal are kept, the others become the "
         "fill value (0 unless given).")
    .Cases({Case("main").In("in", {4, 5}, 0, 2).Types(kMoved),
            Case("stack").In("in", {2, 4, 3}, 0, 2).Attr<int64_t>("diagonal", 1).Types(kMoved),
            Case("mask")
                .In("in", {5, 5}, 0, 2)
                .Attr("floating_fill_value", -10.0)
                .Attr("is_floating_fill_value", true)
                .Types({kFloat, kDouble, kFloat16})})
    .With(onCpuAndGpu<FunctionKernel<bindTril>>(kInplace));

REGISTER_USER_OP("triu")
    .With(triangle)
    .Sharding("... -> ...", Linear({0}))
    .Doc("The last two axes are matrices: entries on and above the given diagonal are kept, the others become 0.")
    .Cases({Case("main").In("in", {4, 5}, 0, 2).Types(kMoved),
            Case("below").In("in", {2, 4, 3}, 0, 2).Attr<int64_t>("diagonal", -1).Types(kMoved)})
    .With(onCpuAndGpu<FunctionKernel<bindTriu>>(kInplace));

} // namespace
} // namespace opc::ops
