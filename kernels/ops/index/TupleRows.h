// Rows of a tensor that index tuples address: what gather_nd and the scatter_nd operators share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "index/IndexedRows.h"
#include "support/SbpRules.h"

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
  return setOut(ctx, out,
                TensorDesc(JUST(tupleRowShape(ctx->In("indices").shape(), whole.shape())), whole.data_type()));
}

/// The terms of the tensor that tuples address, of the indices, and of the rows; the axes of the indices before the
/// tuples, and those of the tensor that tuples address.
struct TupleFactors {
  AxisFactors tensor, indices, rows, lead, indexed;
  /// `cutsLead`: the tuples may be split.
  TupleFactors(const Shape &shape, int64_t rank, bool cutsLead = true) : tensor(axisFactors(rank)) {
    const int64_t leads = shape.NumAxes() - 1, width = shape.At(leads);
    lead = cutsLead ? axisFactors(leads, {}, "i") : AxisFactors(static_cast<size_t>(leads), ".");
    indexed.assign(tensor.begin(), tensor.begin() + width);
    indices = rows = lead;
    indices.push_back(".");
    rows.insert(rows.end(), tensor.begin() + width, tensor.end());
  }
};

/// Rows that the tuples in the last axis of `indices` address in the tensor of argument `into`. On several devices the
/// axes that they address may be split: each device deals with the tuples that fall into its piece.
template <class I> struct TupleRows {
  const I *data;
  Shape shape; // of the indices
  std::vector<PieceRange> ranges;
  DimVector strides;
  int64_t outer = 1, n, inner, width;

  TupleRows(KernelBindContext *ctx, const I *indices, const char *into)
      : data(indices), shape(ctx->Desc("indices").shape()) {
    const Shape &tensor = ctx->Desc(into).shape();
    width = shape.At(shape.NumAxes() - 1);
    n = shape.Count(0, shape.NumAxes() - 1);
    inner = tensor.Count(width);
    const DimVector all = rowMajorStrides(tensor);
    strides.assign(all.begin(), all.begin() + width);
    for (int64_t k = 0; k < width; ++k) ranges.push_back(pieceRange(ctx, into, k));
  }
  /// The offset of the row that tuple i names; -1 when another device has it.
  int64_t offset(int64_t, int64_t i) const {
    int64_t at = 0;
    for (size_t k = 0; k < ranges.size(); ++k) {
      const int64_t place = ranges[k].place(data[i * width + static_cast<int64_t>(k)]);
      if (!ranges[k].holds(place)) return -1;
      at += place * strides[k];
    }
    return at;
  }
  /// What is said of a wrong number at this place of indices.
  static std::string outside(const Shape &indices, int64_t position, int64_t value, int64_t limit) {
    const int64_t axis = position % indices.At(indices.NumAxes() - 1);
    return outsideText("indices", indices, position, value, limit, "axis " + std::to_string(axis));
  }
  void check(DeviceCtx *dev) const {
    std::atomic<bool> bad{false};
    dev->parallelFor(n, 8192, [&](int64_t b, int64_t e) {
      for (int64_t i = b; i < e; ++i)
        for (int64_t k = 0; k < width; ++k) {
          const I v = data[i * width + k];
          if (v < 0 || static_cast<int64_t>(v) >= ranges[static_cast<size_t>(k)].whole)
            bad.store(true, std::memory_order_relaxed);
        }
    });
    if (!bad.load(std::memory_order_relaxed)) return;
    for (int64_t j = 0; j < n * width; ++j) {
      const int64_t limit = ranges[static_cast<size_t>(j % width)].whole;
      if (data[j] < 0 || static_cast<int64_t>(data[j]) >= limit)
        throw ContractError(outside(shape, j, static_cast<int64_t>(data[j]), limit));
    }
  }
};

} // namespace opc::ops
