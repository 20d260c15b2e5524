// Rows of a tensor that index tuples address: what gather_nd and the scatter_nd operators share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "index/IndexedRows.h"
#include "support/SignatureLists.h"

namespace opc::ops {

inline const std::string kTuples =
    "The last axis of indices (i32 or i64) holds index tuples into the first axes of the tensor. An index outside "
    "its axis is an error at run time. ";

/// indices (..., K) address the first K axes of a tensor of shape `into`; the rows have the axes that remain.
inline Maybe<Shape> tupleRowShape(const Shape &indices, const Shape &into) {
  if (indices.NumAxes() == 0)
    return Error::ShapeMismatch() << "indices has rank 0; its last axis holds the index tuples";
  const int64_t k = indices.At(indices.NumAxes() - 1);
  if (k > into.NumAxes())
    return (Error::ShapeMismatch() << "the index tuples of indices " << indices.ToString() << " have " << k
                                   << " entries, the indexed tensor " << into.ToString() << " has rank "
                                   << into.NumAxes())
        .help("the last axis of indices is at most as long as the rank of the indexed tensor");
  DimVector dims(indices.begin(), indices.end() - 1);
  dims.insert(dims.end(), into.begin() + k, into.end());
  return Shape(dims);
}
/// out = the rows of input `from` that the indices address.
inline Maybe<void> inferTupleRows(InferContext *ctx, const char *from, const char *out) {
  JUST(checkIndexType(ctx, "indices"));
  const TensorDesc whole = ctx->In(from);
  ctx->Out(out) = TensorDesc(JUST(tupleRowShape(ctx->In("indices").shape(), whole.shape())), whole.data_type());
  return Maybe<void>::Ok();
}

/// The axes that the tuples do not address, with factors of their own, in the tensor and in the rows.
struct TupleFactors {
  AxisFactors whole, rows, indices;
  TupleFactors(const Shape &indexShape, int64_t rank) : indices(static_cast<size_t>(indexShape.NumAxes()), ".") {
    const int64_t lead = indexShape.NumAxes() - 1, k = indexShape.At(lead);
    whole = axisFactors(rank);
    std::fill_n(whole.begin(), k, ".");
    rows.assign(static_cast<size_t>(lead), ".");
    rows.insert(rows.end(), whole.begin() + k, whole.end());
  }
};

/// Rows that the tuples in the last axis of `indices` address in a tensor of shape `into`.
template <class I> struct TupleRows {
  const I *data;
  Shape shape; // of the indices
  DimVector limits, strides;
  int64_t outer = 1, n, inner, width;

  TupleRows(const I *indices, const Shape &indexShape, const Shape &into) : data(indices), shape(indexShape) {
    width = shape.At(shape.NumAxes() - 1);
    n = shape.Count(0, shape.NumAxes() - 1);
    inner = into.Count(width);
    const DimVector all = rowMajorStrides(into);
    limits.assign(into.begin(), into.begin() + width);
    strides.assign(all.begin(), all.begin() + width);
  }
  int64_t offset(int64_t, int64_t i) const {
    int64_t at = 0;
    for (int64_t k = 0; k < width; ++k)
      at += static_cast<int64_t>(data[i * width + k]) * strides[static_cast<size_t>(k)];
    return at;
  }
  void check(DeviceCtx *dev) const {
    std::atomic<bool> bad{false};
    dev->parallelFor(n, 8192, [&](int64_t b, int64_t e) {
      for (int64_t i = b; i < e; ++i)
        for (int64_t k = 0; k < width; ++k) {
          const I v = data[i * width + k];
          if (v < 0 || static_cast<int64_t>(v) >= limits[static_cast<size_t>(k)])
            bad.store(true, std::memory_order_relaxed);
        }
    });
    if (!bad.load(std::memory_order_relaxed)) return;
    for (int64_t j = 0; j < n * width; ++j) {
      const int64_t limit = limits[static_cast<size_t>(j % width)];
      if (data[j] < 0 || static_cast<int64_t>(data[j]) >= limit)
        throw ContractError("indices" + positionText(shape, j) + " = " + std::to_string(data[j]) + " is outside [0, " +
                            std::to_string(limit) + "), the range of axis " + std::to_string(j % width));
    }
  }
};

} // namespace opc::ops
