// Gathers and scatters on GPUs.
// SPDX-License-Identifier: Apache-2.0
#include "index/IndexOnGpu.h"

namespace opc::ops {

std::unique_ptr<BoundKernel> bindGatherOnGpu(KernelBindContext *ctx, const Tensor &in, Tensor &out, RowIndices rows) {
  const void *from = in.raw_dptr();
  void *to = out.mut_raw_dptr();
  // Of bytes that rows and addresses are multiples of.
  const int64_t bytes = rows.inner * static_cast<int64_t>(elementSize(in));
  const uint64_t all =
      static_cast<uint64_t>(bytes) | reinterpret_cast<uintptr_t>(from) | reinterpret_cast<uintptr_t>(to);
  size_t unit = 16;
  while (all % unit != 0) unit /= 2;
  rows.inner = bytes / static_cast<int64_t>(unit);
  return bindLaunch(ctx, kernelOf("gather", unit), rows.outer * rows.n * rows.inner, rows, from, to);
}

std::unique_ptr<BoundKernel> bindScatterOnGpu(KernelBindContext *ctx, const ScatterForm &form, const Tensor *base,
                                              const Tensor &values, Tensor &out, const RowIndices &rows) {
  ScatterArguments a{};
  a.at = rows;
  a.base = base ? base->raw_dptr() : nullptr;
  a.values = values.raw_dptr();
  a.out = out.mut_raw_dptr();
  a.padded = form.padded;
  a.isMean = form.isMean;
  const std::string kernel =
      form.isByType ? kernelOf(form.kernel, values.data_type()) : kernelOf(form.kernel, elementSize(values));
  const int64_t parts = rows.inner == 0 ? 0 : rows.outer * rows.rows * ((rows.inner + 31) / 32);
  return inOrder(bindLaunch(ctx, "check_rows", rows.n * (rows.step ? rows.outer : 1), rows),
                 bindWarps(ctx, kernel, parts, a));
}

std::unique_ptr<BoundKernel> bindLinesOnGpu(KernelBindContext *ctx, const std::string &kernel,
                                            const std::vector<const Tensor *> &inputs, Tensor &out,
                                            const char *indexedArg, const char *otherArg, bool isByResult) {
  const Tensor &index = ctx->In("index");
  LineArguments a{};
  a.at = withIndices(index, [&](const auto *indices) {
    const DimLines lines(ctx, indices, indexedArg, otherArg);
    LineIndices at{};
    at.data = indices;
    at.fault = watchIndices(ctx, "index", lines.indexShape, lines.range.whole, "the indexed axis");
    at.n = lines.indexShape.elem_cnt();
    at.length = lines.length;
    at.begin = lines.range.begin;
    at.size = lines.range.size;
    at.whole = lines.range.whole;
    at.indexStep = lines.indexStep;
    at.indexedStep = lines.indexedStep;
    at.otherStep = lines.otherStep;
    at.rank = static_cast<int32_t>(lines.indexShape.NumAxes());
    at.dim = static_cast<int32_t>(valueOf(dimOf(*ctx, lines.indexShape)));
    at.isWide = sizeof(*indices) == 8;
    size_t d = 0; // among the axes that are not dim
    for (int32_t axis = 0; axis < at.rank; ++axis) {
      at.dims[axis] = lines.indexShape.At(axis);
      at.indexedDims[axis] = ctx->Desc(indexedArg).shape().At(axis);
      if (axis == at.dim) continue;
      at.indexStrides[axis] = lines.index[d].stride;
      at.indexedStrides[axis] = lines.indexed[d].stride;
      at.otherStrides[axis] = lines.other[d++].stride;
    }
    return at;
  });
  for (size_t i = 0; i < inputs.size(); ++i) a.in[i] = inputs[i] ? inputs[i]->raw_dptr() : nullptr;
  a.out = out.mut_raw_dptr();
  a.count = out.shape().elem_cnt();
  if (!isByResult) return bindLaunch(ctx, kernel, a.at.n, a); // which looks at each index once
  return inOrder(bindLaunch(ctx, "check_lines", a.at.n, a.at), bindLaunch(ctx, kernel, a.count, a));
}

} // namespace opc::ops
