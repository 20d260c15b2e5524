// The host side of device code that goes by indices.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "index/DimLines.h"
#include "index/IndexArguments.h"
#include "index/TupleRows.h"
#include "support/Accumulate.h"
#include "support/CudaTask.h"
#include "support/IndexWatch.h"

namespace opc::ops {

/// What device code is given for rows that indices name.
template <class I> RowIndices rowIndices(KernelBindContext *ctx, const AxisRows<I> &rows) {
  RowIndices a{};
  a.data = rows.data;
  a.fault = watchIndices(ctx, rows.arg, rows.shape, rows.range.whole, rows.into);
  a.outer = rows.outer;
  a.n = rows.n;
  a.inner = rows.inner;
  a.step = rows.step;
  a.rows = rows.range.size;
  a.width = 1;
  a.isWide = sizeof(I) == 8;
  a.begin[0] = rows.range.begin;
  a.size[0] = rows.range.size;
  a.whole[0] = rows.range.whole;
  a.strides[0] = 1;
  return a;
}
template <class I> RowIndices rowIndices(KernelBindContext *ctx, const TupleRows<I> &rows) {
  RowIndices a{};
  a.data = rows.data;
  std::vector<int64_t> limits;
  for (const PieceRange &r : rows.ranges) limits.push_back(r.whole);
  a.fault =
      cuda::CudaLaunch::of(ctx->device_ctx())
          .watch(*ctx, "indices", [shape = rows.shape, limits](int64_t position, int64_t value) {
            return TupleRows<I>::outside(shape, position, value, limits[static_cast<size_t>(position) % limits.size()]);
          });
  a.outer = 1;
  a.n = rows.n;
  a.inner = rows.inner;
  a.rows = 1;
  a.width = static_cast<int32_t>(rows.width);
  a.isWide = sizeof(I) == 8;
  for (size_t k = rows.ranges.size(); k-- > 0;) {
    a.begin[k] = rows.ranges[k].begin;
    a.size[k] = rows.ranges[k].size;
    a.whole[k] = rows.ranges[k].whole;
    a.strides[k] = a.rows;
    a.rows *= a.size[k];
  }
  return a;
}

/// out = the rows of `in` that the indices name, in accesses of up to 16 bytes.
std::unique_ptr<BoundKernel> bindGatherOnGpu(KernelBindContext *ctx, const Tensor &in, Tensor &out, RowIndices rows);
/// `values` put to where the indices say, into a copy of `base` or, when null, zeros.
struct ScatterForm {
  const char *kernel; // of device code: scatter_add, scatter_update
  bool isByType;      // whether its name ends in the element type, else in the size
  int64_t padded = -1;
  bool isMean = false;
};
std::unique_ptr<BoundKernel> bindScatterOnGpu(KernelBindContext *ctx, const ScatterForm &form, const Tensor *base,
                                              const Tensor &values, Tensor &out, const RowIndices &rows);

/// The kernels of a scatter that adds up values of argument `values` in `out`, on the CPU and on GPUs.
template <template <class> class K, class Types = types::Numbers>
auto accumulating(const char *values, const char *out) {
  return
      [=](OpRegistry &op) { op.Kernel<K, Types>(values, accumulates(out)).template Kernel<K, Types>(values, onGpu()); };
}

/// The task of device code over lines: its inputs and its output, whose elements it goes over when `isByResult`, else
/// over those of index. All indices are checked.
std::unique_ptr<BoundKernel> bindLinesOnGpu(KernelBindContext *ctx, const std::string &kernel,
                                            const std::vector<const Tensor *> &inputs, Tensor &out,
                                            const char *indexedArg, const char *otherArg, bool isByResult);

} // namespace opc::ops
