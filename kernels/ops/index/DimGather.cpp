// dim_gather: elements addressed along one axis.
// SPDX-License-Identifier: Apache-2.0
#include "index/IndexOnGpu.h"
#include "support/FunctionKernel.h"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace opc::ops {
namespace {

Maybe<void> infer(InferContext *ctx) {
  JUST(checkIndex(ctx, "input"));
  return setOut(ctx, "output", TensorDesc(ctx->In("index").shape(), ctx->In("input").data_type()));
}

constexpr int64_t kPiece = 2048; // of indices that are checked and then used while they are in the cache

/// The part of a row of index that lies in the output at the same place. Element k is the input's at
/// index[k] * step + k * own, from `from` on. False where an index is outside of the axis.
template <class T, class I>
bool gatherPiece(const I *index, int64_t n, const PieceRange &range, const T *from, int64_t step, int64_t own, T *to) {
  I lo = index[0], hi = index[0]; // no branch in the loop, so that it vectorises
  for (int64_t k = 1; k < n; ++k) {
    lo = std::min(lo, index[k]);
    hi = std::max(hi, index[k]);
  }
  if (lo < 0 || static_cast<int64_t>(hi) >= range.whole) return false;
  if (!range.all()) {
    for (int64_t k = 0; k < n; ++k) {
      const int64_t place = range.place(index[k]);
      to[k] = range.holds(place) ? from[place * step + k * own] : T(0);
    }
  } else if (own == 0) {
    for (int64_t k = 0; k < n; ++k) to[k] = from[static_cast<int64_t>(index[k]) * step];
  } else if (lo == hi) {
    std::memcpy(to, from + static_cast<int64_t>(lo) * step, static_cast<size_t>(n) * sizeof(T));
  } else {
    for (int64_t k = 0; k < n; ++k) to[k] = from[static_cast<int64_t>(index[k]) * step + k];
  }
  return true;
}

/// Rows of neighbouring elements of index: those behind axis dim that are neighbours in the input, too, or the axis
/// itself where nothing is behind it.
template <class I> struct DimRows {
  const I *data; // of index
  Shape indexShape;
  PieceRange range;
  std::vector<StridedDim> indexed; // of the input, for each row
  int64_t count = 0, length = 1, step, own;

  DimRows(KernelBindContext *ctx, const I *indices)
      : data(indices), indexShape(ctx->Desc("index").shape()),
        range(pieceRange(ctx, "input", valueOf(dimOf(*ctx, indexShape)))) {
    const Shape &shape = ctx->Desc("input").shape();
    const int64_t dim = valueOf(dimOf(*ctx, indexShape));
    const DimVector strides = rowMajorStrides(shape);
    step = strides[static_cast<size_t>(dim)];
    int64_t first = indexShape.NumAxes(); // axis of a row
    if (indexShape.Count(dim + 1) == 1) {
      own = 0;
      length = indexShape.At(dim);
      first = dim;
    } else {
      own = 1;
      do length *= indexShape.At(--first);
      while (first - 1 > dim && indexShape.At(first) == shape.At(first));
    }
    for (int64_t a = 0; a < first; ++a)
      indexed.push_back({indexShape.At(a), a == dim ? 0 : strides[static_cast<size_t>(a)]});
    if (length > 0) count = indexShape.elem_cnt() / length;
  }

  template <class T> void gather(DeviceCtx *dev, const T *from, T *to) const {
    if (count == 0) return;
    const int64_t pieces = (length + kPiece - 1) / kPiece, each = std::min(length, kPiece);
    std::atomic<bool> isBad{false};
    dev->parallelFor(count * pieces, std::max<int64_t>(1, 8192 / each), [&](int64_t b, int64_t e) {
      Walk x(indexed, b / pieces);
      for (int64_t job = b, row = b / pieces; job < e; ++job) {
        const int64_t at = job % pieces * kPiece, n = std::min(length - at, kPiece), i = row * length + at;
        if (!gatherPiece(data + i, n, range, from + x.offset + at * own, step, own, to + i))
          isBad.store(true, std::memory_order_relaxed);
        if (at + n == length) x.next(), ++row;
      }
    });
    if (isBad) checkIndices(dev, data, indexShape, range.whole, "index", "the indexed axis"); // which throws
  }
};

std::unique_ptr<BoundKernel> bindDimGather(KernelBindContext *ctx) {
  const Tensor &input = ctx->In("input");
  const void *from = input.raw_dptr();
  void *to = ctx->Out("output").mut_raw_dptr();
  if (isOnGpu(ctx))
    return bindLinesOnGpu(ctx, kernelOf("dim_gather", elementSize(input)), {&input}, ctx->Out("output"), "input",
                          "output", false);
  return withIndices(ctx->In("index"), [&](const auto *indices) {
    const DimRows rows(ctx, indices);
    return withElementSize(elementSize(input), [&](auto tag) {
      using T = decltype(tag);
      return bindTask([=](DeviceCtx *dev) { rows.gather(dev, static_cast<const T *>(from), static_cast<T *>(to)); });
    });
  });
}

/// The indexed axis may be split, which gives partial sums, or that of the indices.
Maybe<ShardingRule> sharding(const SbpContext &ctx) {
  const AxisFactors index = JUST(lineFactors(ctx, "i"));
  return inOrder(index, shardingRule({JUST(lineFactors(ctx, "entries")), index}, {index}, Sum("entries"), Linear({0})));
}

const std::vector<DataType> kMoved = {kFloat, kDouble, kFloat16, kUInt8, kInt64};

REGISTER_USER_OP("dim_gather")
    .With(TensorArgs{{"input", "index"}, {"output"}})
    .RequiredAttr<int32_t>("dim")
    .With(rules(infer, sharding))
    .Doc("output[i, j, k] = input[i, index[i, j, k], k] for dim = 1, and likewise for other axes: PyTorch's gather. "
         "index is i32 or i64; a value outside the axis is an error at run time.")
    .Cases({Case("columns").In("input", {3, 5}).In("index", kInt64, {3, 4}, 0, 5).Attr<int32_t>("dim", 1).Types(kMoved),
            Case("rows").In("input", {4, 5}).In("index", kInt32, {6, 3}, 0, 4).Attr<int32_t>("dim", 0).Types(kMoved),
            Case("middle").In("input", {2, 4, 3, 2}).In("index", kInt64, {2, 5, 3, 2}, 0, 4).Attr<int32_t>("dim", 1),
            Case("thin").In("input", {4, 3}).In("index", kInt32, {6, 1}, 0, 4).Attr<int32_t>("dim", 0),
            Case("one_row").In("input", {2, 3, 8}).In("index", kInt64, {2, 4, 8}, 0, 1).Attr<int32_t>("dim", 1)})
    .With(onCpuAndGpu<FunctionKernel<bindDimGather>>());

} // namespace
} // namespace opc::ops
