// dim_gather: elements addressed along one axis.
// SPDX-License-Identifier: Apache-2.0
#include "index/IndexOnGpu.h"

namespace opc::ops {
namespace {

Maybe<void> infer(InferContext *ctx) {
  JUST(checkIndex(ctx, "input"));
  ctx->Out("output") = TensorDesc(ctx->In("index").shape(), ctx->In("input").data_type());
  return Maybe<void>::Ok();
}

class DimGatherKernel final : public BindingKernel {
public:
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    const Tensor &input = ctx->In("input");
    const void *from = input.raw_dptr();
    void *to = ctx->Out("output").mut_raw_dptr();
    if (isOnGpu(ctx))
      return bindLinesOnGpu(ctx, kernelOf("dim_gather", elementSize(input)), {&input}, ctx->Out("output"), "input",
                            "output", false);
    return withIndices(ctx->In("index"), [&](const auto *indices) {
      const DimLines lines(ctx, indices, "input", "output");
      return withElementSize(elementSize(input), [&](auto tag) {
        using T = decltype(tag);
        return bindTask([=](DeviceCtx *dev) {
          lines.check(dev);
          lines.forEach(dev, [&](int64_t i, int64_t x, int64_t o) {
            for (int64_t k = 0; k < lines.length; ++k) {
              const int64_t place = lines.range.place(indices[i + k * lines.indexStep]);
              static_cast<T *>(to)[o + k * lines.otherStep] =
                  lines.range.holds(place) ? static_cast<const T *>(from)[x + place * lines.indexedStep] : T(0);
            }
          });
        });
      });
    });
  }
};

/// The indexed axis may be split, which gives partial sums, or that of the indices. Listed, because a rule would give
/// another order.
Maybe<void> listSignatures(SbpContext *ctx) {
  using namespace sbp;
  const int64_t dim = JUST(dimOf(*ctx, ctx->In("input").shape()));
  for (int64_t a : JUST(alikeAxes(*ctx))) addSignature(ctx, {S(a), S(a), S(a)});
  addSignature(ctx, {B, S(dim), S(dim)});
  addSignature(ctx, {S(dim), B, P});
  addSignature(ctx, {P, B, P});
  return Maybe<void>::Ok();
}

const std::vector<DataType> kMoved = {kFloat, kDouble, kFloat16, kUInt8, kInt64};

REGISTER_USER_OP("dim_gather")
    .Input("input")
    .Input("index")
    .Output("output")
    .RequiredAttr<int32_t>("dim")
    .SetTensorDescInferFn(infer)
    .SetGetSbpFn(listSignatures)
    .Doc("output[i, j, k] = input[i, index[i, j, k], k] for dim = 1, and likewise for other axes: PyTorch's gather. "
         "index is i32 or i64; a value outside the axis is an error at run time.")
    .Cases({Case("columns").In("input", {3, 5}).In("index", kInt64, {3, 4}, 0, 5).Attr<int32_t>("dim", 1).Types(kMoved),
            Case("rows").In("input", {4, 5}).In("index", kInt32, {6, 3}, 0, 4).Attr<int32_t>("dim", 0).Types(kMoved)})
    .Kernel<DimGatherKernel>()
    .Kernel<DimGatherKernel>(onGpu());

} // namespace
} // namespace opc::ops
