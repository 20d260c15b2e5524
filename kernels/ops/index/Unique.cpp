// unique_rows: rows that differ, in memory for as many as there can be.
// SPDX-License-Identifier: Apache-2.0
#include "index/FoundArguments.h"
#include "support/CudaTask.h"
#include "support/ElementOrder.h"
#include "support/Operator.h"
#include "support/SbpRules.h"

#include <algorithm>

namespace opc::ops {
namespace {

Maybe<void> infer(InferContext *ctx) {
  const Shape &in = ctx->In("in").shape();
  if (in.NumAxes() < 1)
    return (Error::ShapeMismatch() << "in has rank 0").help("rows are what lies along the first axis");
  const TensorDesc list(Shape({in.At(0)}), kInt64);
  ctx->Out("first") = list;
  ctx->Out("inverse") = list;
  ctx->Out("counts") = list;
  return setOut(ctx, "output_size", TensorDesc(Shape({1}), kInt64));
}

template <class T> int compareRows(const T *a, const T *b, int64_t inner) {
  for (int64_t k = 0; k < inner; ++k) {
    if (isBelow(a[k], b[k])) return -1;
    if (isBelow(b[k], a[k])) return 1;
  }
  return 0;
}

/// `order` and `place` have room for a number for each row.
template <class T> void findUnique(const T *x, const UniqueArguments &a, int64_t *order, int64_t *place) {
  for (int64_t i = 0; i < a.n; ++i) order[i] = i;
  std::sort(order, order + a.n, [&](int64_t i, int64_t j) {
    const int way = compareRows(x + i * a.inner, x + j * a.inner, a.inner);
    return way < 0 || (way == 0 && i < j);
  });
  int64_t found = 0; // in the order of the rows' elements; the first of equal rows comes first
  for (int64_t k = 0; k < a.n; ++k) {
    const bool isNew = k == 0 || compareRows(x + order[k - 1] * a.inner, x + order[k] * a.inner, a.inner) != 0;
    if (isNew) a.first[found++] = order[k];
    a.inverse[order[k]] = found - 1;
  }
  if (!a.isSorted) {
    // The places of the groups by their first rows.
    for (int64_t g = 0; g < found; ++g) order[g] = g;
    std::sort(order, order + found, [&](int64_t g, int64_t h) { return a.first[g] < a.first[h]; });
    for (int64_t k = 0; k < found; ++k) place[order[k]] = k;
    std::sort(a.first, a.first + found);
    for (int64_t i = 0; i < a.n; ++i) a.inverse[i] = place[a.inverse[i]];
  }
  std::fill(a.first + found, a.first + a.n, int64_t{0});
  std::fill(a.counts, a.counts + a.n, int64_t{0});
  for (int64_t i = 0; i < a.n; ++i) ++a.counts[a.inverse[i]];
  *a.count = found;
}

size_t workspace(InferContext *ctx) { return static_cast<size_t>(ctx->In("in").shape().At(0)) * 2 * sizeof(int64_t); }

template <class T> class UniqueKernel final : public BindingKernel {
public:
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    const Tensor &in = ctx->In("in");
    UniqueArguments a{};
    a.in = in.raw_dptr();
    a.heads = ctx->Tmp<int64_t>();
    a.first = ctx->Out("first").mut_dptr<int64_t>();
    a.inverse = ctx->Out("inverse").mut_dptr<int64_t>();
    a.counts = ctx->Out("counts").mut_dptr<int64_t>();
    a.count = ctx->Out("output_size").mut_dptr<int64_t>();
    a.n = in.shape().At(0);
    a.inner = in.shape().Count(1);
    a.isSorted = ctx->Attr<bool>("sorted");
    if (isOnGpu(ctx)) {
      cuda::CudaLaunch &device = cuda::CudaLaunch::of(ctx->device_ctx());
      const cuda::CudaFunction heads = device.function(kernelOf("unique_heads", in.data_type())),
                               places = device.function(kernelOf("unique_places", in.data_type()));
      return bindTask([=](DeviceCtx *dev) {
        cuda::CudaLaunch &gpu = cuda::CudaLaunch::of(dev);
        gpu.run(heads, cuda::blocksFor(a.n), {cuda::kBlock, 1, 1}, 0, a);
        gpu.run(places, cuda::blocksFor(a.n), {cuda::kBlock, 1, 1}, 0, a);
      });
    }
    const T *x = in.dptr<T>();
    return bindTask([=](DeviceCtx *) { findUnique(x, a, a.heads, a.heads + a.n); });
  }
};

REGISTER_USER_OP("unique_rows")
    .With(TensorArgs{{"in"}, {"first", "inverse", "counts", "output_size"}})
    .Attr<bool>("sorted", true)
    .SetTensorDescInferFn(infer)
    .Sharding([](const SbpContext &ctx) -> Maybe<ShardingRule> {
      const int64_t rank = ctx.In("in").shape().NumAxes();
      return shardingRule({AxisFactors(static_cast<size_t>(rank), ".")}, {{"."}, {"."}, {"."}, {"."}});
    })
    .NoGrad("places are not differentiable")
    .Doc("The rows of in (what lies along its first axis) that differ, in the order of their elements, or with sorted "
         "false in that of their first places: first has the first place of each, inverse for each row its number "
         "among them, counts how often each occurs (all i64). output_size says how many there are; first and counts "
         "are 0 behind them. NaN is above every number and equal to itself.")
    .Cases({Case("list").In("in", {30}, -3, 3).Types({kFloat, kInt64, kUInt8, kFloat16}),
            Case("rows").In("in", kInt32, {300, 2}, 0, 4),
            Case("places").In("in", kInt32, {40, 1, 2}, 0, 3).Attr("sorted", false), Case("empty").In("in", {0})})
    .With(onCpuAndGpu<UniqueKernel, types::Numbers>("in", KernelOptions().TmpSize(workspace)));

} // namespace
} // namespace opc::ops
