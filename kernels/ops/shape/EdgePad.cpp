// reflection_pad1d, reflection_pad2d, replication_pad1d and replication_pad2d: the last axes extended at their edges.
// SPDX-License-Identifier: Apache-2.0
#include "shape/Pads.h"
#include "support/CudaTask.h"
#include "support/ElementBytes.h"

namespace opc::ops {

using List = std::vector<int64_t>;

Maybe<Pads> padsOfEdge(const OpContext &ctx, const Shape &in, EdgeForm form) {
  const int64_t axes = form.axes;
  const List padding = ctx.Attr<List>("padding");
  if (static_cast<int64_t>(padding.size()) != 2 * axes)
    return (Error("OPC0205") << "padding has " << padding.size() << " entries, not " << 2 * axes)
        .help(axes == 1 ? "padding is (left, right)" : "padding is (left, right, top, bottom)");
  if (in.NumAxes() < axes)
    return Error::ShapeMismatch() << "the input " << in.ToString() << " has fewer than " << axes << " axes";
  const Pads p = JUST(padsOfPairs(padding, in.NumAxes()));
  for (int64_t a = in.NumAxes() - axes; a < in.NumAxes(); ++a)
    for (int64_t pad : {p.before[static_cast<size_t>(a)], p.after[static_cast<size_t>(a)]}) {
      const int64_t limit = form.reflects ? in.At(a) - 1 : INT64_MAX / 4;
      if (pad < 0 || pad > limit || (pad > 0 && in.At(a) == 0))
        return (Error("OPC0205") << "padding " << pad << " of axis " << a << ", which has " << in.At(a) << " entries")
            .help(form.reflects ? "a reflection reaches at most one entry less than the axis has"
                                : "give paddings of 0 or more");
    }
  return p;
}
EdgePads edgePadsOf(const OpContext &ctx, const Shape &in, EdgeForm form) {
  const Pads p = valueOf(padsOfEdge(ctx, in, form));
  const int64_t rank = in.NumAxes(), axes = form.axes;
  const auto sources = [&](int64_t a) {
    std::vector<int64_t> s;
    const int64_t n = in.At(a), before = p.before[static_cast<size_t>(a)], after = p.after[static_cast<size_t>(a)];
    for (int64_t o = 0; o < n + before + after; ++o) {
      int64_t i = o - before;
      if (form.reflects)
        i = i < 0 ? -i : i >= n ? 2 * (n - 1) - i : i;
      else
        i = std::clamp<int64_t>(i, 0, n - 1);
      s.push_back(i);
    }
    return s;
  };
  EdgePads e;
  e.columns = sources(rank - 1);
  e.rows = axes == 2 ? sources(rank - 2) : std::vector<int64_t>{0};
  e.planes = in.Count(0, rank - axes);
  e.inColumns = in.At(rank - 1);
  e.inPlane = in.Count(rank - axes);
  e.left = p.before[static_cast<size_t>(rank - 1)];
  return e;
}
EdgeArguments edgeArguments(const OpContext &ctx, const Shape &in, EdgeForm form, const void *from, void *to) {
  const EdgePads e = edgePadsOf(ctx, in, form);
  EdgeArguments a{};
  a.in = from;
  a.out = to;
  a.planes = e.planes;
  a.width = e.inColumns;
  a.height = form.axes == 2 ? in.At(in.NumAxes() - 2) : 1;
  a.left = e.left;
  a.top = form.axes == 2 ? valueOf(padsOfEdge(ctx, in, form)).before[static_cast<size_t>(in.NumAxes() - 2)] : 0;
  a.outWidth = static_cast<int64_t>(e.columns.size());
  a.outHeight = static_cast<int64_t>(e.rows.size());
  a.reflects = form.reflects;
  return a;
}
namespace {

/// Source positions of each output row and column are worked out at bind time.
template <EdgeForm form> std::unique_ptr<BoundKernel> bindEdgePad(KernelBindContext *ctx) {
  const Tensor &x = ctx->In("x");
  const EdgePads e = edgePadsOf(*ctx, x.shape(), form);
  const void *from = x.raw_dptr();
  void *to = ctx->Out("y").mut_raw_dptr();
  if (isOnGpu(ctx))
    return bindLaunch(ctx, kernelOf("edge_pad", elementSize(x)), ctx->Out("y").shape().elem_cnt(),
                      edgeArguments(*ctx, x.shape(), form, from, to));
  return withElementSize(elementSize(x), [&](auto tag) {
    using T = decltype(tag);
    return bindTask([=](DeviceCtx *dev) {
      const int64_t nRows = static_cast<int64_t>(e.rows.size()), nCols = static_cast<int64_t>(e.columns.size());
      dev->parallelFor(e.planes * nRows, std::max<int64_t>(1, 16384 / std::max<int64_t>(1, nCols)),
                       [&](int64_t begin, int64_t end) {
                         for (int64_t r = begin; r < end; ++r) {
                           const T *src = static_cast<const T *>(from) + r / nRows * e.inPlane +
                                          e.rows[static_cast<size_t>(r % nRows)] * e.inColumns;
                           T *dst = static_cast<T *>(to) + r * nCols;
                           for (int64_t c = 0; c < e.left; ++c) dst[c] = src[e.columns[static_cast<size_t>(c)]];
                           std::copy(src, src + e.inColumns, dst + e.left);
                           for (int64_t c = e.left + e.inColumns; c < nCols; ++c)
                             dst[c] = src[e.columns[static_cast<size_t>(c)]];
                         }
                       });
    });
  });
}

template <EdgeForm form> Maybe<void> infer(InferContext *ctx) {
  const TensorDesc x = ctx->In("x");
  return setOut(ctx, "y",
                TensorDesc(JUST(paddedShape(x.shape(), JUST(padsOfEdge(*ctx, x.shape(), form)))), x.data_type()));
}

template <EdgeForm form> std::function<void(OpRegistry &)> edgePad(Shape in, List padding) {
  return [=](OpRegistry &op) {
    op.With(TensorArgs{{"x"}, {"y"}})
        .RequiredAttr<List>("padding")
        .With(rules(infer<form>, edgeSharding<form>))
        .Doc(std::string(form.reflects ? "Extends the last axes by mirroring at the edge, which is not repeated."
                                       : "Extends the last axes by repeating the edge.") +
             " `padding` is (left, right) or (left, right, top, bottom).")
        .Cases({Case("plain")
                    .In("x", in, 0, 2)
                    .Attr("padding", padding)
                    .Types({kFloat, kDouble, kFloat16, kUInt8, kInt64})})
        .template Kernel<FunctionKernel<bindEdgePad<form>>>()
        .template Kernel<FunctionKernel<bindEdgePad<form>>>(onGpu());
  };
}
REGISTER_USER_OP("reflection_pad1d").With(edgePad<kReflect1d>({2, 3, 5}, {2, 3}));
REGISTER_USER_OP("reflection_pad2d").With(edgePad<kReflect2d>({2, 2, 4, 5}, {2, 1, 1, 3}));
REGISTER_USER_OP("replication_pad1d").With(edgePad<kReplicate1d>({2, 3, 5}, {2, 7}));
REGISTER_USER_OP("replication_pad2d").With(edgePad<kReplicate2d>({2, 2, 4, 5}, {2, 1, 6, 3}));

} // namespace
} // namespace opc::ops
